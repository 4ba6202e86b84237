/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/op_sums.h"

#include "base/array.h"
#include "trace/reports/group.h"
#include "trace/reports/range_name.h"
#include <errno.h>

struct summing {
    struct name_table texts;
    struct groups groups; /* name, kind, and with by_shape dims, types */
    struct groups shapes; /* number of the group, dims, types */
    struct op_sum *items;
    size_t cap;
    bool by_shape;
};

static void summing_done(struct summing *s)
{
    name_table_done(&s->texts);
    groups_done(&s->groups);
    groups_done(&s->shapes);
    free(s->items);
}

int64_t op_name_number(struct text_numbers *numbers, const struct host_call *call)
{
    static const char step[] = "ProfilerStep#";

    if (call->kind != HOST_ANNOTATION)
        return text_numbers_get(numbers, call->name);
    struct text name = range_name(columns_text(numbers->c, call->name));
    if (name.size >= sizeof(step) - 1 && memcmp(name.p, step, sizeof(step) - 1) == 0)
        name = (struct text){"ProfilerStep*", sizeof(step) - 1};
    return name_table_number(numbers->names, name);
}

/* -- Shapes: rows of operators, in the order of the calls ---------------------------------------------- */

struct shapes {
    const struct columns *c;
    uint64_t row, rows;
};

static void shapes_of(struct shapes *s, uint32_t slice, int64_t *ret_dims, int64_t *ret_types)
{
    int64_t at = COLUMN_NULL;

    while (s->row < s->rows && (at = columns_get(s->c, COL_op_slice, s->row)) < (int64_t)slice)
        s->row++;
    bool found = s->row < s->rows && at == (int64_t)slice;
    *ret_dims = found ? columns_get(s->c, COL_op_dims, s->row) : COLUMN_NULL;
    *ret_types = found ? columns_get(s->c, COL_op_types, s->row) : COLUMN_NULL;
}

/* ----------------------------------------------------------------------------------------------------- */

static struct op_sum *sum_of(struct summing *s, struct text_numbers *numbers, const struct host_call *call,
                             int64_t dims, int64_t types)
{
    int64_t name = op_name_number(numbers, call);
    struct group_key key = {{name, call->kind, s->by_shape ? dims : 0, s->by_shape ? types : 0}};
    int64_t number = name < 0 ? name : groups_number(&s->groups, key);

    if (number < 0)
        return NULL;
    if (!ARRAY_RESERVE_ZEROED(s->items, s->cap, s->groups.n))
        return NULL;
    struct op_sum *sum = &s->items[number];
    if (sum->calls == 0 && !sum->name.p) {
        sum->name = s->texts.items[name];
        sum->kind = call->kind;
        if (s->by_shape)
            sum->dims = s->texts.items[dims], sum->types = s->texts.items[types];
    }
    size_t n_shapes = s->shapes.n;
    if (!s->by_shape && groups_number(&s->shapes, (struct group_key){{number, dims, types}}) < 0)
        return NULL;
    sum->shapes += s->shapes.n - n_shapes;
    return sum;
}

static int add_rank(struct analysis *a, size_t rank, struct summing *s)
{
    const struct columns *c = a->ranks[rank].columns;
    _cleanup_(text_numbers_done) struct text_numbers numbers = {.c = c, .names = &s->texts};
    struct shapes shapes = {c, 0, columns_rows(c, TABLE_op)};
    const struct host_calls *host;
    const struct intervals *times;
    int r = analysis_ops(a, rank, &host);

    if (r >= 0)
        r = analysis_times(a, rank, &times);
    for (size_t i = 0; r >= 0 && i < host->n; i++) {
        const struct host_call *call = &host->calls[i];
        bool is_in_view = analysis_has_call(times, call);
        int64_t dims, types;
        if (!is_in_view && call->work_all == 0)
            continue;
        shapes_of(&shapes, call->slice, &dims, &types);
        dims = text_numbers_get(&numbers, dims);
        types = text_numbers_get(&numbers, types);
        struct op_sum *sum = dims < 0 || types < 0 ? NULL : sum_of(s, &numbers, call, dims, types);
        if (!sum)
            return -ENOMEM;
        sum->device += call->device_all;
        sum->self_device += call->device;
        sum->work += call->work_all;
        if (!is_in_view)
            continue;
        sum->calls++;
        sum->host += call->end - call->ts;
        sum->self += host_call_self(call);
        sum->runtime += call->runtime;
    }
    return r;
}

static int compare(const void *x, const void *y)
{
    const struct op_sum *a = x, *b = y;

    return a->self_device != b->self_device
               ? (a->self_device < b->self_device) - (a->self_device > b->self_device)
           : a->self != b->self ? (a->self < b->self) - (a->self > b->self)
                                : (a->calls < b->calls) - (a->calls > b->calls);
}

int op_sums_read(struct analysis *a, bool by_shape, struct op_sums *ret)
{
    _cleanup_(summing_done) struct summing s = {.by_shape = by_shape};
    int r = 0;

    *ret = (struct op_sums){0};
    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(a, i, &s);
    if (r < 0)
        return r;
    if (s.groups.n > 0)
        qsort(s.items, s.groups.n, sizeof(*s.items), compare);
    ret->n = s.groups.n;
    ret->items = TAKE_PTR(s.items);
    return 0;
}

void op_sums_done(struct op_sums *sums)
{
    free(sums->items);
    *sums = (struct op_sums){0};
}
