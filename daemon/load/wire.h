/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many requests at a time over libcurl: connections that are kept, handles that are used again, small
 * buffers. Knows bytes and moments, nothing of tokens.
 *
 * libcurl looks through all connections to a host for one that is idle, so that a request costs more the more
 * there are: they are dealt to several of its "multi" handles of WIRE_EXCHANGES each. What was sent always
 * ends in done(), once, never before wires_send() returns, unless wires_free() comes first. Addresses outside
 * of the network policy are refused.
 */
#pragma once

#include "daemon/fleet/call.h"

#define WIRE_EXCHANGES 64

struct wires;
struct wire_place;

struct wire_end {
    int err;               /* 0 where an answer ended as HTTP says, else -ETIMEDOUT, -ECONNREFUSED, ... */
    const char *error;     /* curl's words, NULL where err is 0 */
    int64_t retry_after_s; /* what the answer asked for; 0 */
};

struct wire_ops {
    void (*sent)(void *arg, int64_t now_ns); /* its first byte leaves; once */
    void (*head)(void *arg, int status, const char *content_type);
    bool (*body)(void *arg, const char *bytes, size_t size, int64_t now_ns); /* false: enough of it */
    void (*done)(void *arg, const struct wire_end *end);
};

/* Borrows policy and ops. */
int wires_new(struct event_base *base, const struct network_policy *policy, const struct wire_ops *ops,
              struct wires **ret);
struct wires *wires_free(struct wires *w);
/* Takes the body, which malloc() gave; ends by -ETIMEDOUT when timeout_ns has passed. -EIO: libcurl did not
 * take it. */
int wires_send(struct wires *w, struct wire_place *place, char *body, size_t size, int64_t timeout_ns,
               void *arg);
/* All that is under way ends now with -ECANCELED and this text. */
void wires_cut(struct wires *w, const char *error);
