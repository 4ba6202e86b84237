/* SPDX-License-Identifier: Apache-2.0 */
/* What operators achieved of what the GPU can do, where their shapes tell what they had to do. */
#include "trace/read/json_text.h"
#include "trace/reports/ancestor.h"
#include "trace/reports/gpu_peak.h"
#include "trace/reports/reports.h"
#include <errno.h>
#include <math.h>

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"operator", UNIT_TEXT, "by name"},
    {"dims", UNIT_TEXT, "shapes of its arguments"},
    {"precision", UNIT_TEXT, "of its first operand; tf32 where the kernels' names say so", IMPORTANCE_LOW},
    {"calls", UNIT_COUNT, "that launched something", IMPORTANCE_LOW},
    {"device_ns", UNIT_NS, "sum of the kernels, copies and memsets that they launched", IMPORTANCE_HIGH},
    {"flops", UNIT_COUNT, "of one call; a multiplication and an addition are two", IMPORTANCE_EXTRA},
    {"bytes", UNIT_BYTES, "of one call, each input read and each output written once", IMPORTANCE_EXTRA},
    {"tflops", UNIT_FACTOR, "10^12 operations a second that were achieved", IMPORTANCE_HIGH},
    {"bandwidth", UNIT_BYTES_PER_S, "that was achieved, of these bytes", IMPORTANCE_LOW},
    {"intensity", UNIT_FACTOR, "operations for each byte"},
    {"bound", UNIT_TEXT, "compute or memory: which of the GPU's peaks limits it; empty for unknown GPUs",
     IMPORTANCE_HIGH},
    {"roof_share", UNIT_SHARE, "achieved, of what that peak allows", IMPORTANCE_HIGH},
};

/* A piece of work with the operator that launched it. */
struct piece {
    int64_t name, dims, types, concrete;
    uint64_t op; /* row of TABLE_op */
    int64_t dur;
    bool is_tf32;
};

/* What is to be known of a text that is a name. */
enum known { KNOWN_NOT_YET, KNOWN_NO, KNOWN_YES };

struct search {
    const struct columns *c;
    uint8_t *ops, *tf32; /* of each text */
    uint32_t n_texts;
    struct piece *pieces;
    size_t n;
};

static void search_done(struct search *s)
{
    free(s->ops);
    free(s->tf32);
    free(s->pieces);
}

static bool is_op(struct search *s, int64_t name)
{
    if (name < 0 || name >= s->n_texts)
        return false;
    if (s->ops[name] == KNOWN_NOT_YET)
        s->ops[name] = op_cost_is_known(columns_text(s->c, name)) ? KNOWN_YES : KNOWN_NO;
    return s->ops[name] == KNOWN_YES;
}

static bool is_tf32(struct search *s, int64_t name)
{
    static const char mark[] = "tf32";

    if (name < 0 || name >= s->n_texts)
        return false;
    if (s->tf32[name] == KNOWN_NOT_YET) {
        struct text text = columns_text(s->c, name);
        s->tf32[name] = text.p && memmem(text.p, text.size, mark, sizeof(mark) - 1) ? KNOWN_YES : KNOWN_NO;
    }
    return s->tf32[name] == KNOWN_YES;
}

static bool describe(struct search *s, uint64_t slice, struct piece *ret, struct op_cost *ret_cost)
{
    const struct columns *c = s->c;
    uint64_t row = columns_lower_bound(c, COL_op_slice, (int64_t)slice);

    if (columns_get(c, COL_op_slice, row) != (int64_t)slice)
        return false;
    *ret = (struct piece){.name = columns_get(c, COL_slice_name, slice),
                          .dims = columns_get(c, COL_op_dims, row),
                          .types = columns_get(c, COL_op_types, row),
                          .concrete = columns_get(c, COL_op_concrete, row),
                          .op = row};
    return op_cost_of(columns_text(c, ret->name), columns_text(c, ret->dims), columns_text(c, ret->types),
                      columns_text(c, ret->concrete), ret_cost);
}

static bool has_cost(void *arg, uint64_t slice)
{
    struct search *s = arg;
    struct piece piece;
    struct op_cost cost;

    return is_op(s, columns_get(s->c, COL_slice_name, slice)) && describe(s, slice, &piece, &cost);
}

static int read_pieces(struct search *s, const struct gpu_work *work)
{
    s->n_texts = columns_texts(s->c);
    s->ops = calloc((size_t)s->n_texts + 1, 1);
    s->tf32 = calloc((size_t)s->n_texts + 1, 1);
    s->pieces = calloc(work->n + 1, sizeof(*s->pieces));
    /* The innermost operator around a launch. */
    _cleanup_(freep) struct ancestor_finder *finder = calloc(1, sizeof(*finder));
    if (!s->ops || !s->tf32 || !s->pieces || !finder)
        return -ENOMEM;
    *finder = (struct ancestor_finder){.c = s->c, .matches = has_cost, .arg = s};
    for (size_t i = 0; i < work->n; i++) {
        struct piece *p = &s->pieces[s->n];
        uint64_t op = ancestor_find(finder, ancestor_parent(s->c, work->events[i].launch));
        struct op_cost cost;
        if (op == SLICE_NONE || !describe(s, op, p, &cost))
            continue;
        p->dur = work->events[i].end - work->events[i].ts;
        p->is_tf32 = is_tf32(s, work->events[i].name);
        s->n++;
    }
    return 0;
}

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_kinds(const struct piece *a, const struct piece *b)
{
    int order = compare_numbers(a->name, b->name);

    order = order ? order : compare_numbers(a->dims, b->dims);
    order = order ? order : compare_numbers(a->types, b->types);
    return order ? order : compare_numbers(a->concrete, b->concrete);
}

static int compare(const void *x, const void *y)
{
    const struct piece *a = x, *b = y;
    int order = compare_kinds(a, b);

    return order ? order : (a->op > b->op) - (a->op < b->op);
}

static void put_roof(struct report_rows *ret, const struct gpu_peak *peak, const struct op_cost *cost,
                     double flops_per_s)
{
    double peak_flops =
        peak && cost->precision < _PRECISION_MAX && cost->bytes > 0 ? peak->flops[cost->precision] : 0;

    if (!peak || peak_flops == 0) {
        put_null(ret);
        put_null(ret);
        return;
    }
    double by_memory = (double)cost->flops / (double)cost->bytes * peak->bytes_per_s;
    put_str(ret, by_memory < peak_flops ? "memory" : "compute");
    put_real(ret, flops_per_s / MIN(by_memory, peak_flops));
}

#define DIMS_TEXT_MAX 512

/* Shapes without the space that JSON may be laid out with. */
static void put_dims(struct report_rows *ret, struct text dims)
{
    char line[DIMS_TEXT_MAX];
    size_t n = 0;

    for (size_t i = 0; i < dims.size && n < sizeof(line) - 2; i++) {
        if (json_is_space(dims.p[i]))
            continue;
        line[n++] = dims.p[i];
        if (dims.p[i] == ',')
            line[n++] = ' ';
    }
    put_text(ret, (struct text){line, n});
}

static void put_kind(const struct analysis *a, size_t rank, const struct piece *pieces, size_t n,
                     const struct gpu_peak *peak, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    struct op_cost cost;
    int64_t calls = 0, sum = 0;
    bool is_tf32 = false;

    for (size_t i = 0; i < n; i++) {
        calls += i == 0 || pieces[i].op != pieces[i - 1].op;
        sum += pieces[i].dur;
        is_tf32 |= pieces[i].is_tf32;
    }
    op_cost_of(columns_text(c, pieces->name), columns_text(c, pieces->dims), columns_text(c, pieces->types),
               columns_text(c, pieces->concrete), &cost);
    if (cost.precision == PRECISION_FP32 && is_tf32)
        cost.precision = PRECISION_TF32;
    double seconds = (double)sum / 1e9, flops = (double)cost.flops * (double)calls,
           bytes = cost.bytes == COLUMN_NULL ? NAN : (double)cost.bytes * (double)calls;
    put_int(ret, a->ranks[rank].number);
    put_text_or_null(ret, c, pieces->name);
    put_dims(ret, columns_text(c, pieces->dims));
    put_str(ret, precision_name(cost.precision));
    put_int(ret, calls);
    put_int(ret, sum);
    put_int(ret, cost.flops);
    put_int(ret, cost.bytes);
    put_real(ret, flops / seconds / 1e12);
    put_real(ret, bytes / seconds);
    put_real(ret, flops / bytes);
    put_roof(ret, peak, &cost, flops / seconds);
}

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(search_done) struct search s = {.c = a->ranks[rank].columns};
    const struct gpu_peak *peak = gpu_peak_find(columns_meta_text(s.c, META_device_name));
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = read_pieces(&s, work);
    if (r < 0 || s.n == 0)
        return r;
    qsort(s.pieces, s.n, sizeof(*s.pieces), compare);
    for (size_t i = 0, to; i < s.n; i = to) {
        for (to = i + 1; to < s.n && compare_kinds(&s.pieces[i], &s.pieces[to]) == 0;)
            to++;
        put_kind(a, rank, &s.pieces[i], to - i, peak, ret);
    }
    return 0;
}

/* device_ns */
#define COLUMN_TIME 5

static int make(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(a, i, ret);
    return r < 0 ? r : report_rows_sort(ret, COLUMN_TIME, true);
}

const struct report report_roofline = {
    .name = "roofline",
    .title = "what matrix products, convolutions and attention achieved of the GPU's peaks",
    .how = "Operations and bytes from shapes (record_shapes), time from the kernels that the operator "
           "launched, the innermost known operator counts. Peaks are those of data sheets, dense; a GPU that "
           "is not in the table has no bound. What a graph launched belongs to no operator.",
    .needs = NEEDS_GPU | NEEDS_OPS,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
