/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a user asks of a session or of a run (openapi.yaml, StartRequest and RunRequest), parsed and checked.
 * Pure: JSON in, a plain struct out.
 *
 * The struct borrows nothing from the JSON; job_request_done() frees what it holds.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/fleet.h"

#define REQUEST_STEPS_MAX       100000
#define REQUEST_WORKERS_MAX     10000
#define REQUEST_LABELS_MAX      32
#define REQUEST_PROMPT_MAX      65536 /* bytes */
#define REQUEST_LABEL_BYTES_MAX 256
#define REQUEST_DURATION_NS     (5 * INT64_C(1000000000))
#define REQUEST_WHEN_TIMEOUT_NS (300 * INT64_C(1000000000))

enum load_through {
    LOAD_THROUGH_ANY, /* the router where one is known */
    LOAD_THROUGH_ROUTER,
    LOAD_THROUGH_WORKERS,
};

enum job_phase {
    JOB_PREFILL,
    JOB_DECODE,
    JOB_AGGREGATED,
    _JOB_PHASE_MAX,
};

/* Steps of their own for the workers of each role, as parts of one job. */
struct request_job {
    char *folder; /* of the job in the store; NULL: no job */
    struct {
        int64_t start_step, steps; /* steps 0: workers of that role are not recorded */
    } phases[_JOB_PHASE_MAX];
};

/* A session that a coordinator on another host leads. */
struct lease_start {
    int64_t lease_id;
    char *session_uuid;
    char *coordinator, *coordinator_name; /* UUID of its catalog; name of its host */
    char *actor;                          /* who asked there */
    int64_t deadline_boot_ns;             /* of the lease, by boot_ns() */
    struct lease_worker {
        char *url, *profile_id;
        int ranks;       /* that are expected of it, where those of other hosts are not; 0: all */
        bool shares_dir; /* workers of other hosts write to its directory as well */
        enum role role;  /* as the coordinator's router lists it */
    } * workers;
    size_t n_workers;
    json_t *request; /* object: how to record */
};
/* A copy that job_request_done() frees; all pointers of the original may be borrowed. */
struct lease_start *lease_start_copy(const struct lease_start *l);

struct job_request {
    struct fleet_query source;
    char **only; /* of the router's or fleet's workers, take these */
    size_t n_only;
    struct recording recording; /* profile_id and output_dir are each target's own; it borrows these two: */
    char *prompt, *model;       /* of the request that is recorded; NULL: what is served is */
    int64_t start_at;           /* wall ns, 0: at once */
    int role;                   /* enum role, -1: any */
    int64_t count;              /* 0: all */
    bool one_per_role, include_unhealthy, stagger, require_all, queue, allow_uncollected;
    int64_t when_running; /* 0: do not wait */
    int64_t when_timeout_ns;
    json_t *labels; /* object */
    struct request_job job;
    json_t *workload;              /* object, not looked into here; NULL: nothing is sent */
    int through;                   /* enum load_through */
    bool load_ends_with_recording; /* else it goes on to its own end */
    struct lease_start *lease;     /* NULL: this profd coordinates it */
};

/* A member of a session's request that an optional module (extras/) parses. */
struct request_extension {
    const char *name;
    int (*take)(const json_t *value, struct job_request *r, struct problem *p);
};
extern const struct request_extension extra_request_members[]; /* a NULL name at the end */

/* Unknown members, wrong types and impossible combinations are problems that name the member. */
int session_request_parse(const json_t *j, struct job_request *ret, struct problem *p);
/* The same of a run, which takes what names and chooses workers, and needs a workload. */
int run_request_parse(const json_t *j, struct job_request *ret, struct problem *p);
/* The same of a list of workers, which takes only what names them. */
int fleet_request_parse(const json_t *j, struct fleet_query *ret, struct problem *p);
/* What is kept of a workload: of its prompts how many they were. A reference of its own. */
json_t *workload_kept(const json_t *workload);
void job_request_done(struct job_request *r);
const char *job_phase_name(enum job_phase phase);
enum job_phase job_phase_of(enum role role);
/* Whether the request names this worker, by role and URL. */
bool job_request_matches(const struct job_request *r, const struct worker *w);
/* What a worker of this role is to record; strings are borrowed. */
struct recording job_request_recording(const struct job_request *r, enum role role);
