/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/s3_request.h"

#include "archive/archive_url.h"
#include "base/alloc.h"
#include "base/text.h"
#include <inttypes.h>
#include <openssl/evp.h>

#define PARTS_PAGE 1000

void s3_sha256_format(const unsigned char digest[static 32], char ret[static ARCHIVE_SHA256_SIZE])
{
    for (size_t i = 0; i < 32; i++)
        sprintf(ret + 2 * i, "%02x", digest[i]);
}

static void s3_text_add(struct s3_text *t, const char *format, ...) _printf_(2, 3);
static void s3_text_add(struct s3_text *t, const char *format, ...)
{
    va_list ap;

    if (t->n_headers == S3_HEADERS_MAX)
        abort(); /* the tables below have fewer */
    va_start(ap, format);
    t->headers[t->n_headers++] = xvasprintf(format, ap);
    va_end(ap);
}

/* A member of the query, in the order of names. */
static void s3_text_query(struct s3_text *t, const char *name, const char *value)
{
    append_str(&t->url, "%c%s=", strchr(t->url, '?') ? '&' : '?', name);
    append_url_escaped(&t->url, value);
}

static void s3_text_query_number(struct s3_text *t, const char *name, unsigned value)
{
    _cleanup_(freep) char *text = xasprintf("%u", value);
    s3_text_query(t, name, text);
}

/* -- Verbs -------------------------------------------------------------------------------------------- */

struct s3_build {
    const struct s3_service *service;
    const struct archive_request *q;
    const struct s3_progress *progress;
};

static void s3_text_encryption(const struct s3_build *b, struct s3_text *t)
{
    if (b->service->encryption)
        s3_text_add(t, "x-amz-server-side-encryption: %s", b->service->encryption);
    if (b->service->encryption && b->service->kms_key)
        s3_text_add(t, "x-amz-server-side-encryption-aws-kms-key-id: %s", b->service->kms_key);
}

static void s3_build_put(const struct s3_build *b, struct s3_text *t)
{
    s3_text_add(t, "Content-Type: application/octet-stream");
    if (b->q->exclusive)
        s3_text_add(t, "If-None-Match: *");
    s3_text_add(t, "x-amz-meta-sha256: %s", t->sha256);
    s3_text_encryption(b, t);
}

/* An attempt goes on where the one before broke, if the object is still the same. */
static void s3_build_get(const struct s3_build *b, struct s3_text *t)
{
    uint64_t first = b->q->offset + b->progress->got;

    if (b->q->size > 0)
        s3_text_add(t, "Range: bytes=%" PRIu64 "-%" PRIu64, first, b->q->offset + b->q->size - 1);
    else if (first > 0)
        s3_text_add(t, "Range: bytes=%" PRIu64 "-", first);
    if (b->progress->got > 0)
        s3_text_add(t, "If-Match: \"%s\"", b->progress->etag);
}

static void s3_build_list(const struct s3_build *b, struct s3_text *t)
{
    _cleanup_(freep) char *prefix = xasprintf("%s%s", b->service->prefix, b->q->key);

    if (b->q->after)
        s3_text_query(t, "continuation-token", b->q->after);
    s3_text_query(t, "encoding-type", "url");
    s3_text_query(t, "list-type", "2");
    s3_text_query_number(t, "max-keys", b->q->max ? b->q->max : ARCHIVE_LIST_MAX);
    s3_text_query(t, "prefix", prefix);
}

static void s3_build_create(const struct s3_build *b, struct s3_text *t)
{
    s3_text_query(t, "uploads", "");
    s3_text_add(t, "Content-Type: application/octet-stream");
    if (b->q->sha256)
        s3_text_add(t, "x-amz-meta-sha256: %s", b->q->sha256);
    s3_text_encryption(b, t);
    t->body = xstrdup("");
}

static void s3_build_part(const struct s3_build *b, struct s3_text *t)
{
    s3_text_query_number(t, "partNumber", b->q->part);
    s3_text_query(t, "uploadId", b->q->upload_id);
    s3_text_add(t, "Content-Type: application/octet-stream");
}

static void s3_build_parts(const struct s3_build *b, struct s3_text *t)
{
    s3_text_query_number(t, "max-parts", PARTS_PAGE);
    if (b->q->after)
        s3_text_query(t, "part-number-marker", b->q->after);
    s3_text_query(t, "uploadId", b->q->upload_id);
}

static void s3_build_complete(const struct s3_build *b, struct s3_text *t)
{
    size_t size;
    FILE *out = xmemstream(&t->body, &size);

    s3_text_query(t, "uploadId", b->q->upload_id);
    s3_text_add(t, "Content-Type: application/xml");
    fputs("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">", out);
    for (size_t i = 0; i < b->q->n_parts; i++)
        fprintf(out, "<Part><PartNumber>%u</PartNumber><ETag>\"%s\"</ETag></Part>", b->q->parts[i].number,
                b->q->parts[i].etag);
    fputs("</CompleteMultipartUpload>", out);
    fclose(out);
}

static void s3_build_abort(const struct s3_build *b, struct s3_text *t)
{
    s3_text_query(t, "uploadId", b->q->upload_id);
}

static const struct {
    const char *method, *text, *permission;
    void (*build)(const struct s3_build *b, struct s3_text *t); /* NULL: no more than the URL of the key */
    bool has_file, is_of_bucket;
} verbs[_ARCHIVE_VERB_MAX] = {
    [ARCHIVE_PUT] = {"PUT", "upload", "s3:PutObject", s3_build_put, .has_file = true},
    [ARCHIVE_HEAD] = {"HEAD", "look up", "s3:GetObject", NULL},
    [ARCHIVE_GET] = {"GET", "download", "s3:GetObject", s3_build_get},
    [ARCHIVE_DELETE] = {"DELETE", "delete", "s3:DeleteObject", NULL},
    [ARCHIVE_LIST] = {"GET", "list", "s3:ListBucket", s3_build_list, .is_of_bucket = true},
    [ARCHIVE_UPLOAD_CREATE] = {"POST", "create the upload of", "s3:PutObject", s3_build_create},
    [ARCHIVE_UPLOAD_PART] = {"PUT", "upload a part of", "s3:PutObject", s3_build_part, .has_file = true},
    [ARCHIVE_UPLOAD_PARTS] = {"GET", "list the parts of", "s3:ListMultipartUploadParts", s3_build_parts},
    [ARCHIVE_UPLOAD_COMPLETE] = {"POST", "complete the upload of", "s3:PutObject", s3_build_complete},
    [ARCHIVE_UPLOAD_ABORT] = {"DELETE", "abort the upload of", "s3:AbortMultipartUpload", s3_build_abort},
};

const char *s3_permission(enum archive_verb verb)
{
    return verbs[verb].permission;
}

const char *s3_verb_text(enum archive_verb verb)
{
    return verbs[verb].text;
}

static void s3_text_hash_body(struct s3_text *t)
{
    unsigned char digest[EVP_MAX_MD_SIZE];

    if (EVP_Digest(t->body, strlen(t->body), digest, NULL, EVP_sha256(), NULL) != 1)
        out_of_memory();
    s3_sha256_format(digest, t->sha256);
}

void s3_text_build(const struct s3_service *s, const struct archive_request *q,
                   const struct s3_progress *progress, const char *sha256, struct s3_text *ret)
{
    const struct s3_build b = {s, q, progress};
    struct s3_text t = {.method = verbs[q->verb].method, .has_file = verbs[q->verb].has_file};

    t.url = xasprintf("%s/", s->root);
    if (!verbs[q->verb].is_of_bucket) {
        archive_append_path(&t.url, s->prefix);
        archive_append_path(&t.url, q->key);
    }
    snprintf(t.sha256, sizeof(t.sha256), "%s", t.has_file ? sha256 : S3_SHA256_OF_NOTHING);
    if (verbs[q->verb].build)
        verbs[q->verb].build(&b, &t);
    if (t.body)
        s3_text_hash_body(&t);
    s3_text_add(&t, "x-amz-content-sha256: %s", t.sha256);
    *ret = t;
}

void s3_text_done(struct s3_text *t)
{
    for (size_t i = 0; i < t->n_headers; i++)
        free(t->headers[i]);
    free(t->url);
    free(t->body);
    *t = (struct s3_text){0};
}
