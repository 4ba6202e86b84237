/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/roofline.h"

#include "base/array.h"
#include "trace/columns/column_cursor.h"
#include "trace/read/json_text.h"
#include "trace/reports/grouping.h"
#include "trace/reports/host.h"
#include "trace/reports/report.h"
#include "trace/reports/search.h"
#include <errno.h>
#include <fnmatch.h>
#include <math.h>

/* -- Gpu peak -------------------------------------------------------------------------------------------- */

#define NAME_LOOK_MAX 128

#define T             1e12
#define G             1e9
/* Vector units where there are no matrix units for it; BF16 is as fast as FP16 where a GPU has it at all. */
#define PEAK_OF(fp64, fp32, tf32, bf16, fp16, fp8, int8)                                                     \
    {                                                                                                        \
        [PRECISION_FP64] = fp64 * T, [PRECISION_FP32] = fp32 * T, [PRECISION_TF32] = tf32 * T,               \
        [PRECISION_BF16] = bf16 * T, [PRECISION_FP16] = fp16 * T, [PRECISION_FP8] = fp8 * T,                 \
        [PRECISION_INT8] = int8 * T                                                                          \
    }
#define PEAK(fp64, fp32, tf32, fp16, fp8, int8)         PEAK_OF(fp64, fp32, tf32, fp16, fp16, fp8, int8)
#define PEAK_NO_BF16(fp64, fp32, tf32, fp16, fp8, int8) PEAK_OF(fp64, fp32, tf32, 0, fp16, fp8, int8)

/* The first that matches counts. A device is what the runtime calls one: of an MI250, one of its two dies. */
static const struct gpu_peak peaks[] = {
    {"*GB200*", 8000 * G, PEAK(40, 80, 1250, 2500, 5000, 5000)},
    {"*B200*", 8000 * G, PEAK(37, 75, 1125, 2250, 4500, 4500)},
    {"*GH200*144*", 4900 * G, PEAK(67, 67, 494.7, 989.4, 1978.9, 1978.9)},
    {"*GH200*", 4000 * G, PEAK(67, 67, 494.7, 989.4, 1978.9, 1978.9)},
    {"*H200*", 4800 * G, PEAK(67, 67, 494.7, 989.4, 1978.9, 1978.9)},
    {"*H100*NVL*", 3900 * G, PEAK(60, 60, 417.5, 835.5, 1671, 1671)},
    {"*H100*PCIe*", 2000 * G, PEAK(51, 51, 378, 756, 1513, 1513)},
    {"*H100*", 3350 * G, PEAK(67, 67, 494.7, 989.4, 1978.9, 1978.9)},
    {"*H20", 4000 * G, PEAK(1, 44, 74, 148, 296, 296)},
    {"*H800*PCIe*", 2000 * G, PEAK(0.8, 51, 378, 756, 1513, 1513)},
    {"*H800*", 3350 * G, PEAK(1, 67, 494.7, 989.4, 1978.9, 1978.9)},
    {"*A100*80GB*PCI*", 1935 * G, PEAK(19.5, 19.5, 156, 312, 0, 624)},
    {"*A100*80GB*", 2039 * G, PEAK(19.5, 19.5, 156, 312, 0, 624)},
    {"*A100*", 1555 * G, PEAK(19.5, 19.5, 156, 312, 0, 624)},
    {"*A800*80GB*", 2039 * G, PEAK(9.7, 19.5, 156, 312, 0, 624)},
    {"*L40S*", 864 * G, PEAK(1.4, 91.6, 183, 362, 733, 733)},
    {"*L4", 300 * G, PEAK(0.5, 30.3, 60, 121, 242.5, 242.5)},
    {"*A10", 600 * G, PEAK(1, 31.2, 62.5, 125, 0, 250)},
    {"*V100*", 900 * G, PEAK_NO_BF16(7.8, 15.7, 0, 125, 0, 62.8)},
    {"*T4*", 320 * G, PEAK_NO_BF16(0.25, 8.1, 0, 65, 0, 130)},
    {"*MI355X*", 8000 * G, PEAK(78.6, 157.3, 0, 2516.6, 5033.2, 5033.2)},
    {"*MI350X*", 8000 * G, PEAK(72.1, 144.2, 0, 2306.9, 4613.7, 4613.7)},
    {"*MI325X*", 6000 * G, PEAK(163.4, 163.4, 653.7, 1307.4, 2614.9, 2614.9)},
    {"*MI300X*", 5300 * G, PEAK(163.4, 163.4, 653.7, 1307.4, 2614.9, 2614.9)},
    {"*MI250X*", 1638 * G, PEAK(47.9, 47.9, 0, 191.5, 0, 191.5)},
    {"*MI250*", 1638 * G, PEAK(45.3, 45.3, 0, 181, 0, 181)},
    {"*MI210*", 1638 * G, PEAK(45.3, 45.3, 0, 181, 0, 181)},
};

const struct gpu_peak *gpu_peak_find(struct text device)
{
    char name[NAME_LOOK_MAX];

    snprintf(name, sizeof(name), "%.*s", (int)MIN(device.size, sizeof(name) - 1), device.p ? device.p : "");
    for (size_t i = 0; i < ARRAY_SIZE(peaks); i++)
        if (fnmatch(peaks[i].glob, name, 0) == 0)
            return &peaks[i];
    return NULL;
}

/* -- Roofline -------------------------------------------------------------------------------------------- */

#define ROOFLINE_COLUMNS(C)                                                                                  \
    RANK_COLUMN(C)                                                                                           \
    C(operator, TEXT, "name of the operator")                                                                \
    C(dims, TEXT, "input shapes")                                                                            \
    C(precision, TEXT, "precision of the first operand; tf32 if the kernel names contain it",                \
      IMPORTANCE_LOW)                                                                                        \
    C(calls, COUNT, "number of calls that launched GPU events", IMPORTANCE_LOW)                              \
    C(device_ns, NS, "total duration of the launched kernels, copies and memsets", IMPORTANCE_HIGH)          \
    C(flops, COUNT, "operations per call; a multiplication and an addition are two", IMPORTANCE_EXTRA)       \
    C(bytes, BYTES, "bytes per call: each input read once and each output written once", IMPORTANCE_EXTRA)   \
    C(tflops, FACTOR, "achieved 10^12 operations per second", IMPORTANCE_HIGH)                               \
    C(bandwidth, BYTES_PER_S, "achieved bandwidth, from these bytes", IMPORTANCE_LOW)                        \
    C(intensity, FACTOR, "operations per byte")                                                              \
    C(bound, TEXT, "limiting peak of the GPU: compute or memory; empty for unknown GPUs", IMPORTANCE_HIGH)   \
    C(roof_share, SHARE, "achieved share of that peak", IMPORTANCE_HIGH)
REPORT_ROW(roofline, ROOFLINE_COLUMNS);

/* Calls of one operator with the same arguments, and the GPU events that they launched. */
struct roofline_kind {
    int64_t name, dims, types, concrete; /* texts */
    struct op_cost cost;
    bool has_cost, is_tf32;
    int64_t calls, sum;
};

/* What is to be known of a text that is a name. */
enum known { KNOWN_NOT_YET, KNOWN_NO, KNOWN_YES };

struct roofline_search {
    const struct columns *c;
    const struct slice_table *slices;
    uint8_t *ops, *tf32; /* of each text */
    uint32_t n_texts;
    uint32_t *op_slices; /* of each row of TABLE_op, in order */
    uint64_t n_ops;
    struct column_cursor dims, types, concrete;
    uint32_t *kind_of; /* of each row, + 1; 0: not asked yet */
    bool *has_work;    /* of each row: whether its call was counted */
    struct groups keys;
    struct roofline_kind *kinds; /* by number of the key */
    size_t cap;
    bool is_out_of_memory;
};

static void roofline_search_done(struct roofline_search *s)
{
    free(s->ops);
    free(s->tf32);
    free(s->op_slices);
    free(s->kind_of);
    free(s->has_work);
    groups_done(&s->keys);
    free(s->kinds);
}

static bool is_op(struct roofline_search *s, int64_t name)
{
    if (name < 0 || name >= s->n_texts)
        return false;
    if (s->ops[name] == KNOWN_NOT_YET)
        s->ops[name] = op_cost_is_known(columns_text(s->c, name)) ? KNOWN_YES : KNOWN_NO;
    return s->ops[name] == KNOWN_YES;
}

static bool is_tf32(struct roofline_search *s, int64_t name)
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

/* The kind of a call with those arguments, made where it is new; NULL without memory. */
static struct roofline_kind *roofline_find_kind(struct roofline_search *s, int64_t name, uint64_t row)
{
    const struct columns *c = s->c;
    size_t n = s->keys.n;
    struct roofline_kind kind = {.name = name,
                                 .dims = column_cursor_get(&s->dims, row),
                                 .types = column_cursor_get(&s->types, row),
                                 .concrete = column_cursor_get(&s->concrete, row)};
    int64_t number =
        groups_number(&s->keys, (struct group_key){{name, kind.dims, kind.types, kind.concrete}});

    if (number < 0 || !ARRAY_RESERVE(s->kinds, s->cap, s->keys.n))
        return NULL;
    if (s->keys.n > n) {
        kind.has_cost = op_cost_of(columns_text(c, name), columns_text(c, kind.dims),
                                   columns_text(c, kind.types), columns_text(c, kind.concrete), &kind.cost);
        s->kinds[number] = kind;
    }
    return &s->kinds[number];
}

/* Of an operator with arguments; *ret_row: of TABLE_op. NULL where nothing is known of its cost. */
static struct roofline_kind *roofline_describe(struct roofline_search *s, uint64_t slice, uint64_t *ret_row)
{
    int64_t name = slice_name(s->slices, slice);

    if (!is_op(s, name))
        return NULL;
    size_t row = FIRST_THAT(i, 0, s->n_ops, s->op_slices[i] >= slice);
    if (row == s->n_ops || s->op_slices[row] != slice)
        return NULL;
    if (s->kind_of[row] == 0) {
        struct roofline_kind *kind = roofline_find_kind(s, name, row);
        s->is_out_of_memory = s->is_out_of_memory || !kind;
        if (!kind)
            return NULL;
        s->kind_of[row] = (uint32_t)(kind - s->kinds) + 1;
    }
    *ret_row = row;
    return s->kinds[s->kind_of[row] - 1].has_cost ? &s->kinds[s->kind_of[row] - 1] : NULL;
}

static bool has_cost(void *arg, uint64_t slice)
{
    uint64_t row;

    return roofline_describe(arg, slice, &row) != NULL;
}

static int roofline_read_kinds(struct roofline_search *s, const struct gpu_work *work)
{
    uint64_t rows = columns_rows(s->c, TABLE_op), row = 0;

    s->n_texts = columns_texts(s->c);
    s->ops = calloc((size_t)s->n_texts + 1, 1);
    s->tf32 = calloc((size_t)s->n_texts + 1, 1);
    s->op_slices = malloc((rows + 1) * sizeof(*s->op_slices));
    s->kind_of = calloc(rows + 1, sizeof(*s->kind_of));
    s->has_work = calloc(rows + 1, sizeof(*s->has_work));
    /* The innermost operator around a launch. */
    _cleanup_(freep) struct ancestor_finder *finder = calloc(1, sizeof(*finder));
    if (!s->ops || !s->tf32 || !s->op_slices || !s->kind_of || !s->has_work || !finder)
        return -ENOMEM;
    s->n_ops = columns_codes(s->c, COL_op_slice, 0, rows, s->op_slices);
    s->dims = (struct column_cursor){.c = s->c, .column = COL_op_dims};
    s->types = (struct column_cursor){.c = s->c, .column = COL_op_types};
    s->concrete = (struct column_cursor){.c = s->c, .column = COL_op_concrete};
    *finder = (struct ancestor_finder){.slices = s->slices, .matches = has_cost, .arg = s};
    for (size_t i = 0; i < work->n && !s->is_out_of_memory; i++) {
        const struct gpu_event *e = &work->events[i];
        uint64_t op = ancestor_find(finder, slice_parent(s->slices, gpu_event_launch(e)));
        struct roofline_kind *kind = op == SLICE_NONE ? NULL : roofline_describe(s, op, &row);
        if (!kind)
            continue;
        kind->calls += !s->has_work[row];
        s->has_work[row] = true;
        kind->sum += e->end - e->ts;
        kind->is_tf32 |= is_tf32(s, e->name);
    }
    return s->is_out_of_memory ? -ENOMEM : 0;
}

static int roofline_compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int roofline_compare(const void *x, const void *y)
{
    const struct roofline_kind *a = x, *b = y;
    int order = roofline_compare_numbers(a->name, b->name);

    order = order ? order : roofline_compare_numbers(a->dims, b->dims);
    order = order ? order : roofline_compare_numbers(a->types, b->types);
    return order ? order : roofline_compare_numbers(a->concrete, b->concrete);
}

#define DIMS_TEXT_MAX 512

/* Shapes without the space that JSON may be laid out with. */
static struct text compact_dims(char line[DIMS_TEXT_MAX], struct text dims)
{
    size_t n = 0;

    for (size_t i = 0; i < dims.size && n < DIMS_TEXT_MAX - 2; i++) {
        if (json_is_space(dims.p[i]))
            continue;
        line[n++] = dims.p[i];
        if (dims.p[i] == ',')
            line[n++] = ' ';
    }
    return (struct text){line, n};
}

static void roofline_emit_kind(const struct analysis *a, size_t rank, const struct roofline_kind *kind,
                               const struct gpu_peak *peak, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    struct op_cost cost = kind->cost;
    int64_t calls = kind->calls, sum = kind->sum;
    char dims[DIMS_TEXT_MAX];

    if (cost.precision == PRECISION_FP32 && kind->is_tf32)
        cost.precision = PRECISION_TF32;
    double seconds = (double)sum / 1e9, flops = (double)cost.flops * (double)calls,
           bytes = cost.bytes == COLUMN_NULL ? NAN : (double)cost.bytes * (double)calls;
    double peak_flops =
        peak && cost.precision < _PRECISION_MAX && cost.bytes > 0 ? peak->flops[cost.precision] : 0;
    double by_memory = peak_flops > 0 ? (double)cost.flops / (double)cost.bytes * peak->bytes_per_s : NAN;
    EMIT_ROW(roofline, ret, .rank = a->ranks[rank].number, .operator= row_text(c, kind->name),
             .dims = compact_dims(dims, columns_text(c, kind->dims)),
             .precision = row_str(precision_name(cost.precision)), .calls = calls, .device_ns = sum,
             .flops = cost.flops, .bytes = cost.bytes, .tflops = flops / seconds / 1e12,
             .bandwidth = bytes / seconds, .intensity = flops / bytes,
             .bound = row_str(peak_flops == 0          ? NULL
                              : by_memory < peak_flops ? "memory"
                                                       : "compute"),
             .roof_share = peak_flops > 0 ? flops / seconds / MIN(by_memory, peak_flops) : NAN);
}

static int roofline_make_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    _cleanup_(roofline_search_done) struct roofline_search s = {.c = a->ranks[rank].columns};
    const struct gpu_peak *peak = gpu_peak_find(columns_meta_text(s.c, META_device_name));
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = analysis_slices(a, rank, &s.slices);
    if (r >= 0)
        r = roofline_read_kinds(&s, work);
    if (r < 0 || s.keys.n == 0)
        return r;
    qsort(s.kinds, s.keys.n, sizeof(*s.kinds), roofline_compare);
    for (size_t i = 0; i < s.keys.n; i++)
        if (s.kinds[i].calls > 0)
            roofline_emit_kind(a, rank, &s.kinds[i], peak, ret);
    return 0;
}

const struct report report_roofline = {
    .name = "roofline",
    .title = "achieved share of the GPU peaks by matrix products, convolutions, attention",
    .method = "Operations and bytes from shapes (record_shapes), time from the kernels that the operator "
              "launched; the innermost known operator counts. Peaks are those of data sheets, dense; a GPU "
              "that is not in the table has no bound. Events launched by a graph belong to no operator.",
    .needs = NEEDS_GPU | NEEDS_OPS,
    .sort_by = "device_ns",
    REPORT_COLUMNS(roofline),
    .make_rank = roofline_make_rank,
};
