/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmark runs of a sweep or an audit: the values of a sweep, the load of each run, and estimates of their
 * durations from the measurements so far. Pure.
 *
 * An estimate is a range, because the batching of a server is not known beforehand. From a measured run at another
 * concurrency, throughput either stays the same or grows in proportion; the truth lies between. A run by duration or by
 * rate takes as long as its schedule.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include "client/cli/screen.h"

/* -- --sweep concurrency=1,2,4: one member of the workload with several values, each a run ------------- */

#define SWEEP_MAX 64

struct sweep {
    const char *member; /* static: "concurrency", "rate", "isl", "osl" */
    double values[SWEEP_MAX];
    size_t n;
    bool is_integer; /* the member takes whole numbers only */
    bool is_load;    /* a larger value is more load, so that there may be a knee */
};

int sweep_parse(const char *text, struct sweep *ret, struct problem *p);

struct sweep_point {
    double load;       /* the value that was swept */
    double throughput; /* 0: not measured */
    double latency;    /* in any one unit */
};

#define SWEEP_NO_KNEE SIZE_MAX

/*
 * The point of the greatest power, throughput divided by latency: below it, more load increases throughput more than
 * latency, above it less (L. Kleinrock, "Power and Deterministic Rules of Thumb for Probabilistic
 * Problems in Computer Communications", ICC 1979). SWEEP_NO_KNEE where it is the point of the highest load,
 * so that the knee may be at a higher load, and of fewer than three points.
 */
size_t sweep_knee(const struct sweep_point *points, size_t n);

/* -- The plan ----------------------------------------------------------------------------------------- */

/* Seconds; both NAN: not known. */
struct time_range {
    double low_s, high_s;
};

struct planned_run {
    char *load;         /* "concurrency 4, 16 requests, 128 out" */
    double concurrency; /* 0: no bound */
    double rate;        /* requests/s; 0: a closed loop */
    double requests;    /* 0: limited by its duration only */
    double duration_s;  /* of the workload; 0: none */
    double tokens;      /* of input and output of each request, if the workload has them; else 0 */
    double took_s;      /* 0: not measured yet */
    char *ref;          /* "r3" of an earlier run, else NULL */
};

struct run_plan {
    struct planned_run *runs;
    size_t n, cap;
    struct planned_run *earlier; /* runs of the catalog to estimate by, until one of these is measured */
    size_t n_earlier, earlier_cap;
};

/* Adds a run of a workload (docs/workload.md). */
void run_plan_add(struct run_plan *p, const json_t *workload);
/* Takes the number of requests and the duration of a run that ended. */
void run_plan_measured(struct run_plan *p, size_t i, const json_t *run);
/* Takes the complete ones of a list of runs (GET /v1/runs, newest first) that were sent to the same endpoint. */
void run_plan_look_back(struct run_plan *p, const json_t *runs, const json_t *request);
void run_plan_done(struct run_plan *p);

struct time_range run_plan_estimate(const struct run_plan *p, size_t i);
/* Of all runs from `first` on; NAN: one is unknown. */
struct time_range run_plan_remaining(const struct run_plan *p, size_t first);
/* Of all runs; 0: one sends by duration. */
double run_plan_requests(const struct run_plan *p);

/* "about 12s", "10s to 40s", "unknown". The caller frees. */
char *time_range_text(struct time_range range);
/* A row for each run and a line for all of them. */
void run_plan_print(const struct run_plan *p, const struct screen *s);
/* "Plan: 7 runs, 267 requests, 40s to 2min, estimated from r3". The caller frees. */
char *run_plan_line(const struct run_plan *p);
/* "Step 2 of 7, 10s to 40s left": printed before a run begins. The caller frees. */
char *run_plan_next_line(const struct run_plan *p, size_t i);
/* {"runs": [{"load", "requests", "estimated_s": [low, high], "based_on"}], "requests", "estimated_s"} */
json_t *run_plan_json(const struct run_plan *p);
