/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request to profd over its Unix socket and its response. Each has a connection of its own: connecting to a
 * local socket takes microseconds, while libcurl takes milliseconds to load.
 *
 * Blocks. Owns the socket and nothing of the caller's.
 */
#pragma once

#include "base/util.h"

struct unix_request {
    const char *socket; /* path, which fits into an address */
    const char *method, *path;
    const char *json;   /* body; NULL: none */
    const char *range;  /* "0-99"; NULL: all */
    int64_t timeout_ns; /* of the complete response; 0: none */
    int64_t silence_ns; /* without a byte of the response; 0: none */
    /* Called while waiting, several times a second; a negative value ends the request. */
    int (*tick)(void *arg);
    /* Receives the response's body in pieces; a negative value ends the request. */
    int (*take)(long status, const char *data, size_t size, void *arg);
    void *arg;
};

struct unix_response {
    bool is_connected; /* the error is not one of connecting */
    long status;       /* 0: none */
    char *link;        /* value of the Link field; NULL: none; the caller frees it */
    const char *why;   /* text of the error, valid until the next one */
};

/* Returns a negative errno value: that of connecting or of a callback, -ETIMEDOUT, or -EPROTO for a response that is
 * not complete or not HTTP. *ret is set in any case. */
int unix_exchange(const struct unix_request *q, struct unix_response *ret);
