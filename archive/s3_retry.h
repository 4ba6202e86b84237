/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether an attempt of an S3 request is repeated, and when. Pure.
 *
 * Repeated: 5xx but 501, 429, 408, 400 RequestTimeout, content that was damaged on its way, and broken connections, with
 * waits that double and vary at random; Retry-After lengthens a wait. The deadline of the request ends it: no wait begins
 * that would pass it.
 */
#pragma once

#include "base/util.h"

#define S3_WAIT_FIRST_NS INT64_C(200000000)
#define S3_WAIT_MOST_NS  INT64_C(20000000000)
/* Content that arrives damaged so often was not damaged on its way. */
#define S3_DAMAGED_ATTEMPTS_MAX 3

struct s3_attempt {
    int err;          /* of the connection or of the content; 0: there is a complete answer */
    int status;       /* 0: none */
    const char *code; /* of the error document; NULL: none */
    int64_t retry_after_s, retry_date_s; /* of the answer; 0: none */
    int64_t wall_s;                      /* now */
    unsigned number;                     /* from 1 */
    bool has_new_credentials;            /* the file changed since they were read */
};

enum s3_retry {
    S3_RETRY_NONE,     /* done, or not worth it */
    S3_RETRY_AFTER,    /* after the wait */
    S3_RETRY_DEADLINE, /* it would be, and the deadline comes first */
};

/* `random` is any number. *ret_wait_ns is set in both cases of waiting. */
enum s3_retry s3_retry_decide(const struct s3_attempt *a, uint32_t random, int64_t now_ns,
                              int64_t deadline_ns, int64_t *ret_wait_ns);
