/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rules look at: the GPU's work, its idle time and what each idle time was because of, for each rank;
 * and the measure of costs. Made once for all rules.
 *
 * Costs are counted within `scope`: from the first step's beginning to the last one's end, without steps that
 * are outliers, where every rank has at least two steps; else from the first to the last work of the GPU.
 * They are reported as a mean over `units`: steps, or ranks.
 */
#pragma once

#include "trace/reports/aggregation.h"
#include "trace/reports/collective_instance.h"
#include "trace/reports/gap.h"
#include "trace/reports/rules/host_class.h"

/* One step is no measure for others. */
#define RULE_STEPS_MIN 2

/* What the GPU waits for. Every part of an idle time has one cause, so that no two findings of idle time are
 * of the same. */
enum idle_cause {
    IDLE_UNKNOWN, /* the trace does not have the launch of the next work */
    IDLE_DEVICE,  /* earlier work; the next was there already: an order between streams, or a graph */
    IDLE_LAUNCH,  /* launches, one after the other */
    IDLE_SYNC,    /* the host had waited for the GPU until it ran dry */
    IDLE_COMPILE,
    IDLE_TOKENIZER,
    IDLE_SCHEDULER,
    IDLE_DATA,       /* the data loader */
    IDLE_ALLOCATION, /* of the GPU's memory */
    IDLE_COLLECTOR,  /* Python's garbage collector */
    IDLE_PAGEABLE,   /* the host is in calls that copy pageable memory */
    IDLE_PROFILER,
    IDLE_HOST,    /* something else, that the trace names or not */
    IDLE_NOTHING, /* for long, with nothing on the host either */
    _IDLE_CAUSE_MAX,
};

/* Longer than one launch takes, even of a large graph: the GPU waits for something else. */
#define IDLE_LAUNCH_MAX_NS 1000000
/* Longer than an engine's scheduler takes between two steps: there was no request. */
#define IDLE_NOTHING_MIN_NS 10000000

/* A part of a gap: the time that the launching thread spent in one call itself. The parts of a gap add up to
 * it, those of all gaps to the idle time of the scope. */
struct idle_part {
    size_t gap;
    int64_t ns;
    uint64_t slice; /* the call; SLICE_NONE: none was open, or the next work was launched already */
    enum idle_cause cause;
    enum host_class class;
};

struct rule_rank {
    size_t rank; /* of the analysis */
    const struct columns *columns;
    const struct slice_table *slices;
    const struct gpu_work *work; /* all of the trace's: rules look at what begins in scope */
    const struct steps *steps;
    struct intervals scope, busy;
    struct gaps gaps; /* when no stream had anything to do, within scope, with what covers most of them */
    struct idle_part *parts; /* of the gaps, in their order */
    size_t n_parts, parts_cap;
    int64_t length;            /* of scope */
    size_t n_steps;            /* in scope */
    int64_t before, after;     /* recorded, and looked at, before and after all steps or GPU work */
    int64_t recorded;          /* all that is recorded and looked at */
    struct intervals outliers; /* steps that are not in scope, for they take much longer than the others */
    size_t n_outliers;
    int64_t outliers_longer;               /* than the median steps of their phases */
    int64_t outlier_idle[_HOST_CLASS_MAX]; /* idle time in them, by what the host does */
    /* Most likely work of before the recording, which is not in scope; empty where there is none. */
    struct interval edge;
    uint64_t edge_wait; /* the call that waits meanwhile, SLICE_NONE */
    /* Exposed communication in which the rank only waits: for the straggler alone, and for any other rank
     * that comes last. Normalised, within scope, without common times. */
    struct intervals waits_for_straggler, waits_for_others;
    struct intervals chains; /* elementwise kernels that fusing would save, where that is reported */
};

/* The longest of the steps that are no measure for others. */
struct outlier {
    const struct step *step;
    const struct rule_rank *rank;
    int64_t median; /* of its phase on its rank */
};

/* How a rank arrives at collectives. */
struct arrivals {
    int64_t delay; /* sum of its delays after the second to last rank, where it was last */
    int64_t most;  /* the longest of them, and where that was */
    const struct collective_instance *worst;
    size_t n_last; /* number of collectives at which it was last by more than the clock errors of both */
};

enum engine { ENGINE_UNKNOWN, ENGINE_VLLM, ENGINE_SGLANG, ENGINE_TRAINING };

struct rule_context {
    struct analysis *analysis;
    struct rule_rank *ranks; /* those with work of the GPU */
    size_t n;
    int64_t length;  /* of all scopes together */
    int64_t units;   /* unit of reported costs */
    bool is_by_step; /* units are steps, not ranks */
    enum engine engine;
    struct outlier outlier;
    /* Idle time by its cause, and what of it no finding claims: known once all rules have been asked. */
    int64_t idle[_IDLE_CAUSE_MAX], unclaimed[_IDLE_CAUSE_MAX];
    struct collective_instances collectives; /* of several ranks */
    struct arrivals
        *arrivals; /* of each rank, at the n_collectives of them that are in scope; NULL: of none */
    size_t n_collectives;
    size_t straggler; /* the rank whose being last costs most */
    /* Findings that are reported, so that others leave their time to them. */
    bool is_straggler_found, is_uneven_found;
    int64_t profiler_frames, profiler_kineto; /* while GPUs are idle: Python frames, and ns of overhead */
};

/* -ENOMEM. */
int rule_context_read(struct analysis *a, struct rule_context *ret);
void rule_context_done(struct rule_context *context);

/* Communication with no computing kernel, within scope. Normalised; -ENOMEM. */
int rule_context_exposed(const struct rule_rank *rank, struct intervals *ret);

/* The GPU events within the scope of each rank by name (gpu_names). -ENOMEM. */
int rule_context_names(const struct rule_context *context, struct aggregated *ret);

/* A step's share, or a rank's. */
int64_t rule_context_mean(const struct rule_context *context, int64_t sum);
double rule_context_share(const struct rule_context *context, int64_t sum);
/* " per step", or " per rank" of several ranks: what means are of. */
const char *rule_context_unit(const struct rule_context *context);
/* Length of what the set has within the rank's scope; the set is normalised. */
int64_t rule_context_within(const struct rule_rank *rank, const struct intervals *set);
bool rule_context_has(const struct rule_rank *rank, int64_t ts);
/* The step that holds the time, NULL. */
const struct step *rule_context_step(const struct rule_rank *rank, int64_t ts);

/* What one rule takes of a time that others would report otherwise: decided once, before rules are asked. */
/* Which exposed communication is waiting for other ranks, and how ranks arrive. -ENOMEM. */
int waits_read(struct rule_context *context);
/* Which idle time is the profiler's own: parts of gaps become IDLE_PROFILER where it is worth a finding.
 * -ENOMEM. */
int profiler_read(struct rule_context *context);
/* Compute time of kernels in chains that a fused kernel would not need, where it is worth a finding. -ENOMEM.
 */
int chains_read(struct rule_context *context);
