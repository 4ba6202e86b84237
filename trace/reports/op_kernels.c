/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPU work each operator launched itself. */
#include "base/array.h"
#include "trace/reports/group.h"
#include "trace/reports/op_sums.h"
#include "trace/reports/reports.h"
#include <errno.h>

static const struct report_column columns[] = {
    {"op", UNIT_TEXT, "the innermost operator or annotation around the launch; none where none is known"},
    {"kernel", UNIT_TEXT, "of the kernel, copy or memset"},
    {"count", UNIT_COUNT, "how often"},
    {"sum_ns", UNIT_NS, "time of all of them"},
};
#define COLUMN_SUM 3

struct pair_sum {
    uint64_t count;
    int64_t sum;
};

struct summing {
    struct name_table texts;
    struct groups groups; /* operator, -1 for none; kernel */
    struct pair_sum *sums;
    size_t cap;
};

static void summing_done(struct summing *s)
{
    name_table_done(&s->texts);
    groups_done(&s->groups);
    free(s->sums);
}

static int add(struct summing *s, int64_t op, int64_t kernel, int64_t ns)
{
    int64_t number = groups_number(&s->groups, (struct group_key){{op, kernel}});

    if (number < 0)
        return (int)number;
    if (!ARRAY_RESERVE_ZEROED(s->sums, s->cap, s->groups.n))
        return -ENOMEM;
    s->sums[number].count++;
    s->sums[number].sum += ns;
    return 0;
}

static int add_rank(struct analysis *a, size_t rank, struct summing *s)
{
    const struct columns *c = a->ranks[rank].columns;
    _cleanup_(text_numbers_done) struct text_numbers numbers = {.c = c, .names = &s->texts};
    const struct gpu_work *work;
    const struct host_calls *host;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = analysis_ops(a, rank, &host);
    for (size_t i = 0; r >= 0 && i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        int64_t kernel = text_numbers_get(&numbers, e->name), op = -1;
        if (host->launcher[i] != HOST_CALL_NONE) {
            op = op_name_number(&numbers, &host->calls[host->launcher[i]]);
            r = op < 0 ? (int)op : 0;
        }
        if (r >= 0)
            r = kernel < 0 ? (int)kernel : add(s, op, kernel, e->end - e->ts);
    }
    return r;
}

static int make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(summing_done) struct summing s = {0};
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(a, i, &s);
    for (size_t i = 0; i < s.groups.n && r >= 0; i++) {
        const struct group_key *key = &s.groups.items[i];
        if (key->part[0] < 0)
            put_null(ret);
        else
            put_text(ret, s.texts.items[key->part[0]]);
        put_text(ret, s.texts.items[key->part[1]]);
        put_int(ret, (int64_t)s.sums[i].count);
        put_int(ret, s.sums[i].sum);
    }
    return r < 0 ? r : report_rows_sort(ret, COLUMN_SUM, true);
}

const struct report report_op_kernels = {
    .name = "op_kernels",
    .title = "which kernels each operator launched",
    .how = "GPU work by the innermost operator around the call that launched it, else by the one with its "
           "External id; work of a graph belongs to the operator around the graph's launch.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
