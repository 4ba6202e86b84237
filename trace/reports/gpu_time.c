/* SPDX-License-Identifier: Apache-2.0 */
/* GPU time: busy, idle, computing, by category and by name; balance over ranks. */
#include "trace/reports/aggregation.h"
#include "trace/reports/hta.h"
#include <errno.h>

/* -- Temporal -------------------------------------------------------------------------------------------- */

#define TEMPORAL_COLUMNS(C)                                                                                  \
    RANK_COLUMN(C)                                                                                           \
    C(span_ns, NS, "time from the start of the first GPU event to the end of the last")                      \
    C(busy_ns, NS, "time with any GPU activity", IMPORTANCE_HIGH)                                            \
    C(idle_ns, NS, "time without GPU activity", IMPORTANCE_HIGH)                                             \
    C(compute_ns, NS, "time with a computing kernel")                                                        \
    C(non_compute_ns, NS, "time with only communication or copies")                                          \
    C(busy_share, SHARE, "busy_ns divided by span_ns", IMPORTANCE_HIGH)                                      \
    C(compute_share, SHARE, "compute_ns divided by span_ns", IMPORTANCE_EXTRA)                               \
    C(idle_share, SHARE, "idle_ns divided by span_ns", IMPORTANCE_EXTRA)
REPORT_ROW(temporal, TEMPORAL_COLUMNS);

static int temporal_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    const struct intervals *busy, *compute;
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = gpu_work_busy(work, GPU_ALL, &busy);
    if (r >= 0)
        r = gpu_work_busy(work, 1 << GPU_COMPUTE, &compute);
    if (r < 0 || work->n == 0)
        return r;
    struct interval span = gpu_work_span(work);
    int64_t all = span.to - span.from, at_work = intervals_length(busy),
            computing = intervals_length(compute);
    EMIT_ROW(temporal, ret, .rank = a->ranks[rank].number, .span_ns = all, .busy_ns = at_work,
             .idle_ns = all - at_work, .compute_ns = computing, .non_compute_ns = at_work - computing,
             .busy_share = row_share(at_work, all), .compute_share = row_share(computing, all),
             .idle_share = row_share(all - at_work, all));
    return 0;
}

const struct report report_temporal = {
    .name = "temporal",
    .role = REPORT_GPU_USE,
    .title = "busy, idle and computing time of each GPU",
    .method = "Unions over all streams, as the temporal breakdown of Holistic Trace Analysis: computation "
              "that overlaps communication counts as computing.",
    .needs = NEEDS_GPU,
    REPORT_COLUMNS(temporal),
    .make_rank = temporal_make_rank,
};

/* -- Overlap --------------------------------------------------------------------------------------------- */

#define OVERLAP_COLUMNS(C)                                                                                   \
    RANK_COLUMN(C)                                                                                           \
    C(comm_ns, NS, "time with communication")                                                                \
    C(compute_ns, NS, "time with a computing kernel")                                                        \
    C(overlapped_ns, NS, "time with communication and computation at the same time")                         \
    C(exposed_ns, NS, "time with communication and no computation")                                          \
    C(overlapped_share, SHARE, "overlapped_ns divided by comm_ns")                                           \
    C(exposed_share, SHARE, "exposed_ns divided by the span of GPU activity")                                \
    C(memory_ns, NS, "time with a copy or memset", IMPORTANCE_EXTRA)                                         \
    C(exposed_memory_ns, NS, "time with copies or memsets and neither computation nor communication",        \
      IMPORTANCE_EXTRA)
REPORT_ROW(overlap, OVERLAP_COLUMNS);

static int overlap_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    const struct intervals *comm, *compute, *memory, *kernels;
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = gpu_work_busy(work, 1 << GPU_COMMUNICATION, &comm);
    if (r >= 0)
        r = gpu_work_busy(work, 1 << GPU_COMPUTE, &compute);
    if (r >= 0)
        r = gpu_work_busy(work, 1 << GPU_MEMORY, &memory);
    if (r >= 0)
        r = gpu_work_busy(work, 1 << GPU_COMMUNICATION | 1 << GPU_COMPUTE, &kernels);
    if (r < 0 || work->n == 0)
        return r;
    struct interval span = gpu_work_span(work);
    int64_t communicating = intervals_length(comm), both = intervals_common(comm, compute);
    EMIT_ROW(overlap, ret, .rank = a->ranks[rank].number, .comm_ns = communicating,
             .compute_ns = intervals_length(compute), .overlapped_ns = both,
             .exposed_ns = communicating - both, .overlapped_share = row_share(both, communicating),
             .exposed_share = row_share(communicating - both, span.to - span.from),
             .memory_ns = intervals_length(memory),
             .exposed_memory_ns = intervals_length(memory) - intervals_common(memory, kernels));
    return 0;
}

const struct report report_overlap = {
    .name = "overlap",
    .title = "communication and copies, overlapped by computation or exposed",
    .method = "Unions over all streams, after Holistic Trace Analysis (overlapped_share) and TraceLens "
              "(exposed_ns, exposed_memory_ns): compute_ns + exposed_ns + exposed_memory_ns is the busy "
              "time. Communication is classified by patterns of names that cover more than nccl*.",
    .needs = NEEDS_GPU,
    REPORT_COLUMNS(overlap),
    .make_rank = overlap_make_rank,
};

/* -- Categories ------------------------------------------------------------------------------------------ */

#define CATEGORIES_COLUMNS(C)                                                                                \
    C(category, TEXT, "kernel category, derived from the name")                                              \
    C(meaning, TEXT, "description of the category", IMPORTANCE_LOW)                                          \
    C(count, COUNT, "number of kernels, copies and memsets")                                                 \
    C(names, COUNT, "number of distinct names", IMPORTANCE_EXTRA)                                            \
    C(sum_ns, NS, "total duration", IMPORTANCE_HIGH)                                                         \
    C(share, SHARE, "sum_ns divided by the total of all categories", IMPORTANCE_HIGH)                        \
    C(busy_ns, NS, "time with any event of the category, summed over ranks", IMPORTANCE_EXTRA)               \
    C(busy_share, SHARE, "busy_ns divided by the time with any GPU activity", IMPORTANCE_EXTRA)              \
    C(top, TEXT, "name with the largest total duration", IMPORTANCE_LOW)
REPORT_ROW(categories, CATEGORIES_COLUMNS);

struct category {
    enum kernel_class class;
    uint64_t count, names;
    int64_t sum, busy;
    struct text top;
};

struct categories {
    struct category items[_KERNEL_CLASS_MAX];
    int64_t busy; /* with any activity */
};

static int sum_names(struct analysis *a, struct categories *ret, int64_t *ret_total)
{
    _cleanup_(aggregated_done) struct aggregated names = {0};
    int r = aggregate(a, &gpu_names, NULL, 0, &names);

    for (size_t i = 0; i < names.n && r >= 0; i++) {
        const struct group *g = &names.items[i];
        struct category *c = &ret->items[g->key.part[1]];
        if (c->names++ == 0)
            c->top = group_text(&names, g, 0);
        c->count += g->values[0].n;
        c->sum = add_time(c->sum, g->values[0].sum);
    }
    *ret_total = r < 0 ? 0 : names.totals[0];
    return r;
}

static int categories_sum_busy(struct analysis *a, size_t rank, struct categories *ret)
{
    struct intervals sets[_KERNEL_CLASS_MAX] = {0};
    const struct intervals *all;
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    for (size_t i = 0; r >= 0 && i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        r = intervals_add(&sets[e->class], e->ts, e->end);
    }
    if (r >= 0)
        r = gpu_work_busy(work, GPU_ALL, &all);
    if (r >= 0)
        ret->busy = add_time(ret->busy, intervals_length(all));
    for (size_t i = 0; i < _KERNEL_CLASS_MAX; i++) {
        intervals_unite(&sets[i]);
        ret->items[i].busy = add_time(ret->items[i].busy, intervals_length(&sets[i]));
        intervals_done(&sets[i]);
    }
    return r;
}

static int categories_compare(const void *x, const void *y)
{
    const struct category *a = x, *b = y;

    if (a->sum != b->sum)
        return (a->sum < b->sum) - (a->sum > b->sum);
    return (a->class > b->class) - (a->class < b->class);
}

static int categories_make(struct analysis *a, struct report_rows *ret)
{
    struct categories all = {0};
    int64_t total = 0;
    int r = sum_names(a, &all, &total);

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = categories_sum_busy(a, i, &all);
    for (size_t i = 0; i < _KERNEL_CLASS_MAX; i++)
        all.items[i].class = (enum kernel_class)i;
    qsort(all.items, _KERNEL_CLASS_MAX, sizeof(all.items[0]), categories_compare);
    for (size_t i = 0; i < _KERNEL_CLASS_MAX && r >= 0; i++) {
        const struct category *c = &all.items[i];
        if (c->count == 0)
            continue;
        EMIT_ROW(categories, ret, .category = row_str(kernel_class_name(c->class)),
                 .meaning = row_str(kernel_class_text(c->class)), .count = (int64_t)c->count,
                 .names = (int64_t)c->names, .sum_ns = c->sum, .share = row_share(c->sum, total),
                 .busy_ns = c->busy, .busy_share = row_share(c->busy, all.busy), .top = c->top);
    }
    return r;
}

const struct report report_categories = {
    .name = "categories",
    .role = REPORT_CATEGORIES,
    .title = "GPU time by kernel category: GEMM, attention, communication, ...",
    .method = "Kernels are classified by patterns of their names, first by the name of the function and "
              "then by its template arguments; --classes adds a file of patterns, which take precedence. "
              "Sums cover all ranks and streams; busy_ns counts overlapping events of a rank once.",
    .needs = NEEDS_GPU,
    REPORT_COLUMNS(categories),
    .make = categories_make,
};

/* -- Kernels --------------------------------------------------------------------------------------------- */

static int gpu_names_gather(struct gathering *g)
{
    const struct intervals *const *times = g->arg;
    const struct gpu_work *work;
    int r = analysis_gpu(g->analysis, g->rank, &work);

    for (size_t i = 0; r >= 0 && i < work->n && (!times || times[g->rank]); i++) {
        const struct gpu_event *e = &work->events[i];
        int64_t dur = e->end - e->ts;
        /* HTA sums up no events of other kinds. */
        if (e->kind == _GPU_KIND_MAX || (times && !intervals_find(times[g->rank], e->ts)))
            continue;
        r = gathering_add(g, (struct group_key){{gathering_text(g, e->name), e->class, e->kind}}, &dur,
                          e->slice);
    }
    return r;
}

const struct aggregation gpu_names = {
    .n_values = 1, .n_order = 1, .then_by_text = true, .gather = gpu_names_gather};

static void emit_category(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    emit_str(ret, all->analysis->hta ? hta_kind_name((enum gpu_kind)g->key.part[2])
                                     : kernel_class_name((enum kernel_class)g->key.part[1]));
}

static const struct report_column kernels_columns[] = {
    {"name", UNIT_TEXT, "name of the kernel, copy or memset", .figure = {FIGURE_TEXT}},
    {"category", UNIT_TEXT, "kernel category, derived from the name",
     .figure = {FIGURE_OTHER, .emit = emit_category}},
    {"count", UNIT_COUNT, "number of events", .figure = {FIGURE_COUNT}},
    {"sum_ns", UNIT_NS, "total duration", IMPORTANCE_HIGH, .figure = {FIGURE_SUM}},
    {"mean_ns", UNIT_NS, "mean duration", IMPORTANCE_LOW, .figure = {FIGURE_MEAN}},
    {"min_ns", UNIT_NS, "shortest duration", IMPORTANCE_EXTRA, .figure = {FIGURE_MIN}},
    {"max_ns", UNIT_NS, "longest duration", IMPORTANCE_EXTRA, .figure = {FIGURE_MAX}},
    {"std_ns", UNIT_NS, "standard deviation of the duration (n - 1); 0 for a single event", IMPORTANCE_EXTRA,
     .figure = {FIGURE_DEVIATION}},
    {"p50_ns", UNIT_NS, "median duration", IMPORTANCE_EXTRA, .figure = {FIGURE_P50}},
    {"p99_ns", UNIT_NS, "99th percentile of the duration", IMPORTANCE_LOW, .figure = {FIGURE_P99}},
    {"share", UNIT_SHARE, "share of the total duration of all names", IMPORTANCE_HIGH,
     .figure = {FIGURE_SHARE}},
    {"min_rank", UNIT_ID, "rank of the shortest event", IMPORTANCE_EXTRA, .figure = {FIGURE_MIN_RANK}},
    {"min_slice", UNIT_ID, "slice number of the shortest event", IMPORTANCE_EXTRA,
     .figure = {FIGURE_MIN_SLICE}},
    {"min_start_ns", UNIT_NS, "start of the shortest event, relative to the first slice of its rank",
     IMPORTANCE_EXTRA, .figure = {FIGURE_MIN_START}},
    {"max_rank", UNIT_ID, "rank of the longest event", IMPORTANCE_EXTRA, .figure = {FIGURE_MAX_RANK}},
    {"max_slice", UNIT_ID, "slice number of the longest event", IMPORTANCE_EXTRA,
     .figure = {FIGURE_MAX_SLICE}},
    {"max_start_ns", UNIT_NS, "start of the longest event, relative to the first slice of its rank",
     IMPORTANCE_EXTRA, .figure = {FIGURE_MAX_START}},
};

const struct report report_kernels = {
    .name = "kernels",
    .overview = {.position = 1},
    .title = "GPU events by name: count, sum, mean, percentiles",
    .method = "Events of one name over all selected ranks and streams. Percentiles use the nearest rank; "
              "the standard deviation is that of a sample. With --hta the category is the kernel type of "
              "HTA, and events that HTA classifies as other are left out, as in HTA.",
    .needs = NEEDS_GPU,
    REPORT_COLUMNS(kernels),
    .aggregation = &gpu_names,
};

/* -- Imbalance ------------------------------------------------------------------------------------------- */

#define IMBALANCE_COLUMNS(C)                                                                                 \
    C(category, TEXT, "kernel category: moe for experts, gemm and attention for shards of tensors")          \
    C(mean_ns, NS, "mean time per rank")                                                                     \
    C(min_ns, NS, "time of the rank with the least")                                                         \
    C(max_ns, NS, "time of the rank with the most")                                                          \
    C(factor, FACTOR, "max_ns divided by mean_ns; 1 is even")                                                \
    C(cost_ns, NS, "max_ns minus mean_ns: the time that an even distribution would save")                    \
    C(min_rank, ID, "rank with the least time")                                                              \
    C(max_rank, ID, "rank with the most time")
REPORT_ROW(imbalance, IMBALANCE_COLUMNS);

static int imbalance_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(freep) int64_t *sums = calloc(a->n, _KERNEL_CLASS_MAX * sizeof(*sums));

    if (!sums)
        return -ENOMEM;
    for (size_t rank = 0; rank < a->n; rank++) {
        const struct gpu_work *work;
        int r = analysis_gpu(a, rank, &work);
        if (r < 0)
            return r;
        for (size_t i = 0; i < work->n; i++)
            sums[rank * _KERNEL_CLASS_MAX + work->events[i].class] +=
                work->events[i].end - work->events[i].ts;
    }
    for (size_t class = 0; class < _KERNEL_CLASS_MAX; class ++) {
        size_t least = 0, most = 0;
        int64_t sum = 0;
        for (size_t rank = 0; rank < a->n; rank++) {
            int64_t ns = sums[rank * _KERNEL_CLASS_MAX + class];
            sum += ns;
            least = ns < sums[least * _KERNEL_CLASS_MAX + class] ? rank : least;
            most = ns > sums[most * _KERNEL_CLASS_MAX + class] ? rank : most;
        }
        // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): NEEDS_RANKS ensures at least one rank
        int64_t mean = sum / (int64_t)a->n, max = sums[most * _KERNEL_CLASS_MAX + class];
        if (max == 0)
            continue;
        EMIT_ROW(imbalance, ret, .category = row_str(kernel_class_name((enum kernel_class) class)),
                 .mean_ns = mean, .min_ns = sums[least * _KERNEL_CLASS_MAX + class], .max_ns = max,
                 .factor = row_share(max, mean), .cost_ns = max - mean, .min_rank = a->ranks[least].number,
                 .max_rank = a->ranks[most].number);
    }
    return 0;
}

const struct report report_imbalance = {
    .name = "imbalance",
    .title = "imbalance of ranks by kernel category",
    .method = "Total durations of each kernel category for each rank. Communication is uneven if ranks "
              "wait: see stragglers.",
    .needs = NEEDS_GPU | NEEDS_RANKS,
    .sort_by = "cost_ns",
    REPORT_COLUMNS(imbalance),
    .make = imbalance_make,
};
