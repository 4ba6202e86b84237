/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks side by side, with what is usual, and those that lie apart. */
#include "base/statistics.h"
#include "trace/reports/encounter.h"
#include "trace/reports/reports.h"

#include <errno.h>

/* A rank that differs from the median by less than this part of the span is like the others. */
#define APART_PART 100
/* World sizes that are believed, and ranks of them that are named where they are missing. */
#define WORLD_MAX     65536
#define MISSING_NAMED 64

enum { SPAN, BUSY, IDLE, COMPUTE, COMMUNICATION, EXPOSED, MEMORY, EVENTS, _MEASURE_MAX };

static const struct report_column columns[] = {
    {"who", UNIT_TEXT, "the rank, or which of all ranks: min, median, max"},
    {"rank", UNIT_ID, "its number"},
    {"span_ns", UNIT_NS, "from the first to the end of the last of its GPU's work"},
    {"busy_ns", UNIT_NS, "with anything at work on any stream", IMPORTANCE_HIGH},
    {"idle_ns", UNIT_NS, "with nothing at work", IMPORTANCE_HIGH},
    {"compute_ns", UNIT_NS, "with a computing kernel at work"},
    {"comm_ns", UNIT_NS, "with communication at work"},
    {"exposed_ns", UNIT_NS, "with communication at work and nothing computing", IMPORTANCE_HIGH},
    {"memory_ns", UNIT_NS, "with a copy or memset at work", IMPORTANCE_EXTRA},
    {"events", UNIT_COUNT, "kernels, copies and memsets", IMPORTANCE_EXTRA},
    {"last_share", UNIT_SHARE, "of the collectives it arrived last at"},
    {"apart", UNIT_TEXT, "in what it lies apart from the other ranks; or that it is missing",
     IMPORTANCE_HIGH},
    {"clock_shift_ns", UNIT_NS, "what was added to its stamps, so that all ranks have one clock",
     IMPORTANCE_EXTRA},
    {"clock_error_ns", UNIT_NS, "how far that may be off: the median distance of the ends of collectives",
     true},
};

struct measures {
    int64_t values[_MEASURE_MAX];
    uint64_t last;
    int64_t clock_error;
};

static int measure(struct analysis *a, size_t rank, struct measures *ret)
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
    ret->clock_error = COLUMN_NULL;
    return 0;
}

/* How nearly each rank leaves collectives together with the first. */
static int measure_clocks(struct analysis *a, const struct encounters *met, struct measures *all)
{
    _cleanup_(freep) int64_t *distances = calloc(met->n + 1, sizeof(*distances));

    if (!distances)
        return -ENOMEM;
    for (size_t i = 0; i < met->n; i++)
        all[encounter_last(a, &met->items[i])].last++;
    for (size_t rank = 0; rank < a->n && met->n > 0; rank++) {
        for (size_t i = 0; i < met->n; i++)
            distances[i] =
                llabs(encounter_end(a, &met->items[i], rank) - encounter_end(a, &met->items[i], 0));
        sort_ns(distances, met->n);
        all[rank].clock_error = percentile(distances, met->n, 50);
    }
    return 0;
}

static void put_values(struct report_rows *ret, const int64_t *values)
{
    for (size_t i = 0; i < _MEASURE_MAX; i++)
        put_int(ret, values[i]);
}

/* The first measure in which a rank lies apart from the others: "comm low". */
static void put_apart(struct report_rows *ret, const int64_t *const *sorted, size_t n,
                      const struct measures *m)
{
    static const char *const names[] = {
        [SPAN] = "span", [BUSY] = "busy", [IDLE] = "idle", [COMPUTE] = "compute", [COMMUNICATION] = "comm"};

    for (size_t i = ARRAY_SIZE(names); i-- > 0;)
        if (is_outlier(sorted[i], n, m->values[i], percentile(sorted[SPAN], n, 50) / APART_PART)) {
            put_format(ret, "%s %s", names[i], m->values[i] < percentile(sorted[i], n, 50) ? "low" : "high");
            return;
        }
    put_null(ret);
}

static void put_rank(struct analysis *a, size_t rank, const struct measures *m, const int64_t *const *sorted,
                     size_t n_met, struct report_rows *ret)
{
    put_str(ret, a->ranks[rank].label);
    put_int(ret, a->ranks[rank].number);
    put_values(ret, m->values);
    put_share(ret, (int64_t)m->last, (int64_t)n_met);
    put_apart(ret, sorted, a->n, m);
    put_int(ret, a->ranks[rank].shift_ns);
    put_int(ret, m->clock_error);
}

static void put_usual(const char *who, unsigned percent, const int64_t *const *sorted, size_t n,
                      struct report_rows *ret)
{
    put_str(ret, who);
    put_null(ret);
    for (size_t i = 0; i < _MEASURE_MAX; i++)
        put_int(ret, percentile(sorted[i], n, percent));
    for (size_t i = 0; i < 4; i++)
        put_null(ret);
}

/* Ranks of the world whose traces are not there. */
static void put_missing(struct analysis *a, struct report_rows *ret)
{
    int64_t world = columns_meta(a->ranks[0].columns, META_world_size);
    size_t named = 0;

    for (int64_t number = 0; world <= WORLD_MAX && number < world && named < MISSING_NAMED; number++) {
        bool there = false;
        for (size_t i = 0; i < a->n && !there; i++)
            there = a->ranks[i].number == number;
        if (there)
            continue;
        named++;
        put_format(ret, "rank %lld", (long long)number);
        put_int(ret, number);
        for (size_t i = 0; i < _MEASURE_MAX + 1; i++)
            put_null(ret);
        put_str(ret, "missing");
        put_null(ret);
        put_null(ret);
    }
}

static int make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(encounters_done) struct encounters met = {0};
    _cleanup_(freep) struct measures *all = calloc(a->n, sizeof(*all));
    _cleanup_(freep) int64_t *values = calloc(a->n, _MEASURE_MAX * sizeof(*values));
    const int64_t *sorted[_MEASURE_MAX];
    int r = all && values ? encounters_find(a, &met) : -ENOMEM;

    for (size_t rank = 0; rank < a->n && r >= 0; rank++)
        r = measure(a, rank, &all[rank]);
    if (r >= 0)
        r = measure_clocks(a, &met, all);
    if (r < 0)
        return r;
    for (size_t i = 0; i < _MEASURE_MAX; i++) {
        for (size_t rank = 0; rank < a->n; rank++)
            values[i * a->n + rank] = all[rank].values[i];
        sort_ns(values + i * a->n, a->n);
        sorted[i] = values + i * a->n;
    }
    for (size_t rank = 0; rank < a->n; rank++)
        put_rank(a, rank, &all[rank], sorted, met.n, ret);
    put_missing(a, ret);
    put_usual("min", 0, sorted, a->n, ret);
    put_usual("median", 50, sorted, a->n, ret);
    put_usual("max", 100, sorted, a->n, ret);
    return 0;
}

const struct report report_ranks = {
    .name = "ranks",
    .title = "ranks side by side, and which lie apart",
    .how = "Each measure as in the reports temporal and overlap. A rank lies apart where its modified "
           "z-score exceeds 3.5 and it differs "
           "from the median by more than a hundredth of the span. Clocks are made one by wall-clock time "
           "and, where collectives "
           "show that they are off by "
           "more than a millisecond, by those.",
    .needs = NEEDS_GPU | NEEDS_RANKS,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
