/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/archive.h"

#include "archive/archive_internal.h"
#include "archive/s3_xml.h"
#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include <curl/curl.h>
#include <errno.h>
#include <time.h>

#define REGION_DEFAULT "us-east-1"
#define KMS_CURL_LEAST 0x080a00

/* -- Settings ----------------------------------------------------------------------------------------- */

static int archive_setting_fail(struct problem *p, const char *key, const char *value, const char *why)
{
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s=%s is invalid: %s", key, value, why);
    problem_remedy(p, "Correct %s= of the archive.", key);
    return -EINVAL;
}

/* AWS's own endpoint has the bucket in its name, for which its certificate holds unless the bucket has a dot. */
static char *archive_endpoint_of_region(const char *bucket, const char *region, bool *ret_has_bucket)
{
    *ret_has_bucket = !strchr(bucket, '.');
    return *ret_has_bucket ? xasprintf("https://%s.s3.%s.amazonaws.com", bucket, region)
                           : xasprintf("https://s3.%s.amazonaws.com", region);
}

static int archive_check_literal(const struct archive_settings *s, struct s3 *s3, struct problem *p)
{
    struct in6_addr address;
    bool is_literal = address_of_host(s3->endpoint.host, &address);
    const char *why = is_literal ? s3_address_refused(&address, s->allow_link_local) : NULL;

    s3->allow_link_local = is_literal && s->allow_link_local;
    if (!why)
        return 0;
    problem_set(p, -EPERM, PROBLEM_DENIED, "endpoint=%s is refused: this address %s", s->endpoint, why);
    problem_remedy(p, "Set endpoint= to the address of the S3 service.");
    return -EPERM;
}

/*
 * Keys of a key management service are named over TLS only: S3 refuses them otherwise. The name of the header with the key's id
 * begins with that of the one before it, and libcurl before 8.10.0 signs such headers in another order than S3.
 */
static int archive_check_encryption(const struct archive_settings *s, const struct s3 *s3, struct problem *p)
{
    static const char *const encryptions[] = {"AES256", "aws:kms"};
    const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);
    bool is_known = !s->encryption, is_kms = s->encryption && streq(s->encryption, "aws:kms");

    for (size_t i = 0; i < ARRAY_SIZE(encryptions); i++)
        is_known = is_known || streq(encryptions[i], s->encryption);
    if (!is_known)
        return archive_setting_fail(p, "sse", s->encryption, "it is neither AES256 nor aws:kms");
    if (s->kms_key && !is_kms)
        return archive_setting_fail(p, "sse_kms_key_id", s->kms_key, "it needs sse=aws:kms");
    if (s->kms_key && !archive_kms_key_is_valid(s->kms_key))
        return archive_setting_fail(p, "sse_kms_key_id", s->kms_key, "it is no id, alias or ARN of a key");
    if (is_kms && !s3->endpoint.is_tls)
        return archive_setting_fail(p, "sse", s->encryption, "it needs an endpoint= with https://");
    if (s->kms_key && curl->version_num < KMS_CURL_LEAST) {
        _cleanup_(freep) char *why =
            xasprintf("it needs libcurl 8.10.0, and this is %s; set the key as the bucket's default instead",
                      curl->version);
        return archive_setting_fail(p, "sse_kms_key_id", s->kms_key, why);
    }
    return 0;
}

static int archive_new_s3(const struct archive_settings *s, const struct archive_url *url, struct archive *a,
                          struct problem *p)
{
    const char *region = s->region ? s->region : REGION_DEFAULT, *reason;
    bool has_bucket = false;
    struct s3 *s3 = &a->s3;

    if (!archive_region_is_valid(region))
        return archive_setting_fail(p, "region", region, "a region has lower case letters, digits and '-'");
    if (!s->credentials_file)
        return archive_setting_fail(p, "credentials_file", "", "an archive in a bucket needs credentials");
    _cleanup_(freep) char *endpoint =
        s->endpoint ? xstrdup(s->endpoint) : archive_endpoint_of_region(url->bucket, region, &has_bucket);
    if (archive_endpoint_parse(endpoint, &s3->endpoint, &reason) < 0)
        return archive_setting_fail(p, "endpoint", endpoint, reason);
    if (archive_check_encryption(s, s3, p) < 0)
        return -EINVAL;
    s3->service = (struct s3_service){
        .root = xasprintf("%s%s%s", s3->endpoint.base, has_bucket ? "" : "/", has_bucket ? "" : url->bucket),
        .prefix = xstrdup(url->prefix),
        .encryption = xstrdup(s->encryption),
        .kms_key = xstrdup(s->kms_key),
    };
    s3->credentials.path = xstrdup(s->credentials_file);
    s3->name = xasprintf("s3://%s%s%.*s", url->bucket, *url->prefix ? "/" : "",
                         *url->prefix ? (int)strlen(url->prefix) - 1 : 0, url->prefix);
    s3->bucket = xstrdup(url->bucket);
    s3->region = xstrdup(region);
    s3->provider = xasprintf("aws:amz:%s:s3", region);
    s3->ca_file = xstrdup(s->ca_file);
    s3->rate = s->rate;
    s3->stall_ns = s->stall_ns > 0 ? s->stall_ns : ARCHIVE_STALL_DEFAULT_NS;
    return archive_check_literal(s, s3, p);
}

int archive_new(const struct archive_settings *settings, struct archive **ret, struct problem *p)
{
    _cleanup_(archive_freep) struct archive *a = xcalloc(1, sizeof(*a));
    struct archive_url url = {0};
    const char *reason;
    int r = archive_url_parse(settings->url, &url, &reason);

    if (r < 0)
        return archive_setting_fail(p, "url", settings->url, reason);
    a->is_directory = url.kind == ARCHIVE_DIRECTORY;
    if (a->is_directory)
        a->directory = (struct archive_directory){
            .path = xstrdup(url.path), .name = xasprintf("file://%s", url.path), .rate = settings->rate};
    else
        r = archive_new_s3(settings, &url, a, p);
    archive_url_done(&url);
    if (r == 0)
        *ret = TAKE_PTR(a);
    return r;
}

struct archive *archive_free(struct archive *a)
{
    if (!a)
        return NULL;
    char *texts[] = {a->directory.path,        a->directory.name, a->s3.service.root,   a->s3.service.prefix,
                     a->s3.service.encryption, a->s3.name,        a->s3.bucket,         a->s3.region,
                     a->s3.provider,           a->s3.ca_file,     a->s3.service.kms_key};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        free(texts[i]);
    archive_endpoint_done(&a->s3.endpoint);
    s3_credentials_done(&a->s3.credentials);
    free(a);
    return NULL;
}

const char *archive_name(const struct archive *a)
{
    return a->is_directory ? a->directory.name : a->s3.name;
}

bool archive_credentials_changed(const struct archive *a)
{
    return !a->is_directory && s3_credentials_changed(&a->s3.credentials);
}

/* -- Requests ----------------------------------------------------------------------------------------- */

static bool archive_is_word(const char *text, size_t max)
{
    size_t n = text ? strlen(text) : 0;

    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return n > 0 && n <= max;
}

/* What is wrong with the parts to complete; NULL: nothing. */
static const char *archive_check_parts(const struct archive_request *q)
{
    char etag[ARCHIVE_ETAG_MAX];

    if (q->n_parts == 0 || q->n_parts > ARCHIVE_PARTS_MAX)
        return "the number of parts is out of range";
    for (size_t i = 0; i < q->n_parts; i++)
        if (q->parts[i].number < 1 || q->parts[i].number > ARCHIVE_PARTS_MAX ||
            (i > 0 && q->parts[i].number <= q->parts[i - 1].number) || !s3_etag_parse(q->parts[i].etag, etag))
            return "the parts are not in order, or have no entity tags";
    return NULL;
}

static const char *archive_check_request(const struct archive *a, const struct archive_request *q)
{
    static const bool uses_upload[_ARCHIVE_VERB_MAX] = {
        [ARCHIVE_UPLOAD_PART] = true,
        [ARCHIVE_UPLOAD_PARTS] = true,
        [ARCHIVE_UPLOAD_COMPLETE] = true,
        [ARCHIVE_UPLOAD_ABORT] = true,
    };
    size_t n_prefix = a->is_directory ? 0 : strlen(a->s3.service.prefix);

    if (q->verb == ARCHIVE_LIST ? !archive_prefix_is_valid(q->key) : !archive_key_is_valid(q->key))
        return "the key is invalid";
    if (n_prefix + strlen(q->key) > ARCHIVE_KEY_MAX)
        return "the key is too long";
    if (q->sha256 && !archive_sha256_is_valid(q->sha256))
        return "the SHA-256 is invalid";
    if (q->offset > INT64_MAX || q->size > INT64_MAX - q->offset)
        return "the range is too large";
    if (uses_upload[q->verb] && !archive_is_word(q->upload_id, S3_UPLOAD_ID_MAX))
        return "the id of the upload is invalid";
    if (q->verb == ARCHIVE_UPLOAD_PART && (q->part < 1 || q->part > ARCHIVE_PARTS_MAX))
        return "the number of the part is out of range";
    if (q->verb == ARCHIVE_LIST && q->max > ARCHIVE_LIST_MAX)
        return "the number of objects is out of range";
    return q->verb == ARCHIVE_UPLOAD_COMPLETE ? archive_check_parts(q) : NULL;
}

int archive_check(const struct archive *a, const struct archive_request *q, struct archive_result *ret)
{
    const char *why = archive_check_request(a, q);

    *ret = (struct archive_result){0};
    if (why)
        ret->err = problem_set(&ret->problem, -EINVAL, PROBLEM_BAD_REQUEST, "cannot %s %s/%s: %s",
                               s3_verb_text(q->verb), archive_name(a), q->key, why);
    return ret->err;
}

static void archive_wait(int64_t wait_ns)
{
    struct timespec wait = {wait_ns / NS_PER_S, wait_ns % NS_PER_S};

    while (nanosleep(&wait, &wait) < 0 && errno == EINTR)
        ;
}

static int archive_perform_s3(struct archive *a, const struct archive_request *q, struct archive_result *ret)
{
    struct s3_call *c = s3_call_new(&a->s3, q, ret);
    enum s3_step step = S3_STEP_AGAIN;
    int64_t wait_ns = 0;

    if (s3_call_has_content(c))
        s3_call_hash(c);
    while (step == S3_STEP_AGAIN && s3_call_begin(c) == 0) {
        step = s3_call_ended(c, curl_easy_perform(s3_call_handle(c)), &wait_ns);
        if (step == S3_STEP_AGAIN)
            archive_wait(wait_ns);
    }
    s3_call_free(c);
    return ret->err;
}

int archive_perform(struct archive *a, const struct archive_request *q, struct archive_result *ret)
{
    int r = archive_check(a, q, ret);

    if (r < 0)
        return r;
    return a->is_directory ? archive_directory_perform(&a->directory, q, ret) : archive_perform_s3(a, q, ret);
}

void archive_result_done(struct archive_result *r)
{
    for (size_t i = 0; i < r->n_objects; i++)
        free(r->objects[i].key);
    free(r->objects);
    free(r->parts);
    free(r->upload_id);
    free(r->next);
    problem_done(&r->problem);
    *r = (struct archive_result){0};
}
