/* SPDX-License-Identifier: Apache-2.0 */
/* NVTX ranges, and annotations of torch, with the GPU's work that was launched in them. */
#include "base/array.h"
#include "trace/reports/name_rows.h"
#include "trace/reports/range_name.h"
#include "trace/reports/reports.h"
#include "trace/reports/slice_sums.h"
#include <errno.h>
#include <math.h>

/* Ranges in each other that a launch lies in; further ones are left out. */
#define RANGES_MAX 64

static const struct report_column columns[] = {
    {"name", UNIT_TEXT, "of the range"},
    {"count", UNIT_COUNT, "how often"},
    {"sum_ns", UNIT_NS, "on the host, of all of them"},
    {"mean_ns", UNIT_NS, "on the host"},
    {"median_ns", UNIT_NS, "on the host"},
    {"min_ns", UNIT_NS, "on the host"},
    {"max_ns", UNIT_NS, "on the host"},
    {"kernels", UNIT_COUNT, "launched in them: kernels, copies and memsets"},
    {"gpu_span_ns", UNIT_NS,
     "on the GPU: from the first to the end of the last of it, summed over the ranges"},
    {"gpu_busy_ns", UNIT_NS, "of that, sum of the work"},
    {"rank", UNIT_ID, "which rank"},
};

static const char *const categories[] = {"user_annotation", NULL};

/* A group of the table of names: ranges of one name. */
struct group {
    struct text name;
    uint64_t row;
};

/* What was launched in a range, as it is met: a range is there as often as it has work. */
struct piece {
    uint64_t range; /* its slice */
    int64_t label;
    int64_t ts, end;
};

/* Of the ranges of one label, on the GPU. */
struct projection {
    int64_t kernels, span, busy;
};

struct ranges {
    const struct columns *c;
    const struct intervals *times;
    struct group *groups;
    size_t n_groups;
    int64_t *labels; /* of each text that is a range's name, else -1 */
    uint32_t n_texts;
    struct slice_sums sums;
    struct piece *pieces;
    size_t n, cap;
    struct projection *projections; /* of each label */
};

static void ranges_done(struct ranges *r)
{
    free(r->groups);
    free(r->labels);
    slice_sums_done(&r->sums);
    free(r->pieces);
    free(r->projections);
}

static int compare_groups(const void *x, const void *y)
{
    const struct group *a = x, *b = y;
    size_t common = MIN(a->name.size, b->name.size);
    int order = common ? memcmp(a->name.p, b->name.p, common) : 0;

    return order ? order : (a->name.size > b->name.size) - (a->name.size < b->name.size);
}

static int add_group(struct ranges *r, const struct group *group, int64_t label)
{
    const struct columns *c = r->c;
    struct name_rows places = name_rows_of(c, group->row);
    int64_t name = columns_get(c, COL_name_name, group->row);
    int err = 0;

    if (name >= 0 && name < r->n_texts)
        r->labels[name] = label;
    for (uint64_t i = places.first; i < places.end && err >= 0; i++) {
        int64_t slice = columns_get(c, COL_by_name_slice, i);
        if (slice == COLUMN_NULL)
            continue;
        int64_t dur = columns_get(c, COL_slice_dur, (uint64_t)slice);
        if (dur >= 0 && intervals_find(r->times, columns_get(c, COL_slice_ts, (uint64_t)slice)))
            err = slice_sums_add(&r->sums, label, dur);
    }
    return err;
}

static int read_ranges(struct ranges *r)
{
    uint64_t rows = columns_rows(r->c, TABLE_name);
    int64_t label = -1;
    int err = 0;

    r->n_texts = columns_texts(r->c);
    r->groups = calloc(rows + 1, sizeof(*r->groups));
    r->labels = malloc(((size_t)r->n_texts + 1) * sizeof(*r->labels));
    if (!r->groups || !r->labels)
        return -ENOMEM;
    memset(r->labels, 0xff, ((size_t)r->n_texts + 1) * sizeof(*r->labels)); /* -1 */
    for (uint64_t row = 0; row < rows; row++)
        if (category_is_one_of(r->c, columns_get(r->c, COL_name_category, row), categories))
            r->groups[r->n_groups++] =
                (struct group){range_name(columns_text(r->c, columns_get(r->c, COL_name_name, row))), row};
    qsort(r->groups, r->n_groups, sizeof(*r->groups), compare_groups);
    for (size_t i = 0; i < r->n_groups && err >= 0; i++) {
        if (i == 0 || compare_groups(&r->groups[i - 1], &r->groups[i]) != 0)
            label = slice_sums_new(&r->sums, r->groups[i].name);
        err = label < 0 ? (int)label : add_group(r, &r->groups[i], label);
    }
    return err;
}

/* -- On the GPU --------------------------------------------------------------------------------------- */

static int add_piece(struct ranges *r, struct piece piece)
{
    if (!ARRAY_RESERVE(r->pieces, r->cap, r->n + 1))
        return -ENOMEM;
    r->pieces[r->n++] = piece;
    return 0;
}

/* As the report op_tree has it: by time on the launching thread, whatever else lies across. */
static int add_work(struct ranges *r, const struct host_calls *host, uint32_t launcher,
                    const struct gpu_event *e)
{
    int n = 0, err = 0;

    for (uint32_t at = launcher; at != HOST_CALL_NONE && n < RANGES_MAX && err >= 0;
         at = host->calls[at].parent) {
        const struct host_call *call = &host->calls[at];
        int64_t label = call->name >= 0 && call->name < r->n_texts ? r->labels[call->name] : -1;
        if (call->kind != HOST_ANNOTATION || label < 0)
            continue;
        err = add_piece(r, (struct piece){call->slice, label, e->ts, e->end});
        n++;
    }
    return err;
}

static int compare_pieces(const void *x, const void *y)
{
    const struct piece *a = x, *b = y;

    if (a->range != b->range)
        return a->range < b->range ? -1 : 1;
    return (a->ts > b->ts) - (a->ts < b->ts);
}

static int project(struct ranges *r, const struct gpu_work *work, const struct host_calls *host)
{
    int err = 0;

    r->projections = calloc(r->sums.n + 1, sizeof(*r->projections));
    if (!r->projections)
        return -ENOMEM;
    for (size_t i = 0; i < work->n && err >= 0; i++)
        err = add_work(r, host, host->launcher[i], &work->events[i]);
    if (err < 0)
        return err;
    if (r->n > 0)
        qsort(r->pieces, r->n, sizeof(*r->pieces), compare_pieces);
    for (size_t i = 0, to; i < r->n; i = to) {
        struct projection *p = &r->projections[r->pieces[i].label];
        int64_t end = r->pieces[i].end;
        for (to = i; to < r->n && r->pieces[to].range == r->pieces[i].range; to++) {
            end = MAX(end, r->pieces[to].end);
            p->busy += r->pieces[to].end - r->pieces[to].ts;
            p->kernels++;
        }
        p->span += end - r->pieces[i].ts;
    }
    return 0;
}

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(ranges_done) struct ranges r = {.c = a->ranks[rank].columns};
    const struct gpu_work *work;
    const struct host_calls *host;
    int err = analysis_times(a, rank, &r.times);

    if (err >= 0)
        err = analysis_gpu(a, rank, &work);
    if (err >= 0)
        err = analysis_ops(a, rank, &host);
    if (err >= 0)
        err = read_ranges(&r);
    if (err >= 0)
        err = project(&r, work, host);
    if (err < 0)
        return err;
    slice_sums_finish(&r.sums);
    for (size_t i = 0; i < r.sums.n; i++) {
        const struct slice_sum *s = &r.sums.items[i];
        const struct projection *p = &r.projections[s->number];
        put_text(ret, s->label);
        put_int(ret, (int64_t)s->count);
        put_int(ret, s->sum);
        put_int(ret, llround(s->mean));
        put_int(ret, llround(s->median));
        put_int(ret, s->min);
        put_int(ret, s->max);
        put_int(ret, p->kernels);
        put_int(ret, p->span);
        put_int(ret, p->busy);
        put_int(ret, a->ranks[rank].number);
    }
    return 0;
}

static int make(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(a, i, ret);
    return r < 0 ? r : report_rows_count(ret) == 0 ? -ENODATA : 0;
}

const struct report report_nvtx = {
    .name = "nvtx",
    .title = "NVTX ranges and annotations, on the host and projected to the GPU",
    .how = "Ranges by name, as nvtx_sum of `nsys stats`, but without the numbers that torch puts behind "
           "names; with the work whose launch lies within the range on "
           "its thread, as nvtx_gpu_proj_sum. Calls lie in each other as in op_tree, by time.",
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
