/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks side by side, with the usual values and the outliers. */
#include "base/statistics.h"
#include "trace/read/sum.h"
#include "trace/reports/collective_instance.h"
#include "trace/reports/report.h"
#include <errno.h>

/* -- Ranks ----------------------------------------------------------------------------------------------- */

/* A rank that differs from the median by less than this part of the span is like the others. */
#define OUTLIER_SPAN_PART 100
/* Missing ranks that are named. */
#define MISSING_NAMED 64

enum { SPAN, BUSY, IDLE, COMPUTE, COMMUNICATION, EXPOSED, MEMORY, EVENTS, _MEASURE_MAX };

#define RANKS_COLUMNS(C)                                                                                     \
    C(who, TEXT, "label of the rank, or the statistic over all ranks: min, median, max")                     \
    RANK_COLUMN(C)                                                                                           \
    C(span_ns, NS, "time from the start of the first GPU event to the end of the last")                      \
    C(busy_ns, NS, "time with activity on any stream", IMPORTANCE_HIGH)                                      \
    C(idle_ns, NS, "time without GPU activity", IMPORTANCE_HIGH)                                             \
    C(compute_ns, NS, "time with a computing kernel")                                                        \
    C(comm_ns, NS, "time with communication")                                                                \
    C(exposed_ns, NS, "time with communication and no computation", IMPORTANCE_HIGH)                         \
    C(memory_ns, NS, "time with a copy or memset", IMPORTANCE_EXTRA)                                         \
    C(events, COUNT, "number of kernels, copies and memsets", IMPORTANCE_EXTRA)                              \
    C(last_share, SHARE, "share of collectives at which the rank arrived last")                              \
    C(outlier, TEXT, "measure in which the rank is an outlier, or missing", IMPORTANCE_HIGH)                 \
    C(clock_shift_ns, NS,                                                                                    \
      "offset added to its timestamps to align all clocks, relative to that of the first rank",              \
      IMPORTANCE_EXTRA)                                                                                      \
    C(clock_error_ns, NS, "remaining clock error: median distance between the ends of collectives",          \
      IMPORTANCE_EXTRA)
REPORT_ROW(ranks, RANKS_COLUMNS);

struct measures {
    int64_t values[_MEASURE_MAX];
    uint64_t last; /* number of collectives at which it arrived last */
};

static int ranks_measure(struct analysis *a, size_t rank, struct measures *ret)
{
    const struct gpu_work *work;
    struct gpu_times times;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = gpu_work_times(work, &times);
    if (r < 0)
        return r;
    ret->values[SPAN] = times.span;
    ret->values[BUSY] = times.busy;
    ret->values[IDLE] = times.span - times.busy;
    ret->values[COMPUTE] = times.compute;
    ret->values[COMMUNICATION] = times.communication;
    ret->values[EXPOSED] = times.exposed;
    ret->values[MEMORY] = times.memory;
    ret->values[EVENTS] = (int64_t)work->n;
    return 0;
}

/* The measures of a row. */
#define MEASURES(values)                                                                                     \
    .span_ns = (values)[SPAN], .busy_ns = (values)[BUSY], .idle_ns = (values)[IDLE],                         \
    .compute_ns = (values)[COMPUTE], .comm_ns = (values)[COMMUNICATION], .exposed_ns = (values)[EXPOSED],    \
    .memory_ns = (values)[MEMORY], .events = (values)[EVENTS]

#define OUTLIER_TEXT_MAX 32

/* The first measure in which a rank is an outlier: "comm low"; empty where it is none. */
static const char *ranks_outlier(char buf[OUTLIER_TEXT_MAX], const struct spread *usual,
                                 const struct measures *m)
{
    static const char *const names[] = {
        [SPAN] = "span", [BUSY] = "busy", [IDLE] = "idle", [COMPUTE] = "compute", [COMMUNICATION] = "comm"};

    for (size_t i = ARRAY_SIZE(names); i-- > 0;)
        if (is_outlier(&usual[i], m->values[i], usual[SPAN].median / OUTLIER_SPAN_PART)) {
            snprintf(buf, OUTLIER_TEXT_MAX, "%s %s", names[i],
                     m->values[i] < usual[i].median ? "low" : "high");
            return buf;
        }
    return NULL;
}

static void emit_rank(struct analysis *a, size_t rank, const struct measures *m, const struct spread *usual,
                      size_t n_met, int64_t clock_error, struct report_rows *ret)
{
    char outlier[OUTLIER_TEXT_MAX];

    EMIT_ROW(ranks, ret, .who = row_str(a->ranks[rank].label), .rank = a->ranks[rank].number,
             MEASURES(m->values), .last_share = row_share((int64_t)m->last, (int64_t)n_met),
             .outlier = row_str(ranks_outlier(outlier, usual, m)),
             .clock_shift_ns = difference_of(a->ranks[rank].shift_ns, a->ranks[0].shift_ns),
             .clock_error_ns = clock_error);
}

static void emit_usual(const char *who, unsigned percent, const int64_t *const *sorted, size_t n,
                       struct report_rows *ret)
{
    int64_t values[_MEASURE_MAX];

    for (size_t i = 0; i < _MEASURE_MAX; i++)
        values[i] = percentile(sorted[i], n, percent);
    EMIT_ROW(ranks, ret, .who = row_str(who), .rank = COLUMN_NULL, MEASURES(values), .last_share = NAN,
             .clock_shift_ns = COLUMN_NULL, .clock_error_ns = COLUMN_NULL);
}

/* Ranks of the world without a trace. */
static void emit_missing(struct analysis *a, struct report_rows *ret)
{
    static const int64_t none[_MEASURE_MAX] = {COLUMN_NULL, COLUMN_NULL, COLUMN_NULL, COLUMN_NULL,
                                               COLUMN_NULL, COLUMN_NULL, COLUMN_NULL, COLUMN_NULL};
    int64_t world = columns_meta(a->ranks[0].columns, META_world_size);
    size_t named = 0;

    for (int64_t number = 0; world <= ANALYSIS_WORLD_MAX && number < world && named < MISSING_NAMED;
         number++) {
        bool is_there = false;
        char who[32];
        for (size_t i = 0; i < a->n && !is_there; i++)
            is_there = a->ranks[i].number == number;
        if (is_there)
            continue;
        named++;
        snprintf(who, sizeof(who), "rank %lld", (long long)number);
        EMIT_ROW(ranks, ret, .who = row_str(who), .rank = number, MEASURES(none), .last_share = NAN,
                 .outlier = row_str("missing"), .clock_shift_ns = COLUMN_NULL, .clock_error_ns = COLUMN_NULL);
    }
}

static int ranks_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(collective_instances_done) struct collective_instances collectives = {0};
    _cleanup_(freep) struct measures *all = calloc(a->n, sizeof(*all));
    _cleanup_(freep) int64_t *values = calloc(a->n, _MEASURE_MAX * sizeof(*values)),
                             *clock_errors = calloc(a->n, sizeof(*clock_errors));
    const int64_t *sorted[_MEASURE_MAX];
    struct spread usual[_MEASURE_MAX];
    int r = all && values && clock_errors ? collective_instances_find(a, &collectives) : -ENOMEM;

    for (size_t rank = 0; rank < a->n && r >= 0; rank++)
        r = ranks_measure(a, rank, &all[rank]);
    if (r >= 0)
        r = collective_instances_clock_errors(a, &collectives, clock_errors);
    if (r < 0)
        return r;
    for (size_t i = 0; i < collectives.n; i++)
        all[collective_instance_last(a, &collectives.items[i])].last++;
    for (size_t i = 0; i < _MEASURE_MAX; i++) {
        for (size_t rank = 0; rank < a->n; rank++)
            values[i * a->n + rank] = all[rank].values[i];
        sort_ns(values + i * a->n, a->n);
        sorted[i] = values + i * a->n;
        usual[i] = spread_of(sorted[i], a->n);
    }
    for (size_t rank = 0; rank < a->n; rank++)
        emit_rank(a, rank, &all[rank], usual, collectives.n, clock_errors[rank], ret);
    emit_missing(a, ret);
    emit_usual("min", 0, sorted, a->n, ret);
    emit_usual("median", 50, sorted, a->n, ret);
    emit_usual("max", 100, sorted, a->n, ret);
    return 0;
}

const struct report report_ranks = {
    .name = "ranks",
    .overview = {.position = 7, .of_many = true, .is_complete = true},
    .title = "ranks compared, with outliers",
    .method = "Each measure as in the reports temporal and overlap. A rank is an outlier if its modified "
              "z-score exceeds 3.5 and it differs from the median by more than a hundredth of the span. "
              "Clocks are aligned by wall-clock time and, if collectives show an error of more than a "
              "millisecond, by collectives.",
    .needs = NEEDS_GPU | NEEDS_RANKS,
    REPORT_COLUMNS(ranks),
    .make = ranks_make,
};

/* -- Stragglers ------------------------------------------------------------------------------------------ */

#define STRAGGLERS_COLUMNS(C)                                                                                \
    RANK_COLUMN(C)                                                                                           \
    C(last_count, COUNT, "number of collectives at which the rank arrived last")                             \
    C(last_share, SHARE, "share of the collectives that every rank has", IMPORTANCE_HIGH)                    \
    C(wait_caused_ns, NS, "total wait of the other ranks when it was last")                                  \
    C(delay_ns, NS, "total delay after the second to last rank: the time saved if it had not been last",     \
      IMPORTANCE_HIGH)                                                                                       \
    C(waited_ns, NS, "total wait for other ranks")                                                           \
    C(mean_late_ns, NS, "mean delay after the first rank", IMPORTANCE_EXTRA)                                 \
    C(meanwhile, TEXT,                                                                                       \
      "kernel category, or idle, with the most additional time before it was last; empty if none")           \
    C(meanwhile_ns, NS, "that additional time compared with the median rank")
REPORT_ROW(stragglers, STRAGGLERS_COLUMNS);

/* Of one rank. */
struct stragglers_tally {
    uint64_t last;
    int64_t caused, delay, waited, late;
    /* Beside the median rank, before it was last: by class of kernel, and idle at the end. */
    int64_t longer[_KERNEL_CLASS_MAX + 1];
};

#define WITHOUT_KERNEL _KERNEL_CLASS_MAX

/* What a rank did between two times, by class. */
static void sum_classes(const struct gpu_work *work, int64_t from, int64_t to, size_t *at, int64_t *ret)
{
    int64_t covered = from;

    memset(ret, 0, (_KERNEL_CLASS_MAX + 1) * sizeof(*ret));
    while (*at < work->n && work->events[*at].ts < from)
        ++*at;
    for (size_t i = *at; i < work->n && work->events[i].ts < to; i++) {
        const struct gpu_event *e = &work->events[i];
        int64_t end = MIN(e->end, to);
        ret[e->class] += end - e->ts;
        if (e->ts > covered)
            ret[WITHOUT_KERNEL] += e->ts - covered;
        covered = MAX(covered, end);
    }
    if (to > covered)
        ret[WITHOUT_KERNEL] += to - covered;
}

struct stragglers_watch {
    struct analysis *a;
    const struct gpu_work **works;
    size_t *positions; /* in each rank's work */
    int64_t *left;     /* when each rank left the collective before */
    int64_t *did;      /* ranks x (classes + idle) */
    int64_t *sorted;
};

static void watch_done(struct stragglers_watch *w)
{
    free(w->works);
    free(w->positions);
    free(w->left);
    free(w->did);
    free(w->sorted);
}

static int watch_init(struct stragglers_watch *w, struct analysis *a)
{
    *w = (struct stragglers_watch){.a = a,
                                   .works = calloc(a->n, sizeof(*w->works)),
                                   .positions = calloc(a->n, sizeof(*w->positions)),
                                   .left = calloc(a->n, sizeof(*w->left)),
                                   .did = calloc(a->n, (_KERNEL_CLASS_MAX + 1) * sizeof(*w->did)),
                                   .sorted = calloc(a->n, sizeof(*w->sorted))};
    int r = w->works && w->positions && w->left && w->did && w->sorted ? 0 : -ENOMEM;

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        r = analysis_gpu(a, i, &w->works[i]);
        w->left[i] = INT64_MIN;
    }
    return r;
}

/* Before an collective_instance every rank did something; what the last did longer than the median is counted for it.
 */
static void compare_doings(struct stragglers_watch *w, const struct collective_instance *e, size_t last,
                           struct stragglers_tally *tally)
{
    const size_t width = _KERNEL_CLASS_MAX + 1;

    for (size_t rank = 0; rank < w->a->n; rank++)
        sum_classes(w->works[rank], w->left[rank], e->events[rank]->ts, &w->positions[rank],
                    w->did + rank * width);
    for (size_t class = 0; class < width; class ++) {
        for (size_t rank = 0; rank < w->a->n; rank++)
            w->sorted[rank] = w->did[rank * width + class];
        sort_ns(w->sorted, w->a->n);
        tally->longer[class] += w->did[last * width + class] - percentile(w->sorted, w->a->n, 50);
    }
}

static void stragglers_count(struct stragglers_watch *w, const struct collective_instance *e,
                             struct stragglers_tally *tallies)
{
    const struct analysis *a = w->a;
    size_t last = collective_instance_last(a, e);
    int64_t latest = collective_instance_start(a, e, last), second = INT64_MIN, first = INT64_MAX;
    bool first_of_all = w->left[0] == INT64_MIN;

    for (size_t rank = 0; rank < a->n; rank++) {
        int64_t start = collective_instance_start(a, e, rank);
        first = MIN(first, start);
        if (rank != last)
            second = MAX(second, start);
    }
    for (size_t rank = 0; rank < a->n; rank++) {
        int64_t start = collective_instance_start(a, e, rank);
        tallies[rank].waited += latest - start;
        tallies[rank].late += start - first;
        tallies[last].caused += latest - start;
    }
    tallies[last].last++;
    tallies[last].delay += latest - second;
    if (!first_of_all)
        compare_doings(w, e, last, &tallies[last]);
    for (size_t rank = 0; rank < a->n; rank++)
        w->left[rank] = e->events[rank]->end;
}

static int stragglers_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(collective_instances_done) struct collective_instances collectives = {0};
    _cleanup_(watch_done) struct stragglers_watch watch = {0};
    _cleanup_(freep) struct stragglers_tally *tallies = calloc(a->n, sizeof(*tallies));
    int r = tallies ? collective_instances_find(a, &collectives) : -ENOMEM;

    if (r >= 0)
        r = collectives.n > 0 ? watch_init(&watch, a) : -ENODATA;
    if (r < 0)
        return r;
    for (size_t i = 0; i < collectives.n; i++)
        stragglers_count(&watch, &collectives.items[i], tallies);
    for (size_t rank = 0; rank < a->n; rank++) {
        const struct stragglers_tally *t = &tallies[rank];
        size_t most = 0;
        for (size_t k = 1; k <= WITHOUT_KERNEL; k++)
            if (t->longer[k] > t->longer[most])
                most = k;
        bool any = t->longer[most] > 0;
        EMIT_ROW(stragglers, ret, .rank = a->ranks[rank].number, .last_count = (int64_t)t->last,
                 .last_share = row_share((int64_t)t->last, (int64_t)collectives.n),
                 .wait_caused_ns = t->caused, .delay_ns = t->delay, .waited_ns = t->waited,
                 .mean_late_ns = t->late / (int64_t)collectives.n,
                 .meanwhile = row_str(!any                     ? NULL
                                      : most == WITHOUT_KERNEL ? "idle"
                                                               : kernel_class_name((enum kernel_class)most)),
                 .meanwhile_ns = any ? t->longer[most] : COLUMN_NULL);
    }
    return 0;
}

const struct report report_stragglers = {
    .name = "stragglers",
    .title = "ranks that arrive last at collectives, and the wait they cause",
    .method = "Collectives of different ranks are the same instance if they are the same operation of the "
              "same group at the same position among those; a rank arrives when its kernel begins, on the "
              "common clock. wait_caused_ns follows TraceLens (latest start minus own start, over all "
              "ranks).",
    .needs = NEEDS_GPU | NEEDS_RANKS,
    .sort_by = "wait_caused_ns",
    REPORT_COLUMNS(stragglers),
    .make = stragglers_make,
};
