/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/s3_retry.h"

#include "base/backoff.h"
#include "base/clock.h"
#include <errno.h>

/* Errors of a connection that another attempt may not meet. */
static const int broken[] = {-ECONNREFUSED, -ECONNRESET,   -ETIMEDOUT, -EHOSTUNREACH, -ENETUNREACH,
                             -EPIPE,        -ECONNABORTED, -EAGAIN,    -ENETDOWN};

enum s3_repeatable { S3_NEVER, S3_ALWAYS, S3_DAMAGED, S3_CREDENTIALS };

/* The code decides before the status; no code: any. */
static const struct {
    int status;
    const char *code;
    enum s3_repeatable repeatable;
} answers[] = {
    {0, "RequestTimeTooSkewed", S3_NEVER},
    {0, "RequestTimeout", S3_ALWAYS},
    {0, "SlowDown", S3_ALWAYS},
    {0, "InternalError", S3_ALWAYS},
    {0, "OperationAborted", S3_ALWAYS},
    {0, "BadDigest", S3_DAMAGED},
    {0, "XAmzContentSHA256Mismatch", S3_DAMAGED},
    {0, "ExpiredToken", S3_CREDENTIALS},
    {0, "InvalidToken", S3_CREDENTIALS},
    {0, "InvalidAccessKeyId", S3_CREDENTIALS},
    {0, "SignatureDoesNotMatch", S3_CREDENTIALS},
    {401, NULL, S3_CREDENTIALS},
    {403, NULL, S3_CREDENTIALS},
    {408, NULL, S3_ALWAYS},
    {429, NULL, S3_ALWAYS},
    {501, NULL, S3_NEVER},
    {505, NULL, S3_NEVER},
};

static enum s3_repeatable s3_retry_class(const struct s3_attempt *a)
{
    if (a->err == -EBADMSG)
        return S3_DAMAGED;
    for (size_t i = 0; i < ARRAY_SIZE(broken) && a->err < 0; i++)
        if (broken[i] == a->err)
            return S3_ALWAYS;
    if (a->err < 0)
        return S3_NEVER;
    for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
        if (answers[i].code ? streq(answers[i].code, a->code) : answers[i].status == a->status)
            return answers[i].repeatable;
    return a->status >= 500 && a->status <= 599 ? S3_ALWAYS : S3_NEVER;
}

static int64_t s3_retry_wait(const struct s3_attempt *a, uint32_t random)
{
    static const struct backoff backoff = {S3_WAIT_FIRST_NS, S3_WAIT_MOST_NS, .random_percent = 50};
    int64_t wait = backoff_ns(&backoff, a->number, random);
    int64_t asked_s = a->retry_date_s > 0 ? a->retry_date_s - a->wall_s : a->retry_after_s;
    return asked_s > 0 && asked_s < INT64_MAX / NS_PER_S ? MAX(wait, asked_s * NS_PER_S) : wait;
}

enum s3_retry s3_retry_decide(const struct s3_attempt *a, uint32_t random, int64_t now_ns,
                              int64_t deadline_ns, int64_t *ret_wait_ns)
{
    enum s3_repeatable repeatable = s3_retry_class(a);

    *ret_wait_ns = 0;
    if (repeatable == S3_NEVER || (repeatable == S3_CREDENTIALS && !a->has_new_credentials) ||
        (repeatable == S3_DAMAGED && a->number >= S3_DAMAGED_ATTEMPTS_MAX))
        return S3_RETRY_NONE;
    if (repeatable != S3_CREDENTIALS)
        *ret_wait_ns = s3_retry_wait(a, random);
    return deadline_ns != DEADLINE_NEVER && *ret_wait_ns >= deadline_ns - now_ns ? S3_RETRY_DEADLINE
                                                                                 : S3_RETRY_AFTER;
}
