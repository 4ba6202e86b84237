/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's work by what it does. */
#include "trace/reports/name_sums.h"
#include "trace/reports/reports.h"

static const struct report_column columns[] = {
    {"category", UNIT_TEXT, "what the kernels do, by their names"},
    {"meaning", UNIT_TEXT, "what that comprises", IMPORTANCE_LOW},
    {"count", UNIT_COUNT, "how many kernels, copies and memsets"},
    {"names", UNIT_COUNT, "of how many names", IMPORTANCE_EXTRA},
    {"sum_ns", UNIT_NS, "time of all of them", IMPORTANCE_HIGH},
    {"share", UNIT_SHARE, "sum_ns of that of all categories", IMPORTANCE_HIGH},
    {"busy_ns", UNIT_NS, "with any of them at work, added over ranks", IMPORTANCE_EXTRA},
    {"busy_share", UNIT_SHARE, "busy_ns of the time with anything at work", IMPORTANCE_EXTRA},
    {"top", UNIT_TEXT, "the name with the largest sum", IMPORTANCE_LOW},
};

struct category {
    enum kernel_class class;
    uint64_t count, names;
    int64_t sum, busy;
    struct text top;
};

struct categories {
    struct category items[_KERNEL_CLASS_MAX];
    int64_t busy; /* with anything at work */
};

static int sum_names(struct analysis *a, struct categories *ret, int64_t *ret_total)
{
    _cleanup_(name_sums_done) struct name_sums sums = {0};
    int r = name_sums_of_gpu(a, &sums);

    for (size_t i = 0; i < sums.n && r >= 0; i++) {
        const struct name_sum *s = &sums.items[i];
        struct category *c = &ret->items[s->class];
        if (c->names++ == 0)
            c->top = s->name;
        c->count += s->count;
        c->sum = add_time(c->sum, s->sum);
    }
    *ret_total = sums.total;
    return r;
}

static int sum_busy(struct analysis *a, size_t rank, struct categories *ret)
{
    struct intervals sets[_KERNEL_CLASS_MAX] = {0};
    _cleanup_(intervals_done) struct intervals all = {0};
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    for (size_t i = 0; r >= 0 && i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        r = intervals_add(&sets[e->class], e->ts, e->end);
    }
    if (r >= 0)
        r = gpu_work_busy(work, GPU_ALL, &all);
    ret->busy = add_time(ret->busy, intervals_length(&all));
    for (size_t i = 0; i < _KERNEL_CLASS_MAX; i++) {
        intervals_unite(&sets[i]);
        ret->items[i].busy = add_time(ret->items[i].busy, intervals_length(&sets[i]));
        intervals_done(&sets[i]);
    }
    return r;
}

static int compare(const void *x, const void *y)
{
    const struct category *a = x, *b = y;

    if (a->sum != b->sum)
        return (a->sum < b->sum) - (a->sum > b->sum);
    return (a->class > b->class) - (a->class < b->class);
}

static int make(struct analysis *a, struct report_rows *ret)
{
    struct categories all = {0};
    int64_t total = 0;
    int r = sum_names(a, &all, &total);

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = sum_busy(a, i, &all);
    for (size_t i = 0; i < _KERNEL_CLASS_MAX; i++)
        all.items[i].class = (enum kernel_class)i;
    qsort(all.items, _KERNEL_CLASS_MAX, sizeof(all.items[0]), compare);
    for (size_t i = 0; i < _KERNEL_CLASS_MAX && r >= 0; i++) {
        const struct category *c = &all.items[i];
        if (c->count == 0)
            continue;
        put_str(ret, kernel_class_name(c->class));
        put_str(ret, kernel_class_text(c->class));
        put_int(ret, (int64_t)c->count);
        put_int(ret, (int64_t)c->names);
        put_int(ret, c->sum);
        put_share(ret, c->sum, total);
        put_int(ret, c->busy);
        put_share(ret, c->busy, all.busy);
        put_text(ret, c->top);
    }
    return r;
}

const struct report report_categories = {
    .name = "categories",
    .title = "GPU time by what kernels do: GEMM, attention, communication, ...",
    .how =
        "Kernels are told by patterns of their names, first by the function's own name and then by its "
        "template arguments; --classes adds a file of further patterns, which come first. Sums are over all "
        "ranks and streams; busy_ns counts what overlaps once a rank.",
    .needs = NEEDS_GPU,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
