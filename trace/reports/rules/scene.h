/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rules look at: the GPU's work, its idle time and what each idle time was because of, for each rank;
 * and the measure of costs. Made once for all rules.
 *
 * Costs are counted within `scope`: from the first step's beginning to the last one's end where every rank
 * has at least two steps, else from the first to the last work of the GPU. They are told as a mean over
 * `units`: steps, or ranks.
 */
#pragma once

#include "trace/reports/analysis.h"
#include "trace/reports/encounter.h"
#include "trace/reports/gap.h"

/* One step is no measure for others. */
#define SCENE_STEPS_MIN 2

/* Every idle time has one cause, so that no two findings of idle time are of the same.
 * C(identifier, what the GPU waited for) */
#define IDLE_CAUSES(C)                                                                                       \
    C(UNKNOWN, "nobody knows")   /* the trace does not tell what launched the next work */                   \
    C(DEVICE, "earlier work")    /* the next was there already: an order between streams, or a graph */      \
    C(LAUNCH, "launches")        /* one after the other */                                                   \
    C(SYNC, "waits of the host") /* the host had waited for the GPU until it ran dry */                      \
    C(COMPILE, "compilation")                                                                                \
    C(TOKENIZER, "the tokenizer")                                                                            \
    C(SCHEDULER, "the scheduler")                                                                            \
    C(DATA, "the data loader")                                                                               \
    C(ALLOCATION, "memory of the GPU")                                                                       \
    C(COLLECTOR, "Python's garbage collector")                                                               \
    C(HOST, "the host")      /* something else, that the trace names or not */                               \
    C(NOTHING, "work to do") /* for long, with nothing on the host either */

enum idle_cause {
#define C(identifier, what) IDLE_##identifier,
    IDLE_CAUSES(C)
#undef C
        _IDLE_CAUSE_MAX,
};

/* Longer than one launch takes, even of a large graph: the GPU waits for something else. */
#define IDLE_LAUNCH_MAX_NS 1000000
/* Longer than an engine's scheduler takes between two steps: there was no request. */
#define IDLE_NOTHING_MIN_NS 10000000

struct scene_rank {
    size_t rank; /* of the analysis */
    const struct columns *columns;
    const struct gpu_work *work; /* all of the trace's: rules look at what begins in scope */
    const struct steps *steps;
    struct intervals scope, busy;
    struct gaps gaps;        /* when no stream had anything to do, within scope, with the host's culprit */
    enum idle_cause *causes; /* of each gap */
    int64_t length;          /* of scope */
    size_t n_steps;
};

enum engine { ENGINE_UNKNOWN, ENGINE_VLLM, ENGINE_SGLANG, ENGINE_TRAINING };

struct scene {
    struct analysis *analysis;
    struct scene_rank *ranks; /* those with work of the GPU */
    size_t n;
    int64_t length;  /* of all scopes together */
    int64_t units;   /* what costs are told per */
    bool is_by_step; /* units are steps, not ranks */
    enum engine engine;
    struct encounters met; /* of several ranks */
};

/* -ENOMEM. */
int scene_read(struct analysis *a, struct scene *ret);
void scene_done(struct scene *scene);

/* A step's share, or a rank's. */
int64_t scene_mean(const struct scene *scene, int64_t sum);
double scene_share(const struct scene *scene, int64_t sum);
/* Length of what the set has within the rank's scope; the set is normalised. */
int64_t scene_within(const struct scene_rank *rank, const struct intervals *set);
bool scene_has(const struct scene_rank *rank, int64_t ts);
/* The step that holds the time, NULL. */
const struct step *scene_step(const struct scene_rank *rank, int64_t ts);
const char *idle_cause_what(enum idle_cause cause);
