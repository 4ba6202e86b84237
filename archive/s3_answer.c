/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/s3_answer.h"

#include "archive/archive_url.h"
#include "base/alloc.h"
#include "base/fs.h"
#include <errno.h>

#define HASH_BLOCK_SIZE (256u << 10)

/* -- Lists -------------------------------------------------------------------------------------------- */

static int s3_hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;

    return at ? (int)(at - digits) : -1;
}

bool s3_key_decode(char *key)
{
    char *out = key;

    for (const char *in = key; *in; in++) {
        if (*in != '%') {
            *out++ = *in == '+' ? ' ' : *in;
            continue;
        }
        int high = s3_hex_digit(in[1]), low = high < 0 ? -1 : s3_hex_digit(in[2]);
        if (low < 0 || (high == 0 && low == 0))
            return false;
        *out++ = (char)(high << 4 | low);
        in += 2;
    }
    *out = '\0';
    return true;
}

static bool s3_text_is_word(const char *text, size_t max)
{
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return n > 0 && n <= max;
}

/* A next page that is the same page would be read for ever. */
static int s3_answer_next(const struct s3_answer *a, struct archive_result *ret, const char **why)
{
    if (!a->xml->is_truncated)
        return 0;
    *why = "the list is cut, and the answer does not say where it goes on";
    if (!a->xml->next || !*a->xml->next || streq(a->xml->next, a->q->after))
        return -EPROTO;
    ret->next = xstrdup(a->xml->next);
    return 0;
}

static int s3_answer_objects(const struct s3_answer *a, struct archive_result *ret, const char **why)
{
    size_t n_prefix = strlen(a->service->prefix), n_asked = strlen(a->q->key);
    bool is_encoded = streq(a->xml->encoding, "url");

    if (a->xml->n_objects > (a->q->max ? a->q->max : ARCHIVE_LIST_MAX)) {
        *why = "the list has more members than were asked for";
        return -EPROTO;
    }
    for (size_t i = 0; i < a->xml->n_objects; i++) {
        const struct s3_xml_object *from = &a->xml->objects[i];
        struct archive_object object = {.size = from->size};
        _cleanup_(freep) char *key = xstrdup(from->key ? from->key : "");
        *why = "the list has a key that was not asked for";
        if ((is_encoded && !s3_key_decode(key)) || strncmp(key, a->service->prefix, n_prefix) != 0 ||
            strncmp(key + n_prefix, a->q->key, n_asked) != 0)
            return -EPROTO;
        if (!archive_key_is_valid(key + n_prefix) || !from->etag || !s3_etag_parse(from->etag, object.etag)) {
            ret->n_skipped++;
            continue;
        }
        object.key = xstrdup(key + n_prefix);
        object.modified_s = from->modified ? s3_date_parse(from->modified) : 0;
        VEC_GROW(ret->objects, ret->n_objects, ret->cap_objects);
        ret->objects[ret->n_objects++] = object;
    }
    return s3_answer_next(a, ret, why);
}

static int s3_answer_parts(const struct s3_answer *a, struct archive_result *ret, const char **why)
{
    uint64_t last = 0;

    if (a->q->after && !s3_number_parse(a->q->after, &last))
        last = 0;
    for (size_t i = 0; i < a->xml->n_parts; i++) {
        const struct s3_xml_part *from = &a->xml->parts[i];
        struct archive_part part = {.number = (unsigned)from->number, .size = from->size};
        *why = "the list of parts is not in order";
        if (from->number <= last || from->number > ARCHIVE_PARTS_MAX || !from->etag ||
            !s3_etag_parse(from->etag, part.etag))
            return -EPROTO;
        last = from->number;
        VEC_GROW(ret->parts, ret->n_parts, ret->cap_parts);
        ret->parts[ret->n_parts++] = part;
    }
    return s3_answer_next(a, ret, why);
}

/* -- Other answers ------------------------------------------------------------------------------------ */

static int s3_answer_stored(const struct s3_answer *a, struct archive_result *ret, const char **why)
{
    *why = "the answer has no entity tag";
    if (!a->head->etag[0])
        return -EPROTO;
    ret->object.size = a->q->size;
    memcpy(ret->object.etag, a->head->etag, sizeof(ret->object.etag));
    snprintf(ret->object.sha256, sizeof(ret->object.sha256), "%s", a->sha256);
    return 0;
}

static int s3_answer_head(const struct s3_answer *a, struct archive_result *ret, const char **why)
{
    *why = "the answer has no length or no entity tag";
    if (!a->head->has_length || !a->head->etag[0])
        return -EPROTO;
    ret->object.size = a->head->length;
    ret->object.modified_s = a->head->modified_s;
    memcpy(ret->object.etag, a->head->etag, sizeof(ret->object.etag));
    memcpy(ret->object.sha256, a->head->sha256, sizeof(ret->object.sha256));
    return 0;
}

static int s3_answer_created(const struct s3_answer *a, struct archive_result *ret, const char **why)
{
    *why = "the answer has no id of an upload";
    if (!a->xml->upload_id || !s3_text_is_word(a->xml->upload_id, S3_UPLOAD_ID_MAX))
        return -EPROTO;
    ret->upload_id = xstrdup(a->xml->upload_id);
    return 0;
}

/* Ceph leaves the entity tag of a complete upload empty. */
static int s3_answer_completed(const struct s3_answer *a, struct archive_result *ret, const char **why)
{
    if (!a->xml->etag || !s3_etag_parse(a->xml->etag, ret->object.etag))
        ret->object.etag[0] = '\0';
    return 0;
}

static int s3_answer_nothing(const struct s3_answer *a, struct archive_result *ret, const char **why)
{
    return 0;
}

static const struct {
    int (*take)(const struct s3_answer *a, struct archive_result *ret, const char **why);
    enum s3_document document;
} takers[_ARCHIVE_VERB_MAX] = {
    [ARCHIVE_PUT] = {s3_answer_stored, S3_DOCUMENT_NONE},
    [ARCHIVE_HEAD] = {s3_answer_head, S3_DOCUMENT_NONE},
    [ARCHIVE_DELETE] = {s3_answer_nothing, S3_DOCUMENT_NONE},
    [ARCHIVE_LIST] = {s3_answer_objects, S3_DOCUMENT_OBJECTS},
    [ARCHIVE_UPLOAD_CREATE] = {s3_answer_created, S3_DOCUMENT_CREATED},
    [ARCHIVE_UPLOAD_PART] = {s3_answer_stored, S3_DOCUMENT_NONE},
    [ARCHIVE_UPLOAD_PARTS] = {s3_answer_parts, S3_DOCUMENT_PARTS},
    [ARCHIVE_UPLOAD_COMPLETE] = {s3_answer_completed, S3_DOCUMENT_COMPLETED},
    [ARCHIVE_UPLOAD_ABORT] = {s3_answer_nothing, S3_DOCUMENT_NONE},
};

int s3_answer_take(const struct s3_answer *a, struct archive_result *ret, const char **why)
{
    enum s3_document document = takers[a->q->verb].document;

    *why = a->xml_error ? a->xml_error : "the answer is another document than S3's";
    if (document != S3_DOCUMENT_NONE && (a->xml_error || a->xml->document != document))
        return -EPROTO;
    return takers[a->q->verb].take(a, ret, why);
}

/* -- Downloads ---------------------------------------------------------------------------------------- */

int s3_content_hash(int fd, uint64_t offset, uint64_t size, char ret[static ARCHIVE_SHA256_SIZE])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    _cleanup_(freep) char *block = malloc(HASH_BLOCK_SIZE);
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    int r = 0;

    if (!block || !hash || EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1)
        out_of_memory();
    for (uint64_t done = 0; done < size && r == 0;) {
        size_t wanted = (size_t)MIN((uint64_t)HASH_BLOCK_SIZE, size - done);
        ssize_t n = pread_full(fd, block, wanted, offset + done);
        if (n < 0)
            r = (int)n;
        else if ((size_t)n < wanted)
            r = -ESTALE;
        else
            EVP_DigestUpdate(hash, block, wanted);
        done += wanted;
    }
    EVP_DigestFinal_ex(hash, digest, NULL);
    EVP_MD_CTX_free(hash);
    s3_sha256_format(digest, ret);
    return r;
}

void s3_download_done(struct s3_download *d)
{
    EVP_MD_CTX_free(d->hash);
    *d = (struct s3_download){0};
}

void s3_download_rewind(struct s3_download *d)
{
    if (d->got > 0 && !d->etag[0])
        s3_download_done(d);
}

/* The bytes that the answer announces, counted from the request's offset. */
static int s3_download_expect(const struct s3_download *d, const struct archive_request *q,
                              const struct s3_head *h, uint64_t *ret_end, uint64_t *ret_total,
                              const char **why)
{
    uint64_t first = q->offset + d->got;
    bool is_range = first > 0 || q->size > 0;

    *why = "the answer is not the range that was asked for";
    if (is_range != (h->status == 206) || (is_range && (!h->has_range || h->first != first)))
        return -EPROTO;
    *why = "the answer announces no length";
    if (!is_range && !h->has_length)
        return -EPROTO;
    *ret_total = is_range ? h->total : h->length;
    *ret_end = is_range ? h->last + 1 - q->offset : h->length;
    *why = "the answer's length and range contradict each other";
    if (is_range && h->has_length && h->length != h->last + 1 - h->first)
        return -EPROTO;
    *why = "the answer is not the range that was asked for";
    if (is_range && *ret_end != (q->size > 0 ? MIN(q->size, h->total - q->offset) : h->total - q->offset))
        return -EPROTO;
    return 0;
}

int s3_download_begin(struct s3_download *d, const struct archive_request *q, const struct s3_head *h,
                      const char **why)
{
    uint64_t end = 0, total = 0;
    int r = s3_download_expect(d, q, h, &end, &total, why);

    if (r < 0)
        return r;
    *why = "the object changed during the download";
    if (d->got > 0 && (!streq(d->etag, h->etag) || d->total != total || d->expected != end))
        return -ESTALE;
    *why = "the object is larger than permitted";
    if (q->size_max > 0 && end > q->size_max)
        return -EFBIG;
    d->expected = end;
    d->total = total;
    d->modified_s = h->modified_s;
    memcpy(d->etag, h->etag, sizeof(d->etag));
    memcpy(d->sha256, h->sha256, sizeof(d->sha256));
    if (!d->hash) {
        d->hash = EVP_MD_CTX_new();
        if (!d->hash || EVP_DigestInit_ex(d->hash, EVP_sha256(), NULL) != 1)
            out_of_memory();
    }
    return 0;
}

int s3_download_write(struct s3_download *d, const struct archive_request *q, const char *data, size_t size,
                      const char **why)
{
    *why = "the answer has more bytes than it announced";
    if (size > d->expected - d->got)
        return -EPROTO;
    int r = pwrite_full(q->fd, data, size, d->got);
    if (r < 0) {
        *why = r == -ENOSPC ? "no space left on the device of the file" : "writing the file failed";
        return r;
    }
    EVP_DigestUpdate(d->hash, data, size);
    d->got += size;
    return 0;
}

int s3_download_end(struct s3_download *d, const struct archive_request *q, struct archive_object *ret,
                    const char **why)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    bool is_all = q->offset == 0 && d->expected == d->total;
    const char *wanted = q->sha256 ? q->sha256 : is_all && d->sha256[0] ? d->sha256 : NULL;

    *why = "the answer is shorter than it announced";
    if (d->got < d->expected)
        return -ECONNRESET;
    EVP_DigestFinal_ex(d->hash, digest, NULL);
    s3_sha256_format(digest, ret->sha256);
    *why = "the SHA-256 of the content is not the expected one";
    if (wanted && !streq(wanted, ret->sha256))
        return -EBADMSG;
    ret->size = d->got;
    ret->modified_s = d->modified_s;
    memcpy(ret->etag, d->etag, sizeof(ret->etag));
    return 0;
}
