/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/s3_failure.h"

#include "archive/s3_request.h"
#include "base/alloc.h"
#include "base/text.h"
#include "base/units.h"
#include <errno.h>

#define MESSAGE_SHOWN_MAX 200
#define NS_PER_S          INT64_C(1000000000)

static void s3_remedy_access(const struct s3_failure *f, struct problem *p)
{
    problem_remedy(p, "Allow %s on bucket %s to the key %s of %s in the bucket's policy.",
                   s3_permission(f->verb), f->bucket, f->key_id ? f->key_id : "", f->credentials_file);
}

static void s3_remedy_key(const struct s3_failure *f, struct problem *p)
{
    problem_remedy(p, "Check aws_access_key_id and aws_secret_access_key in %s.", f->credentials_file);
}

static void s3_remedy_token(const struct s3_failure *f, struct problem *p)
{
    problem_remedy(p, "Renew the credentials in %s; the file is read anew when it changes.",
                   f->credentials_file);
}

static void s3_remedy_bucket(const struct s3_failure *f, struct problem *p)
{
    problem_remedy(p, "Create bucket %s, or correct url= and endpoint=.", f->bucket);
}

static void s3_remedy_clock(const struct s3_failure *f, struct problem *p)
{
    char text[UNIT_TEXT_MAX];
    int64_t off_s = f->head->date_s > 0 ? f->wall_s - f->head->date_s : 0;

    if (off_s == 0) {
        problem_remedy(p, "Synchronize this host's clock (timedatectl, chronyc).");
        return;
    }
    format_duration(text, (off_s < 0 ? -off_s : off_s) * NS_PER_S);
    problem_remedy(p, "Synchronize this host's clock (timedatectl, chronyc): it is %s %s the server's.", text,
                   off_s < 0 ? "behind" : "ahead of");
}

static void s3_remedy_region(const struct s3_failure *f, struct problem *p)
{
    const char *region = f->head->region[0] ? f->head->region : NULL;

    /* An error document's region is shown as it is only where it is one. */
    if (!region && f->xml->region &&
        strspn(f->xml->region, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(f->xml->region))
        region = f->xml->region;
    if (region)
        problem_remedy(p, "Set region=%.64s (it is %s).", region, f->region);
    else
        problem_remedy(p, "Set region= to the region of bucket %s (it is %s).", f->bucket, f->region);
}

static void s3_remedy_redirect(const struct s3_failure *f, struct problem *p)
{
    if (f->head->region[0]) {
        s3_remedy_region(f, p);
        return;
    }
    problem_remedy(
        p,
        "Set endpoint= to the server that has bucket %s: redirects are not followed, since they would lead "
        "credentials elsewhere.",
        f->bucket);
}

static void s3_remedy_quota(const struct s3_failure *f, struct problem *p)
{
    problem_remedy(p, "Raise the quota of bucket %s, or let a lifecycle rule delete old objects.", f->bucket);
}

static void s3_remedy_encryption(const struct s3_failure *f, struct problem *p)
{
    problem_remedy(p, "Set sse= and sse_kms_key_id= to an encryption and a key that %s has for bucket %s.",
                   f->endpoint, f->bucket);
}

static void s3_remedy_busy(const struct s3_failure *f, struct problem *p)
{
    problem_remedy(p, "Try again later; check the state of %s.", f->endpoint);
}

static void s3_remedy_endpoint(const struct s3_failure *f, struct problem *p)
{
    problem_remedy(p, "Check that %s is an S3 service (endpoint=) and that no proxy changes what it sends.",
                   f->endpoint);
}

/* By code; then by status. `what` follows "cannot upload NAME: ". */
static const struct s3_meaning {
    int status;
    const char *code;
    int err;
    enum problem_kind kind;
    const char *what;
    void (*remedy)(const struct s3_failure *f, struct problem *p);
} meanings[] = {
    {0, "AccessDenied", -EACCES, PROBLEM_DENIED, "access denied", s3_remedy_access},
    {0, "AccountProblem", -EACCES, PROBLEM_DENIED, "access denied", s3_remedy_access},
    {0, "AllAccessDisabled", -EACCES, PROBLEM_DENIED, "access denied", s3_remedy_access},
    {0, "InvalidAccessKeyId", -EACCES, PROBLEM_DENIED, "the access key is unknown", s3_remedy_key},
    {0, "SignatureDoesNotMatch", -EACCES, PROBLEM_DENIED, "the signature is wrong", s3_remedy_key},
    {0, "ExpiredToken", -EACCES, PROBLEM_DENIED, "the session token has expired", s3_remedy_token},
    {0, "TokenRefreshRequired", -EACCES, PROBLEM_DENIED, "the session token has expired", s3_remedy_token},
    {0, "InvalidToken", -EACCES, PROBLEM_DENIED, "the session token is invalid", s3_remedy_token},
    {0, "RequestTimeTooSkewed", -EACCES, PROBLEM_DENIED, "the clocks of this host and of the server differ",
     s3_remedy_clock},
    {0, "NoSuchBucket", -ENODEV, PROBLEM_NOT_FOUND, "the bucket does not exist", s3_remedy_bucket},
    {0, "NoSuchKey", -ENOENT, PROBLEM_NOT_FOUND, "there is no such object", NULL},
    {0, "NoSuchUpload", -ENOENT, PROBLEM_NOT_FOUND, "there is no such upload", NULL},
    {0, "AuthorizationHeaderMalformed", -EREMCHG, PROBLEM_BAD_REQUEST, "the region is wrong",
     s3_remedy_region},
    {0, "IllegalLocationConstraintException", -EREMCHG, PROBLEM_BAD_REQUEST, "the region is wrong",
     s3_remedy_region},
    {0, "PermanentRedirect", -EREMCHG, PROBLEM_BAD_REQUEST, "the bucket is elsewhere", s3_remedy_redirect},
    {0, "TemporaryRedirect", -EREMCHG, PROBLEM_BAD_REQUEST, "the bucket is elsewhere", s3_remedy_redirect},
    {0, "InvalidRange", -ERANGE, PROBLEM_BAD_REQUEST, "the object is shorter", NULL},
    {0, "InvalidPart", -ESTALE, PROBLEM_CONFLICT, "a part is not as it was uploaded", NULL},
    {0, "InvalidPartOrder", -ESTALE, PROBLEM_CONFLICT, "a part is not as it was uploaded", NULL},
    {0, "EntityTooSmall", -ESTALE, PROBLEM_CONFLICT, "a part is not as it was uploaded", NULL},
    {0, "EntityTooLarge", -EFBIG, PROBLEM_TOO_LARGE, "the server does not take objects of this size", NULL},
    {0, "QuotaExceeded", -EDQUOT, PROBLEM_STORAGE, "the quota is used up", s3_remedy_quota},
    {0, "InsufficientCapacity", -EDQUOT, PROBLEM_STORAGE, "the server is full", s3_remedy_quota},
    {0, "KMS.NotFoundException", -EKEYREJECTED, PROBLEM_BAD_REQUEST, "there is no such encryption key",
     s3_remedy_encryption},
    {0, "KMS.DisabledException", -EKEYREJECTED, PROBLEM_BAD_REQUEST, "the encryption key is disabled",
     s3_remedy_encryption},
    {0, "KMS.KMSInvalidStateException", -EKEYREJECTED, PROBLEM_BAD_REQUEST,
     "the encryption key cannot be used now", s3_remedy_encryption},
    {0, "InvalidEncryptionAlgorithmError", -EKEYREJECTED, PROBLEM_BAD_REQUEST,
     "the server does not have that encryption", s3_remedy_encryption},
    {0, "BadDigest", -EBADMSG, PROBLEM_UPSTREAM, "the content arrived damaged", s3_remedy_endpoint},
    {0, "XAmzContentSHA256Mismatch", -EBADMSG, PROBLEM_UPSTREAM, "the content arrived damaged",
     s3_remedy_endpoint},
    {301, NULL, -EREMCHG, PROBLEM_BAD_REQUEST, "the bucket is elsewhere", s3_remedy_redirect},
    {302, NULL, -EREMCHG, PROBLEM_BAD_REQUEST, "the server redirects", s3_remedy_redirect},
    {303, NULL, -EREMCHG, PROBLEM_BAD_REQUEST, "the server redirects", s3_remedy_redirect},
    {307, NULL, -EREMCHG, PROBLEM_BAD_REQUEST, "the server redirects", s3_remedy_redirect},
    {308, NULL, -EREMCHG, PROBLEM_BAD_REQUEST, "the server redirects", s3_remedy_redirect},
    {400, NULL, -EPROTO, PROBLEM_UPSTREAM, "the server rejects the request", s3_remedy_endpoint},
    {401, NULL, -EACCES, PROBLEM_DENIED, "access denied", s3_remedy_key},
    {403, NULL, -EACCES, PROBLEM_DENIED, "access denied", s3_remedy_access},
    {404, NULL, -ENOENT, PROBLEM_NOT_FOUND, "there is no such object", NULL},
    {412, NULL, -EEXIST, PROBLEM_CONFLICT, "the object exists", NULL},
    {416, NULL, -ERANGE, PROBLEM_BAD_REQUEST, "the object is shorter", NULL},
    {429, NULL, -EBUSY, PROBLEM_TOO_MANY, "the server is overloaded", s3_remedy_busy},
    {501, NULL, -EOPNOTSUPP, PROBLEM_UNSUPPORTED, "the server does not implement it", s3_remedy_endpoint},
    {503, NULL, -EBUSY, PROBLEM_UPSTREAM, "the server is overloaded", s3_remedy_busy},
};
static const struct s3_meaning server_error = {
    0, NULL, -EIO, PROBLEM_UPSTREAM, "the server failed", s3_remedy_busy};
static const struct s3_meaning not_s3 = {
    0, NULL, -EPROTO, PROBLEM_UPSTREAM, "the answer is not S3's", s3_remedy_endpoint};

static const struct s3_meaning *s3_meaning_of(int status, const char *code)
{
    for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
        if (meanings[i].code ? streq(meanings[i].code, code) : meanings[i].status == status)
            return &meanings[i];
    return status >= 500 && status <= 599 ? &server_error : &not_s3;
}

/* Why, in the words of the server: " (HTTP 403 AccessDenied: ...)". */
static char *s3_failure_quote(const struct s3_failure *f, const char *code, const char *message)
{
    char *text = xasprintf(" (HTTP %d", f->head->status);

    if (code)
        append_str(&text, " %.64s", code);
    if (message && *message)
        append_str(&text, ": %.*s", MESSAGE_SHOWN_MAX, message);
    if (f->head->location[0])
        append_str(&text, ", to %s", f->head->location);
    append_str(&text, ")");
    char *clean = text_clean(text, false);
    free(text);
    return clean;
}

static int s3_failure_of_connection(const struct s3_failure *f, const char *tried, struct problem *p)
{
    enum problem_kind kind = f->err == -EPERM    ? PROBLEM_DENIED
                             : f->err == -ESTALE ? PROBLEM_CONFLICT
                                                 : PROBLEM_UPSTREAM;
    _cleanup_(freep) char *error = text_clean(f->error, false);

    problem_set(p, f->err, kind, "cannot %s %s: %s%s", s3_verb_text(f->verb), f->name, error, tried);
    if (f->remedy)
        problem_remedy(p, "%s", f->remedy);
    else if (f->err != -ESTALE)
        problem_remedy(p, "Check that %s is an S3 service that this host can reach (endpoint=, ca_file=).",
                       f->endpoint);
    return f->err;
}

int s3_failure_describe(const struct s3_failure *f, struct problem *p)
{
    bool has_code = f->xml->document == S3_DOCUMENT_ERROR && f->xml->code;
    const char *code = has_code ? f->xml->code : NULL;
    const struct s3_meaning *m = s3_meaning_of(f->head->status, code);
    _cleanup_(freep) char *tried = f->n_attempts > 1 ? xasprintf(" (%u attempts%s)", f->n_attempts,
                                                                 f->at_deadline ? " until the deadline" : "")
                                                     : xstrdup("");

    if (f->err < 0)
        return s3_failure_of_connection(f, tried, p);
    /* The answer to HEAD has no document. */
    if (!code && f->head->status == 400 && f->head->region[0] && !streq(f->head->region, f->region))
        m = s3_meaning_of(0, "AuthorizationHeaderMalformed");
    _cleanup_(freep) char *quote = s3_failure_quote(f, code, has_code ? f->xml->message : NULL);
    int err = m->err;
    const char *what = m->what;
    /* The condition of a continued download is that the object is still the same. */
    if (err == -EEXIST && f->verb == ARCHIVE_GET) {
        err = -ESTALE;
        what = "the object changed during the download";
    }
    if (err == -ENOENT && !code && f->verb >= ARCHIVE_UPLOAD_PART)
        what = "there is no such upload";
    problem_set(p, err, m->kind, "cannot %s %s: %s%s%s", s3_verb_text(f->verb), f->name, what, quote, tried);
    if (m->remedy)
        m->remedy(f, p);
    return err;
}
