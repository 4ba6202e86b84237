/* SPDX-License-Identifier: Apache-2.0 */
/* The job of profd-load (proto/load.h), parsed and checked. Pure. */
#pragma once

#include "daemon/fleet/call.h"
#include "daemon/load/workload.h"
#include <sys/types.h>

#define LOAD_WORKERS_MAX 10000

struct load_worker {
    char *url;    /* normalised, http or https */
    char *engine; /* NULL: unknown */
    pid_t pid;    /* 0: not on this host, or unknown */
};

struct load_workers {
    struct load_worker *items;
    size_t n; /* at least 1 */
};

struct load_job {
    struct workload workload;
    struct load_workers targets, warm, watched; /* see proto/load.h */
    struct network_policy policy;
    struct call_credentials credentials;
};

int load_job_parse(const char *text, size_t size, struct load_job *ret, struct problem *p);
void load_job_done(struct load_job *job);
