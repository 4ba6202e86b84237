/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/ops.h"

#include "base/array.h"
#include "trace/reports/grouping.h"
#include "trace/reports/report.h"
#include <ctype.h>
#include <errno.h>

/* -- Range name ------------------------------------------------------------------------------------------ */

struct text range_name(struct text name)
{
    static const char *const numbers[] = {", op_id = ", ", seq = "};

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        const char *at = name.p ? memmem(name.p, name.size, numbers[i], strlen(numbers[i])) : NULL;
        if (at)
            name.size = (size_t)(at - name.p);
    }
    return name;
}

/* -- Op sums --------------------------------------------------------------------------------------------- */

struct op_sum_summing {
    struct name_table texts;
    struct groups groups; /* name, kind, and with by_shape dims, types */
    struct groups shapes; /* number of the group, dims, types */
    struct op_sum *items;
    size_t cap;
    bool by_shape;
};

static void op_sum_summing_done(struct op_sum_summing *s)
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

static struct op_sum *op_sum_sum_of(struct op_sum_summing *s, struct text_numbers *numbers,
                                    const struct host_call *call, int64_t dims, int64_t types)
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

static int op_sum_make_rank(struct analysis *a, size_t rank, struct op_sum_summing *s)
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
        struct op_sum *sum = dims < 0 || types < 0 ? NULL : op_sum_sum_of(s, &numbers, call, dims, types);
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

static int op_sum_compare(const void *x, const void *y)
{
    const struct op_sum *a = x, *b = y;

    return a->self_device != b->self_device
               ? (a->self_device < b->self_device) - (a->self_device > b->self_device)
           : a->self != b->self ? (a->self < b->self) - (a->self > b->self)
                                : (a->calls < b->calls) - (a->calls > b->calls);
}

int op_sums_read(struct analysis *a, bool by_shape, struct op_sums *ret)
{
    _cleanup_(op_sum_summing_done) struct op_sum_summing s = {.by_shape = by_shape};
    int r = 0;

    *ret = (struct op_sums){0};
    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = op_sum_make_rank(a, i, &s);
    if (r < 0)
        return r;
    if (s.groups.n > 0)
        qsort(s.items, s.groups.n, sizeof(*s.items), op_sum_compare);
    ret->n = s.groups.n;
    ret->items = TAKE_PTR(s.items);
    return 0;
}

void op_sums_done(struct op_sums *sums)
{
    free(sums->items);
    *sums = (struct op_sums){0};
}

/* -- Ops ------------------------------------------------------------------------------------------------- */

/* What operators cost, on the host and on the GPU. */

static const struct report_column ops_columns[] = {
    {"name", UNIT_TEXT, "name of the operator or annotation"},
    {"kind", UNIT_TEXT, "kind: operator or annotation", IMPORTANCE_EXTRA},
    {"calls", UNIT_COUNT, "number of calls"},
    {"host_ns", UNIT_NS, "total duration of the calls"},
    {"self_host_ns", UNIT_NS, "part of host_ns outside nested operators and annotations", IMPORTANCE_HIGH},
    {"runtime_ns", UNIT_NS, "part of self_host_ns in calls of the GPU runtime", IMPORTANCE_EXTRA},
    {"device_ns", UNIT_NS, "total duration of the GPU events launched by it and by nested calls",
     IMPORTANCE_HIGH},
    {"self_device_ns", UNIT_NS, "total duration of the GPU events launched by it directly"},
    {"kernels", UNIT_COUNT, "number of GPU events launched by it and by nested calls"},
    {"shapes", UNIT_COUNT, "number of distinct input shapes (op_shapes lists them)", IMPORTANCE_EXTRA},
};

static int ops_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(op_sums_done) struct op_sums sums = {0};
    int r = op_sums_read(a, false, &sums);

    for (size_t i = 0; i < sums.n && r >= 0; i++) {
        const struct op_sum *s = &sums.items[i];
        emit_text(ret, s->name);
        emit_str(ret, host_kind_name(s->kind));
        emit_int(ret, (int64_t)s->calls);
        emit_int(ret, s->host);
        emit_int(ret, s->self);
        emit_int(ret, s->runtime);
        emit_int(ret, s->device);
        emit_int(ret, s->self_device);
        emit_int(ret, (int64_t)s->work);
        emit_int(ret, (int64_t)s->shapes);
    }
    return r;
}

const struct report report_ops = {
    .name = "ops",
    .overview = {.place = 4, .of_host = true},
    .title = "operators: calls, self and total time on host and GPU",
    .method = "Calls of one name over all threads and ranks, summed as by key_averages() of torch: a call "
              "within a call of the same name counts in both. Self time excludes nested operators and "
              "annotations, and includes runtime calls. GPU events belong to the innermost operator around "
              "the call that launched them, otherwise to the operator with their External id.",
    .needs_rows = true,
    .columns = ops_columns,
    .n_columns = ARRAY_SIZE(ops_columns),
    .make = ops_make,
};

/* -- Op shapes ------------------------------------------------------------------------------------------- */

/* What operators cost for each shape of their input. */

static const struct report_column op_shapes_columns[] = {
    {"name", UNIT_TEXT, "name of the operator"},
    {"dims", UNIT_TEXT, "input shapes, as recorded", IMPORTANCE_HIGH},
    {"types", UNIT_TEXT, "input types", IMPORTANCE_EXTRA},
    {"calls", UNIT_COUNT, "number of calls"},
    {"host_ns", UNIT_NS, "total duration of the calls"},
    {"self_host_ns", UNIT_NS, "part of host_ns outside nested operators and annotations", IMPORTANCE_HIGH},
    {"device_ns", UNIT_NS, "total duration of the GPU events launched by it and by nested calls",
     IMPORTANCE_HIGH},
    {"self_device_ns", UNIT_NS, "total duration of the GPU events launched by it directly"},
    {"kernels", UNIT_COUNT, "number of GPU events launched by it and by nested calls"},
};

/* Shapes and types are JSON, which some traces have over many lines: spaces stay only after commas. */
static void emit_compact(struct report_rows *ret, struct text json)
{
    _cleanup_(freep) char *text = json.size > 0 ? malloc(json.size) : NULL;
    size_t n = 0;
    bool quoted = false;

    for (size_t i = 0; text && i < json.size; i++) {
        quoted ^= json.p[i] == '"';
        if (quoted || !isspace((unsigned char)json.p[i]))
            text[n++] = json.p[i];
        else if (n > 0 && text[n - 1] == ',')
            text[n++] = ' ';
    }
    emit_text(ret, text ? (struct text){text, n} : json);
}

static int op_shapes_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(op_sums_done) struct op_sums sums = {0};
    int r = op_sums_read(a, true, &sums);

    for (size_t i = 0; i < sums.n && r >= 0; i++) {
        const struct op_sum *s = &sums.items[i];
        if (s->kind != HOST_OP)
            continue;
        emit_text(ret, s->name);
        emit_compact(ret, s->dims);
        emit_compact(ret, s->types);
        emit_int(ret, (int64_t)s->calls);
        emit_int(ret, s->host);
        emit_int(ret, s->self);
        emit_int(ret, s->device);
        emit_int(ret, s->self_device);
        emit_int(ret, (int64_t)s->work);
    }
    return r;
}

const struct report report_op_shapes = {
    .name = "op_shapes",
    .title = "operators by input shape",
    .method = "As ops, with calls distinguished by Input Dims and Input type (record_shapes=True).",
    .is_detail = true,
    .needs_rows = true,
    .columns = op_shapes_columns,
    .n_columns = ARRAY_SIZE(op_shapes_columns),
    .make = op_shapes_make,
};

/* -- Op kernels ------------------------------------------------------------------------------------------ */

/* Which GPU work each operator launched itself. */

static const struct report_column op_kernels_columns[] = {
    {"op", UNIT_TEXT, "innermost operator or annotation around the launch; empty if unknown"},
    {"kernel", UNIT_TEXT, "name of the kernel, copy or memset"},
    {"count", UNIT_COUNT, "number of events"},
    {"sum_ns", UNIT_NS, "total duration"},
};

struct pair_sum {
    uint64_t count;
    int64_t sum;
};

struct op_kernels_summing {
    struct name_table texts;
    struct groups groups; /* operator, -1 for none; kernel */
    struct pair_sum *sums;
    size_t cap;
};

static void op_kernels_summing_done(struct op_kernels_summing *s)
{
    name_table_done(&s->texts);
    groups_done(&s->groups);
    free(s->sums);
}

static int op_kernels_add(struct op_kernels_summing *s, int64_t op, int64_t kernel, int64_t ns)
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

static int op_kernels_make_rank(struct analysis *a, size_t rank, struct op_kernels_summing *s)
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
            r = kernel < 0 ? (int)kernel : op_kernels_add(s, op, kernel, e->end - e->ts);
    }
    return r;
}

static int op_kernels_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(op_kernels_summing_done) struct op_kernels_summing s = {0};
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = op_kernels_make_rank(a, i, &s);
    for (size_t i = 0; i < s.groups.n && r >= 0; i++) {
        const struct group_key *key = &s.groups.items[i];
        if (key->part[0] < 0)
            emit_null(ret);
        else
            emit_text(ret, s.texts.items[key->part[0]]);
        emit_text(ret, s.texts.items[key->part[1]]);
        emit_int(ret, (int64_t)s.sums[i].count);
        emit_int(ret, s.sums[i].sum);
    }
    return r;
}

const struct report report_op_kernels = {
    .name = "op_kernels",
    .title = "kernels launched by each operator",
    .method = "GPU events by the innermost operator around the call that launched them, otherwise by the "
              "operator with their External id; events of a graph belong to the operator around the graph "
              "launch.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    .sort_by = "sum_ns",
    .columns = op_kernels_columns,
    .n_columns = ARRAY_SIZE(op_kernels_columns),
    .make = op_kernels_make,
};
