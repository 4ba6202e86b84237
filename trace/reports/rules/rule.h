/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a finding is looked for by: one struct for each rule, in the table rules.h. A rule looks at the context
 * (context.h) and puts what it saw with what that costs; whether the cost is worth a word is the table's
 * `share_min` to decide, so that all thresholds are read here.
 *
 * The time looked at is divided by what the GPU does (enum time_kind), and findings partition each of these
 * times: no nanosecond is the cost of two of them.
 */
#pragma once

#include "trace/reports/report_rows.h"
#include "trace/reports/rules/context.h"

enum confidence {
    CONFIDENCE_CERTAIN,  /* read off the trace */
    CONFIDENCE_INFERRED, /* concluded from what the trace has: the ground explains how */
};

/* What a GPU does at a time. Each excludes those before it. */
enum time_kind {
    TIME_COMPUTE,
    TIME_COMMUNICATION,
    TIME_COPY,
    TIME_IDLE,
    _TIME_KIND_MAX,
};

/* Of each text of a finding. */
#define FINDING_TEXT_MAX 640

/* Where a finding is seen best: its longest gap, copy, step ... */
struct finding_place {
    bool is_known;
    size_t rank;      /* of the analysis */
    int64_t from, to; /* by the clock of the rank */
    uint64_t slice;   /* the event of that time, or the one that the GPU waits for; SLICE_NONE */
};

struct finding {
    int64_t cost; /* over the entire context; reported per step; COLUMN_NULL for a
                   * statement that costs nothing */
    int64_t
        of[_TIME_KIND_MAX]; /* what of the cost is of which time; all 0 where it is of steps or requests */
    enum confidence confidence;
    bool is_of_all_ranks; /* a statement about all ranks: without the traces of some, it is inferred */
    const char *advice;   /* in place of the rule's and of its engines' options; NULL */
    struct finding_place place;
    char ground[FINDING_TEXT_MAX];   /* what the confidence rests on */
    char what[FINDING_TEXT_MAX];     /* one line, with figures */
    char where[FINDING_TEXT_MAX];    /* time, kernel, rank */
    char evidence[FINDING_TEXT_MAX]; /* evidence */
    char options[FINDING_TEXT_MAX];  /* in place of the rule's */
};

struct rule {
    const char *name;
    const char *report; /* that shows more */
    double share_min;   /* of the time looked at: below it nothing is reported */
    const char *advice; /* whatever the engine */
    const char *vllm;   /* its options; NULL */
    const char *sglang; /* its options; NULL */
    /* Options of profctl analyze that show more; NULL. No other text names one, because the web page shows those. */
    const char *options;
    /* Of rules that are of idle time: the cause whose parts they claim. */
    enum idle_cause idle;
    const char *seen;  /* label at the start of the finding */
    const char *waits; /* of idle time: "waiting for kernel launches" */
    const char *ground;
    int of; /* what evaluate() distinguishes */
    int (*evaluate)(const struct rule_context *context, const struct rule *rule, struct report_rows *ret);
};

/* Whether its cost is worth a word: for rules whose words take long to find, and for those that leave to
 * others what they do not report themselves. */
bool finding_matters(const struct rule_context *context, const struct rule *rule,
                     const struct finding *finding);
/* Adds a row of the report findings, unless the cost is too small. Nothing fails: report_rows_error(). */
void finding_emit(const struct rule_context *context, const struct rule *rule, const struct finding *finding,
                  struct report_rows *ret);

/* Adds to a text of a finding; what exceeds its size is cut. */
void finding_append(char *buf, size_t size, const char *format, ...) _printf_(3, 4);
/* Adds "operators 60 %, Python 22 %": the shares of n sums in a total, the largest first, without those below least. */
void finding_append_shares(char *buf, size_t size, const int64_t *sums, size_t n, int64_t total, double least,
                           const char *(*name)(size_t i));
/* Texts for findings: all write into buf and return it. */
#define FIGURES_MAX    96
#define LOCATION_MAX   160
#define NAME_MAX_SHOWN 64
/* "57.2 ms of 102.7 ms (56 %)", with " a step" where costs are of steps. */
char *finding_figures(char buf[FIGURES_MAX], const struct rule_context *context, int64_t cost);
/* Where a finding is, by the clock of the rank; slice: SLICE_NONE where it is of no single event. */
void finding_set_place(struct finding *finding, const struct rule_rank *rank, int64_t from, int64_t to,
                       uint64_t slice);
/* The finding's place: "rank 3, 98.191ms to 100.823ms", counted, and written, as --from and --to do; "an unknown time"
 * where the trace has no first slice to count from. */
char *finding_location(char buf[LOCATION_MAX], const struct rule_context *context,
                       const struct finding *finding);
/* A recorded text that a sentence holds: a longer one ends in "...", and never within a character. */
char *finding_text(char buf[NAME_MAX_SHOWN + 1], struct text text);
/* The same of a kernel's name without the arguments of its templates. */
char *finding_name(char buf[NAME_MAX_SHOWN + 1], struct text name);

/* The rules that there are. A new one is a struct in a file here, and a line. */
/* clang-format off */
#define RULES(R)                                                                                             \
    R(exposed_expert_parallel)                                                                               \
    R(exposed_all_reduce)                                                                                    \
    R(exposed_communication)                                                                                 \
    R(step_outlier)                                                                                          \
    R(straggler)                                                                                             \
    R(uneven_ranks)                                                                                          \
    R(missing_graph)                                                                                         \
    R(launch_bound)                                                                                          \
    R(sync_in_step)                                                                                          \
    R(pageable_copy)                                                                                         \
    R(exposed_copy)                                                                                          \
    R(allocation_in_step)                                                                                    \
    R(recompilation)                                                                                         \
    R(starved_by_tokenizer)                                                                                  \
    R(starved_by_scheduler)                                                                                  \
    R(starved_by_data)                                                                                       \
    R(starved_by_collector)                                                                                  \
    R(host_bound)                                                                                            \
    R(tiny_kernels)                                                                                          \
    R(unfused_elementwise)                                                                                   \
    R(prefill_steals_decode)                                                                                 \
    R(profiler_overhead)                                                                                     \
    R(idle_worker)

/* Asked once all others have been: context.unclaimed is what these leave. */
#define LAST_RULES(R)                                                                                        \
    R(unexplained_idle)                                                                                      \
    R(gpu_bound)                                                                                             \
    R(recording_edge)                                                                                        \
    R(not_evaluated)

/* clang-format on */

#define R(name) extern const struct rule rule_##name;
RULES(R)
LAST_RULES(R)
#undef R
