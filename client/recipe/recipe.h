/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job file of srtctl (github.com/NVIDIA/srt-slurm) as far as profiling goes: what is recorded in which
 * phase, under which load. Pure: bytes in, a plain struct out.
 *
 * Three generations of the schema are one struct here: the load stands in each phase (2025), beside the
 * phases (January 2026), or in the section `benchmark` (since February 2026). Texts are borrowed from the
 * document, which the recipe owns until recipe_done().
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"

#define RECIPE_BYTES_MAX         (1 << 20)
#define RECIPE_STOP_STEP         50 /* srtctl's default */
#define RECIPE_STEPS_FEW         30 /* "A typical profiling run uses 30-100 steps" */
#define RECIPE_STEPS_MANY        100
#define RECIPE_GPUS_PER_NODE     4    /* srtctl's default */
#define RECIPE_GPUS_PER_NODE_MAX 1024 /* each is named in a file's name */
#define RECIPE_WORKERS_MAX       10000
#define RECIPE_CONCURRENCIES_MAX 64

enum recipe_type {
    RECIPE_NONE,
    RECIPE_TORCH,
    RECIPE_NSYS,
    RECIPE_NSYS_TIME,
    RECIPE_NSYS_MANUAL,
    _RECIPE_TYPE_MAX,
};

enum recipe_mode {
    RECIPE_PREFILL,
    RECIPE_DECODE,
    RECIPE_AGGREGATED,
    _RECIPE_MODE_MAX,
};

enum recipe_generation {
    RECIPE_LOAD_IN_PHASE,
    RECIPE_LOAD_IN_PROFILING,
    RECIPE_LOAD_IN_BENCHMARK,
};

struct recipe_phase {
    bool present;
    int64_t isl, osl, concurrency; /* 0: not said */
    int64_t start_step, stop_step;
    int64_t nodes, workers, gpus; /* of the role; gpus of one worker */
    const json_t *config;         /* flags of its workers, NULL */
    const json_t *environment;    /* variables of its workers, NULL */
};

struct recipe {
    char *path;
    json_t *root, *lines;
    enum recipe_type type;
    enum recipe_generation generation;
    bool disaggregated;
    struct recipe_phase phases[_RECIPE_MODE_MAX];
    const char *name, *model_path; /* NULL unknown */
    const char *backend;           /* "sglang", "vllm", "trtllm" */
    const char *frontend;          /* "dynamo", "sglang", ... */
    const char *benchmark;         /* its type, "manual" */
    int64_t gpus_per_node;
    int64_t delay_secs, duration_secs, benchmark_duration_secs; /* -1: not said */
    const json_t *extra_nsys_args;                              /* NULL */
};

/* Reads and checks (rules.h) a file. With any_workers the limit of one worker a role is no rule. -EINVAL with
 * a problem that says the file's line. */
int recipe_read(const char *path, bool any_workers, struct recipe *ret, struct problem *p);
int recipe_parse(const char *path, const char *data, size_t size, struct recipe *ret, struct problem *p);
void recipe_done(struct recipe *r);

const char *recipe_type_name(enum recipe_type type);
const char *recipe_mode_name(enum recipe_mode mode); /* "prefill", "decode", "aggregated" */
/* "agg" is "aggregated", as srtctl's own scripts call it. */
int recipe_mode_from_name(const char *name);
static inline bool recipe_is_nsys(const struct recipe *r)
{
    return r->type == RECIPE_NSYS || r->type == RECIPE_NSYS_TIME || r->type == RECIPE_NSYS_MANUAL;
}
/* The line of a key ("profiling.prefill.isl"), or of the nearest one above it; 0 where there is none. */
int64_t recipe_line(const struct recipe *r, const char *key);
/* "3667_1P_1D_20251110_192145", as srtctl names the directory of a job's results. The caller frees it. */
char *recipe_folder(const struct recipe *r, const char *job_id, int64_t wall_ns);
