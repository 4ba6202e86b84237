/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of profd's response over a Unix socket (RFC 9112). Pure.
 *
 * The request is of HTTP/1.0, so that the body is never chunked and ends with the connection at the latest.
 */
#pragma once

#include "base/util.h"
#include <sys/types.h>

/* Bytes. */
#define HTTP_ANSWER_HEAD_MAX (32u << 10)

struct http_answer {
    int status;             /* 100 to 599 */
    int64_t content_length; /* -1: not given */
    const char *link;       /* value of the last Link field, in the data; NULL: none */
    size_t link_size;
};

/* Returns the size of the head, which ends with a blank line; 0: more bytes are needed; -EPROTO: not a head of HTTP/1,
 * or larger than HTTP_ANSWER_HEAD_MAX. */
ssize_t http_answer_parse(const char *data, size_t size, struct http_answer *ret);
