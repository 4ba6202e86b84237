/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profd's operations over D-Bus: takes what profctl would send by HTTP, a method and an address, and calls
 * the method of org.profd1 that is the same (proto/bus_methods.h). Calls block, but for a function of the
 * caller's that may end them.
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

/* HTTP's status of the answer into *ret_status. -EREMOTEIO with profd's own problem. */
int bus_connection_call(struct bus_connection *b, const struct bus_request *q, json_t **ret, long *ret_status,
                        struct problem *p);
/* Of an address that answers with a file. The caller closes *ret_fd. */
int bus_connection_open(struct bus_connection *b, const struct bus_request *q, int *ret_fd, int64_t *ret_size,
                        struct problem *p);
