/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profd's operations over D-Bus: a request in the form of HTTP, a method and a path, becomes a call of the
 * corresponding method of org.profd1 (proto/bus_methods.h). Calls block; a callback may end them.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"

struct bus_connection;

/* which is "system" or "session". */
int bus_connection_new(const char *which, struct bus_connection **ret, struct problem *p);
struct bus_connection *bus_connection_free(struct bus_connection *b);

struct bus_request {
    const char *method, *path; /* "GET", "/v1/sessions?limit=1" */
    const json_t *body;        /* NULL: none */
    /* Called several times a second; a negative errno value ends the call. */
    int (*tick)(void *arg);
    void *arg;
};

/* The HTTP status of the response into *ret_status. -EREMOTEIO with profd's problem. */
int bus_connection_call(struct bus_connection *b, const struct bus_request *q, json_t **ret, long *ret_status,
                        struct problem *p);
/* For a path whose response is a file. The caller closes *ret_fd. */
int bus_connection_open(struct bus_connection *b, const struct bus_request *q, int *ret_fd, int64_t *ret_size,
                        struct problem *p);
