/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a coordinator on another host asks of a lease (openapi.yaml, LeaseRequest and those after it), parsed and checked.
 * Pure: JSON in, a plain struct out.
 *
 * The members are a closed list: a peer names no directory, router, source or path, and an unknown member is an error.
 * What is in `request`, and whether an id can be part of a file's name, session_create_leased() checks. The struct borrows
 * nothing from the JSON; lease_body_done() frees what it holds.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include "proto/names.h"

#define LEASE_WORKERS_MAX 1024
/* Bytes. */
#define LEASE_URL_MAX  2048
#define LEASE_TEXT_MAX 256
/* Of a lease that is asked for, and of a renewal: a deadline that is further away is not needed, as a coordinator renews. */
#define LEASE_NS_MIN (INT64_C(1) * 1000000000)
#define LEASE_NS_MAX (INT64_C(86400) * 1000000000)

enum lease_route {
    LEASE_ROUTE_GRANT,
    LEASE_ROUTE_PREPARE,
    LEASE_ROUTE_START,
    LEASE_ROUTE_RENEW,
    LEASE_ROUTE_STOP,
    LEASE_ROUTE_RELEASE,
    _LEASE_ROUTE_MAX,
};

struct lease_body_worker {
    char *url;        /* http://... or https://... */
    char *profile_id; /* of prepare, NULL elsewhere */
    int ranks;        /* of prepare: that are expected of it; 0: all that it has */
    char *output_dir; /* of start, for ranks without a server: where that was told to write; NULL elsewhere */
    bool shares_dir;  /* of prepare: workers of other hosts write to its directory as well */
    enum role role;   /* of prepare: as the coordinator's router lists it */
    int64_t start_step; /* of start: the engine's step to begin at; 0: as the request says */
};

struct lease_body {
    char *sender;                         /* who sent it: a token or a user; not of the JSON */
    char *session;                        /* UUID */
    char *coordinator, *coordinator_name; /* UUID of its catalog, and the name of its host */
    char *actor;                          /* who started the session there */
    struct lease_body_worker *workers;
    size_t n_workers;
    json_t *request;               /* of prepare: a StartRequest of what is to be recorded */
    int64_t lease_ns, deadline_ns; /* from now */
    int64_t at_mono_ns;            /* by the monotonic clock of this host in the boot boot_id */
    char *boot_id;
    bool has_clock; /* the two that follow */
    int64_t clock_offset_ns,
        clock_error_ns; /* this host's wall clock minus the coordinator's, and its error */
    bool rolled_back;
};

/* -EINVAL with a problem that names the member. */
int lease_body_parse(enum lease_route route, const json_t *j, struct lease_body *ret, struct problem *p);
void lease_body_done(struct lease_body *b);
