/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a request that a relay passes on: whether it may pass, and how profd gets it. Pure functions over bytes.
 *
 * Host and Origin must be those of the relay's own port, with the rules of base/page_request.h: every page that the
 * user views, and every user of the machine, can reach that port. profd then gets its own host and origin in their place.
 * Everything else is passed on as it is, Authorization too, except what belongs to one connection only. Stricter than RFC
 * 9112: HTTP/1.1, lines that end with CRLF, no folded lines, bodies with a Content-Length.
 */
#pragma once

#include "base/util.h"

#define RELAY_HEAD_MAX (32 << 10)

struct relay_rules {
    int port;           /* of the relay, on loopback */
    const char *host;   /* profd's, as its clients name it: "gpu7.example:9460" */
    const char *origin; /* "https://gpu7.example:9460" */
    const char *prefix; /* of each path, "" for none */
    bool to_socket;     /* the requests go to a Unix socket, whose rights they must not have */
};

struct relay_head {
    char *text; /* as profd gets it; the caller frees it */
    size_t size;
    int64_t body_size;
    /* of a head that is refused */
    int status;
    const char *detail;
};

/* Returns the bytes of the head, 0 where more are needed, or -EBADMSG with the status and detail for its sender. */
ssize_t relay_head_read(const char *data, size_t size, const struct relay_rules *rules,
                        struct relay_head *ret);
