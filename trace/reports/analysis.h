/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input of reports: one trace or the traces of all ranks, and the selected part of them.
 *
 * Data that several reports need (GPU events, steps) is read on first use and belongs to the analysis.
 * Several threads may use it at once: threads that need the same rank wait for each other.
 */
#pragma once

#include "trace/reports/gpu.h"
#include "trace/reports/host.h"
#include "trace/reports/self_time.h"
#include "trace/reports/step.h"
#include <pthread.h>

/* What an analysis keeps of a rank. Each may need those before it. */
enum rank_data {
    RANK_SLICES,
    RANK_GPU, /* all GPU events */
    RANK_STEPS,
    RANK_TIMES,    /* the times of the view */
    RANK_SELECTED, /* the GPU events within the view */
    RANK_SELF_TIMES,
    RANK_RESTS,
    RANK_OPS,
    RANK_FRAMES,
    _RANK_DATA_MAX,
};

struct rank {
    const struct columns *columns; /* the caller's */
    const char *label;             /* the caller's: "rank 3", a file's name */
    int64_t number;                /* from the trace, otherwise its index in its instance */
    int64_t shift_ns;              /* shift of its timestamps, so that all are of one clock */
    /* Private. */
    pthread_mutex_t locks[_RANK_DATA_MAX]; /* one of zeros is open (PTHREAD_MUTEX_INITIALIZER) */
    bool known[_RANK_DATA_MAX];            /* which of these were read */
    struct gpu_work gpu, selected;
    struct host_calls ops, frames;
    struct steps steps;
    struct intervals times, rests;
    struct slice_table slices;
    struct self_times self_times;
};

/* The selected part of the traces: everything by default. */
struct analysis_view {
    int64_t from, to;  /* counted from the first slice; INT64_MIN, INT64_MAX */
    int64_t step;      /* number of a step, COLUMN_NULL */
    const char *phase; /* NULL: any */
};
#define VIEW_ALL ((struct analysis_view){.from = INT64_MIN, .to = INT64_MAX, .step = COLUMN_NULL})

/* A trace that names more ranks is not believed. */
#define ANALYSIS_WORLD_MAX 65536

enum hta_steps { HTA_STEPS_UNKNOWN, HTA_STEPS_NO, HTA_STEPS_YES };

/* The ranks that run one copy of a model. Collectives and stragglers are determined within one. */
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

/* The analysis of one instance: its ranks keep their data for the analysis of all. Nothing of it is to be
 * freed. */
struct analysis analysis_of_instance(const struct analysis *a, size_t instance);

/* The number of ranks in the job of one instance: as its traces have it, and at least as many as were recorded.
 * Of several instances, and where no trace has it, that of the recorded ranks. */
size_t analysis_world(const struct analysis *a);

/* Frees the data that was read; the caller owns the ranks. */
void analysis_done(struct analysis *a);

/* All of these are read once; the analysis owns them. -ENOMEM. */
/* Reads the slices and the GPU events of all ranks in parallel, before reports use one after the other. */
int analysis_read_all(struct analysis *a);
/* The GPU events within the view: those that begin in it. */
int analysis_gpu(struct analysis *a, size_t rank, const struct gpu_work **ret);
/* All of it. */
int analysis_all_gpu(struct analysis *a, size_t rank, const struct gpu_work **ret);
int analysis_steps(struct analysis *a, size_t rank, const struct steps **ret);
/* All slices, unpacked. */
int analysis_slices(struct analysis *a, size_t rank, const struct slice_table **ret);
/* Of the threads that launched GPU events. */
int analysis_self_times(struct analysis *a, size_t rank, const struct self_times **ret);
/* Of the entire trace (rests.h). */
int analysis_rests(struct analysis *a, size_t rank, const struct intervals **ret);
/* The view's times by the rank's own clock; an unlimited view is a single interval. Normalised. */
int analysis_times(struct analysis *a, size_t rank, const struct intervals **ret);
/* Operators and annotations, and Python frames, of the entire trace, with the GPU events within the view. */
int analysis_ops(struct analysis *a, size_t rank, const struct host_calls **ret);
int analysis_frames(struct analysis *a, size_t rank, const struct host_calls **ret);
/* Returns whether a call begins within the view. */
static inline bool analysis_has_call(const struct intervals *times, const struct host_call *call)
{
    return intervals_find(times, call->ts) != NULL;
}
/* Returns whether a step of the rank is within the view. */
bool analysis_has_step(struct analysis *a, size_t rank, const struct step *step);
/* Returns whether the view covers the complete traces, not a selected part. */
bool analysis_is_complete(const struct analysis *a);
/* Returns whether any trace has GPU activity, within the view or not. */
bool analysis_has_gpu(const struct analysis *a);
/* Converts a timestamp to the time since its rank's first slice, as for --from and --to. */
int64_t analysis_since_first(const struct analysis *a, size_t rank, int64_t ts);
