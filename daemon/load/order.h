/* SPDX-License-Identifier: Apache-2.0 */
/* What profd-load is told to do (proto/load.h), parsed and checked. Pure. */
#pragma once

#include "daemon/fleet/call.h"
#include "daemon/load/workload.h"
#include <sys/types.h>

#define ORDER_TARGETS_MAX 10000

struct order_worker {
    char *url;    /* normalised, http or https */
    char *engine; /* NULL: not known */
    pid_t pid;    /* 0: not on this host, or not known */
};

struct order {
    struct workload workload;
    struct order_worker *targets, *warm, *watched; /* none is empty: see proto/load.h */
    size_t n_targets, n_warm, n_watched;
    struct network_policy policy;
    struct credentials credentials;
};

int order_parse(const char *text, size_t size, struct order *ret, struct problem *p);
void order_done(struct order *o);
