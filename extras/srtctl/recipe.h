/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job file of srtctl (github.com/NVIDIA/srt-slurm) as far as profiling goes: what is recorded in which
 * phase, under which load. Pure: bytes in, a plain struct out.
 *
 * Three generations of the schema are one struct here: the load is in each phase (2025), next to the
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
    char *variant; /* its name, NULL: the file is one job */
    json_t *root, *lines, *columns;
    enum recipe_type type;
    enum recipe_generation generation;
    bool disaggregated;
    struct recipe_phase phases[_RECIPE_MODE_MAX];
    const char *name, *model_path;                   /* NULL unknown */
    const char *backend;                             /* "sglang", "vllm", "trtllm" */
    const char *frontend;                            /* "dynamo", "sglang", ... */
    const char *benchmark;                           /* its type, "manual" */
    int64_t concurrencies[RECIPE_CONCURRENCIES_MAX]; /* of the benchmark, one after another */
    size_t n_concurrencies;
    int64_t requests_of_each; /* number of requests by concurrency: srtctl's num_prompts_mult */
    int64_t gpus_per_node;
    int64_t delay_secs, duration_secs, benchmark_duration_secs; /* -1: not said */
    const json_t *extra_nsys_args;                              /* NULL */
};

/* Rules that are lifted. */
enum {
    RECIPE_ANY_WORKERS = 1 << 0, /* more than one worker of a role, which older srtctl refused */
    RECIPE_ANY_LOAD = 1 << 1, /* a load that profd cannot send, or none: its workers are to be started only */
};

/*
 * -- variants.c: what one file of srtctl describes: a job, or several that share a base (base, override_NAME,
 * zip_override_NAME) or differ in parameters (sweep) --
 */

#define RECIPE_VARIANTS_MAX 1000
/* Of all variants of a file together, each counted as large as the file and what is put into it. */
#define RECIPE_VARIANTS_BYTES_MAX (16 << 20)

struct recipe_variant {
    char *name;              /* "lowmem", "tp_sweep_0", "mem0.85_conc256"; NULL: the file is one job */
    bool by_name_only;       /* the base of others: srtctl runs it only where it is named */
    json_t *root;            /* of the job, nothing left to resolve */
    json_t *lines, *columns; /* of its keys, in the file */
};

struct recipe_variants {
    struct recipe_variant *items;
    size_t n, cap;
};

/* All variants of a file. -EINVAL with a problem that has the place. */
int recipe_variants_read(const char *path, const char *data, size_t size, struct recipe_variants *ret,
                         struct problem *p);
/*
 * The one that is named, as listed or as srtctl's own selectors have it ("override_lowmem",
 * "zip_override_tp_sweep[0]", "base"); NULL names the only one. NULL with a problem that lists them.
 */
const struct recipe_variant *recipe_variants_find(const struct recipe_variants *v, const char *path,
                                                  const char *name, struct problem *p);
void recipe_variants_done(struct recipe_variants *v);

/* A value as Python's str() has it, since srtctl composes texts there. The caller frees it. */
char *recipe_value_text(const json_t *v);
/* The keys of a section in order, borrowed; the caller frees the array. */
const char **recipe_sorted_keys(const json_t *section, size_t *ret_n);

/* -- recipe.c -- */

/*
 * Reads one variant (NULL: the only one) of a file, and checks its keys and types, and what srtctl demands. -EINVAL with a problem that has the place in the file.
 */
int recipe_read(const char *path, const char *variant, unsigned lifted, struct recipe *ret,
                struct problem *p);
/* The same without the rules. */
int recipe_parse(const char *path, const char *data, size_t size, const char *variant, struct recipe *ret,
                 struct problem *p);
int recipe_from_variant(const char *path, const struct recipe_variant *v, struct recipe *ret,
                        struct problem *p);
void recipe_done(struct recipe *r);

const char *recipe_type_name(enum recipe_type type);
const char *recipe_mode_name(enum recipe_mode mode);       /* "prefill", "decode", "aggregated" */
const char *recipe_mode_short_name(enum recipe_mode mode); /* "agg" */
/* "agg" is "aggregated", as srtctl's own scripts call it. */
int recipe_mode_from_name(const char *name);
static inline bool recipe_is_nsys(const struct recipe *r)
{
    return r->type == RECIPE_NSYS || r->type == RECIPE_NSYS_TIME || r->type == RECIPE_NSYS_MANUAL;
}
/* "PATH:LINE:COLUMN: TEXT" as a problem, with the place of a key ("profiling.prefill.isl") or of the nearest
 * one above it. Returns -EINVAL. */
int recipe_refuse(const struct recipe *r, const char *key, struct problem *p, const char *format, ...)
    _printf_(4, 5);
/* "3667_1P_1D_20251110_192145", as srtctl names the directory of a job's results. The caller frees it. */
char *recipe_folder(const struct recipe *r, const char *job_id, int64_t wall_ns);

/*
 * schema.c: 0, or -EINVAL with the first key that srtctl does not have, or whose value has another type, with its location
 * and a suggestion. old: a recipe whose load is in profiling or its phases, as until January 2026; it has
 * more keys, and its types are taken more freely.
 */
int recipe_check_schema(const struct recipe *r, bool old, struct problem *p);
/* rules.c: 0, or -EINVAL with the first rule of srtctl, in its own words, that is broken and not lifted
 * (RECIPE_ANY_...). */
int recipe_check(const struct recipe *r, unsigned lifted, struct problem *p);

/* -- phases.c: what a recipe's phases ask of profd; the caller owns what is returned -- */

#define RECIPE_REQUESTS 128 /* srtctl's --num-prompts */

/* The load of a phase as a workload. */
json_t *phase_workload(const struct recipe *r, enum recipe_mode mode);
/*
 * The members of a StartRequest for some phases (bits 1 << mode) under the load of the first of them: the
 * workers of each role record its steps, counted from the beginning of the load, and their traces are found
 * in the folder of the job's name (recipe_folder()). The load ends when they are complete.
 */
json_t *phases_request(const struct recipe *r, unsigned modes, const char *folder);
bool phases_share_load(const struct recipe *r);
/* What is unusual about its steps, in one line; NULL: nothing. */
char *phase_remark(const struct recipe *r, enum recipe_mode mode);
