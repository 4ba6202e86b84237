/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How each engine is identified and how its profiler is worked: one file for each engine, one table of
 * operations.
 *
 * Everything here is pure: answers of a worker in, requests and judgements out. Nobody in this file calls a
 * worker.
 */
#pragma once

#include "base/problem.h"
#include "daemon/fleet/worker.h"

enum activity {
    ACTIVITY_CPU = 1 << 0,
    ACTIVITY_CUDA = 1 << 1,
    ACTIVITY_MEM = 1 << 2,
    ACTIVITY_CUDA_PROFILER = 1 << 3,
};

/* What a session asks one worker to record. Strings are borrowed. */
struct recording {
    int64_t steps;      /* 0: none, record for duration_ns */
    int64_t start_step; /* 0: at once */
    int64_t duration_ns;
    unsigned activities; /* 0: the engine's default */
    bool with_stack, record_shapes, by_stage;
    const char *profile_id; /* unique for the target */
    const char *output_dir; /* of the target, on the worker's file system; NULL where the engine decides */
};

/* What must be said before anything is started. */
struct remark {
    bool refuses; /* the session cannot start like this */
    char *option; /* "--with-stack", NULL: the worker itself */
    char *text;
    char *remedy;
};
struct review {
    struct remark *items;
    size_t n, cap;
};
void review_add(struct review *r, bool refuses, const char *option, const char *remedy, const char *format,
                ...) _printf_(5, 6);
void review_done(struct review *r);

struct engine_ops {
    enum engine id;
    /* A start must be preceded by a stop whose failure is ignored (vLLM); its opposite is: never start twice
     * (SGLang). */
    bool stop_before_start;
    bool takes_output_dir; /* the start's body names where to write */
    const char *start_path, *stop_path;
    /* Metrics of /metrics (summed over labels): requests being run, and steps done so far; NULL where there
     * is none. */
    const char *running_metric, *waiting_metric, *steps_metric;
    /* True where the engine ends a recording of N steps by itself; else profd watches steps_metric and stops
     * it. */
    bool stops_after_steps;
    /* The start's JSON body, NULL for an empty one. */
    json_t *(*start_body)(const struct recording *rec, const struct worker *w);
    /* Adds what this worker cannot honour, or will do badly. */
    void (*review)(const struct recording *rec, const struct worker *w, struct review *review);
    /* A stop that failed with this status although nothing is wrong (SGLang after num_steps). */
    bool (*stop_failure_is_benign)(const struct recording *rec, int status);
    /* Says what a failed start means and what to do: p is empty and gets both lines. */
    void (*explain_start)(const struct worker *w, int status, const char *body, struct problem *p);
};

/* NULL for ENGINE_UNKNOWN. */
const struct engine_ops *engine_ops(enum engine e);

/* Sum of all samples of one metric in Prometheus text; false where it does not occur. */
bool metrics_sum(const char *text, size_t size, const char *metric, double *ret);
