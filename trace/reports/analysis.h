/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What reports are made from: one trace or the traces of all ranks, and the part of them that is looked at.
 *
 * What several reports need (the GPU's work, steps) is read when it is first asked for and belongs to the
 * analysis. Several threads may ask at once: of one rank they wait for each other.
 */
#pragma once

#include "trace/reports/gpu.h"
#include "trace/reports/host.h"
#include "trace/reports/step.h"
#include <pthread.h>

struct rank {
    const struct columns *columns; /* the caller's */
    const char *label;             /* the caller's: "rank 3", a file's name */
    int64_t number;                /* from the trace, otherwise its position in its instance */
    int64_t shift_ns;              /* what is added to its stamps, so that all are of one clock */
    /* Private. */
    pthread_mutex_t lock; /* of what follows; one of zeros is open (PTHREAD_MUTEX_INITIALIZER) */
    struct gpu_work *gpu, *selected;
    struct host_calls *ops, *frames;
    struct steps *steps;
    struct intervals *times;
};

/* The selected part of the traces: everything by default. */
struct analysis_view {
    int64_t from, to;  /* counted from the first slice; INT64_MIN, INT64_MAX */
    int64_t step;      /* number of a step, COLUMN_NULL */
    const char *phase; /* NULL: any */
};
#define VIEW_ALL ((struct analysis_view){.from = INT64_MIN, .to = INT64_MAX, .step = COLUMN_NULL})

enum hta_steps { HTA_STEPS_UNKNOWN, HTA_STEPS_NO, HTA_STEPS_YES };

/* The ranks that run one copy of a model. Collectives and stragglers are looked for within one. */
struct engine_instance {
    const char *name; /* the caller's: "10.0.0.1:30000" */
    const char *role; /* the caller's: "prefill", "decode", ...; NULL: not known */
    size_t first, n;  /* its ranks: those of an instance lie next to each other */
    double kv_use;    /* of its KV cache, 0 to 1, while it was recorded; NaN: not known */
};

struct analysis {
    struct rank *ranks;
    size_t n;
    const struct engine_instance *instances; /* the caller's; NULL: all ranks are of one */
    size_t n_instances;
    struct analysis_view view;
    const struct kernel_patterns *patterns; /* NULL: the known ones alone */
    bool hta;                               /* by Holistic Trace Analysis' own rules where there are any */
    /* Private: whether its filter of steps applies, enum hta_steps. */
    _Atomic int hta_steps;
};

/* The analysis of one instance alone: its ranks keep what they read for the analysis of all. Nothing of it is
 * to be freed. */
struct analysis analysis_of_instance(const struct analysis *a, size_t instance);

/* Frees what was read; the ranks themselves are the caller's. */
void analysis_done(struct analysis *a);

/* All of these are read once; they stay the analysis'. -ENOMEM. */
/* The work of all ranks, side by side, before reports ask for one after the other. */
int analysis_read_gpu(struct analysis *a);
/* The work within the view: what begins in it. */
int analysis_gpu(struct analysis *a, size_t rank, const struct gpu_work **ret);
/* All of it. */
int analysis_all_gpu(struct analysis *a, size_t rank, const struct gpu_work **ret);
int analysis_steps(struct analysis *a, size_t rank, const struct steps **ret);
/* The view's times by the rank's own clock; one that is everything is a single interval. Normalised. */
int analysis_times(struct analysis *a, size_t rank, const struct intervals **ret);
/* Operators and annotations, and Python frames, of the entire trace, with the GPU events within the view. */
int analysis_ops(struct analysis *a, size_t rank, const struct host_calls **ret);
int analysis_frames(struct analysis *a, size_t rank, const struct host_calls **ret);
/* Whether a call begins within the view. */
bool analysis_has_call(const struct intervals *times, const struct host_call *call);
/* Is a step of the rank within the view? */
bool analysis_has_step(struct analysis *a, size_t rank, const struct step *step);
/* Whether the view is all of the traces, not a part that somebody asked for. */
bool analysis_is_complete(const struct analysis *a);
/* Whether any of the traces has GPU activity, within the view or not. */
bool analysis_has_gpu(const struct analysis *a);
/* A stamp as people count it: from its rank's first slice on, as --from and --to do. */
int64_t analysis_since_first(const struct analysis *a, size_t rank, int64_t ts);
