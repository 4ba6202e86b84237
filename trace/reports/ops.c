/* SPDX-License-Identifier: Apache-2.0 */
/* What operators cost, on the host and on the GPU: by name, by shapes of input, by kernel. */
#include "trace/reports/ops.h"

#include "trace/columns/column_cursor.h"

#include <ctype.h>

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

/* -- Names --------------------------------------------------------------------------------------------- */

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

int64_t gathering_op(struct gathering *g, const struct host_calls *host, uint32_t call)
{
    if (call == HOST_CALL_NONE)
        return COLUMN_NULL;
    struct host_call one = host_call_get(host, call);
    return gathering_number(g, op_name_number(&g->numbers, &one));
}

/* -- Shapes: rows of operators, in the order of the calls ---------------------------------------------- */

struct op_shapes {
    struct column_cursor slices, dims, types;
    uint64_t row, rows;
};

static void op_shapes_of(struct op_shapes *s, uint32_t slice, int64_t *ret_dims, int64_t *ret_types)
{
    int64_t at = COLUMN_NULL;

    while (s->row < s->rows && (at = column_cursor_get(&s->slices, s->row)) < (int64_t)slice)
        s->row++;
    bool found = s->row < s->rows && at == (int64_t)slice;
    *ret_dims = found ? column_cursor_get(&s->dims, s->row) : COLUMN_NULL;
    *ret_types = found ? column_cursor_get(&s->types, s->row) : COLUMN_NULL;
}

/* -- Operators and annotations ------------------------------------------------------------------------- */

enum { NAME, KIND, DIMS, TYPES }; /* keys */
enum { SELF_DEVICE, SELF_HOST, CALLS, HOST, RUNTIME, DEVICE, WORK, SHAPES, _VALUE_MAX };

/* The sums of the calls of one rank that have the same name, kind, shapes and types, by numbers of its texts. */
struct op_sums {
    struct groups kinds;
    int64_t (*values)[_VALUE_MAX]; /* by number of the kind */
    size_t cap;
};

static void op_sums_done(struct op_sums *sums)
{
    groups_done(&sums->kinds);
    free(sums->values);
}

/* What a call launched in the view counts even if it began before. */
static int op_sums_read(const struct columns *c, const struct host_calls *host, const struct intervals *times,
                        struct op_sums *ret)
{
    struct op_shapes shapes = {.slices = {.c = c, .column = COL_op_slice},
                               .dims = {.c = c, .column = COL_op_dims},
                               .types = {.c = c, .column = COL_op_types},
                               .rows = columns_rows(c, TABLE_op)};

    for (size_t i = 0; i < host->n; i++) {
        struct host_call call = host_call_get(host, i);
        struct host_launched launched = host_call_launched(host, i);
        bool is_in_view = analysis_has_call(times, &call);
        struct group_key key = {{call.name, call.kind}};
        if (!is_in_view && launched.work_all == 0)
            continue;
        op_shapes_of(&shapes, call.slice, &key.part[DIMS], &key.part[TYPES]);
        int64_t number = groups_number(&ret->kinds, key);
        if (number < 0 || !ARRAY_RESERVE_ZEROED(ret->values, ret->cap, ret->kinds.n))
            return -ENOMEM;
        int64_t *values = ret->values[number];
        values[SELF_DEVICE] = add_time(values[SELF_DEVICE], launched.device);
        values[DEVICE] = add_time(values[DEVICE], launched.device_all);
        values[WORK] += launched.work_all;
        if (!is_in_view)
            continue;
        values[SELF_HOST] = add_time(values[SELF_HOST], call.self);
        values[CALLS]++;
        values[HOST] = add_time(values[HOST], call.end - call.ts);
        values[RUNTIME] = add_time(values[RUNTIME], call.runtime);
    }
    return 0;
}

/* arg: not NULL to distinguish shapes, of operators alone. */
static int ops_gather(struct gathering *g)
{
    _cleanup_(op_sums_done) struct op_sums sums = {0};
    const struct host_calls *host;
    const struct intervals *times;
    int r = analysis_ops(g->analysis, g->rank, &host);

    if (r >= 0)
        r = analysis_times(g->analysis, g->rank, &times);
    if (r >= 0)
        r = op_sums_read(g->c, host, times, &sums);
    for (size_t i = 0; i < sums.kinds.n && r >= 0; i++) {
        const int64_t *of = sums.kinds.items[i].part;
        if (g->arg && of[KIND] != HOST_OP)
            continue;
        const struct host_call call = {.name = of[NAME], .kind = (enum host_kind)of[KIND]};
        struct group_key key = {{gathering_number(g, op_name_number(&g->numbers, &call)), call.kind}},
                         with_shape = key;
        with_shape.part[DIMS] = gathering_text(g, of[DIMS]);
        with_shape.part[TYPES] = gathering_text(g, of[TYPES]);
        sums.values[i][SHAPES] = g->arg ? 0 : gathering_is_new(g, with_shape);
        r = gathering_add(g, g->arg ? with_shape : key, sums.values[i], SLICE_NONE);
    }
    return r;
}

/* Those that cost most by themselves first. */
static const struct aggregation ops = {
    .n_values = _VALUE_MAX, .n_order = 3, .order = {SELF_DEVICE, SELF_HOST, CALLS}, .gather = ops_gather};

static void emit_kind(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    emit_str(ret, host_kind_name((enum host_kind)g->key.part[KIND]));
}

static const struct report_column ops_columns[] = {
    {"name", UNIT_TEXT, "name of the operator or annotation", .figure = {FIGURE_TEXT, NAME}},
    {"kind", UNIT_TEXT, "kind: operator or annotation", IMPORTANCE_EXTRA,
     .figure = {FIGURE_OTHER, .emit = emit_kind}},
    {"calls", UNIT_COUNT, "number of calls", .figure = {FIGURE_SUM, CALLS}},
    {"host_ns", UNIT_NS, "total duration of the calls", .figure = {FIGURE_SUM, HOST}},
    {"self_host_ns", UNIT_NS, "part of host_ns outside nested operators and annotations", IMPORTANCE_HIGH,
     .figure = {FIGURE_SUM, SELF_HOST}},
    {"runtime_ns", UNIT_NS, "part of self_host_ns in calls of the GPU runtime", IMPORTANCE_EXTRA,
     .figure = {FIGURE_SUM, RUNTIME}},
    {"device_ns", UNIT_NS, "total duration of the GPU events launched by it and by nested calls",
     IMPORTANCE_HIGH, .figure = {FIGURE_SUM, DEVICE}},
    {"self_device_ns", UNIT_NS, "total duration of the GPU events launched by it directly",
     .figure = {FIGURE_SUM, SELF_DEVICE}},
    {"kernels", UNIT_COUNT, "number of GPU events launched by it and by nested calls",
     .figure = {FIGURE_SUM, WORK}},
    {"shapes", UNIT_COUNT, "number of distinct input shapes (op_shapes lists them)", IMPORTANCE_EXTRA,
     .figure = {FIGURE_SUM, SHAPES}},
};

const struct report report_ops = {
    .name = "ops",
    .overview = {.position = 4, .of_host = true},
    .title = "operators: calls, self and total time on host and GPU",
    .method = "Calls of one name over all threads and ranks, summed as by key_averages() of torch: a call "
              "within a call of the same name counts in both. Self time excludes nested operators and "
              "annotations, and includes runtime calls. GPU events belong to the innermost operator around "
              "the call that launched them, otherwise to the operator with their External id.",
    .needs_rows = true,
    REPORT_COLUMNS(ops),
    .aggregation = &ops,
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

static void emit_dims(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    emit_compact(ret, group_text(all, g, DIMS));
}

static void emit_types(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    emit_compact(ret, group_text(all, g, TYPES));
}

static const struct report_column op_shapes_columns[] = {
    {"name", UNIT_TEXT, "name of the operator", .figure = {FIGURE_TEXT, NAME}},
    {"dims", UNIT_TEXT, "input shapes, as recorded", IMPORTANCE_HIGH,
     .figure = {FIGURE_OTHER, .emit = emit_dims}},
    {"types", UNIT_TEXT, "input types", IMPORTANCE_EXTRA, .figure = {FIGURE_OTHER, .emit = emit_types}},
    {"calls", UNIT_COUNT, "number of calls", .figure = {FIGURE_SUM, CALLS}},
    {"host_ns", UNIT_NS, "total duration of the calls", .figure = {FIGURE_SUM, HOST}},
    {"self_host_ns", UNIT_NS, "part of host_ns outside nested operators and annotations", IMPORTANCE_HIGH,
     .figure = {FIGURE_SUM, SELF_HOST}},
    {"device_ns", UNIT_NS, "total duration of the GPU events launched by it and by nested calls",
     IMPORTANCE_HIGH, .figure = {FIGURE_SUM, DEVICE}},
    {"self_device_ns", UNIT_NS, "total duration of the GPU events launched by it directly",
     .figure = {FIGURE_SUM, SELF_DEVICE}},
    {"kernels", UNIT_COUNT, "number of GPU events launched by it and by nested calls",
     .figure = {FIGURE_SUM, WORK}},
};

const struct report report_op_shapes = {
    .name = "op_shapes",
    .title = "operators by input shape",
    .method = "As ops, with calls distinguished by Input Dims and Input type (record_shapes=True).",
    .is_detail = true,
    .needs_rows = true,
    REPORT_COLUMNS(op_shapes),
    .aggregation = &ops,
    .aggregated = "by shape",
};

/* -- Which GPU events each operator launched itself ---------------------------------------------------- */

static const struct report_column op_kernels_columns[] = {
    {"op", UNIT_TEXT, "innermost operator or annotation around the launch; empty if unknown",
     .figure = {FIGURE_TEXT, 0}},
    {"kernel", UNIT_TEXT, "name of the kernel, copy or memset", .figure = {FIGURE_TEXT, 1}},
    {"count", UNIT_COUNT, "number of events", .figure = {FIGURE_COUNT}},
    {"sum_ns", UNIT_NS, "total duration", .figure = {FIGURE_SUM}},
};

static int op_kernels_gather(struct gathering *g)
{
    const struct gpu_work *work;
    const struct host_calls *host;
    int r = analysis_gpu(g->analysis, g->rank, &work);

    if (r >= 0)
        r = analysis_ops(g->analysis, g->rank, &host);
    for (size_t i = 0; r >= 0 && i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        int64_t dur = e->end - e->ts;
        struct group_key key = {{gathering_op(g, host, host->launcher[i]), gathering_text(g, e->name)}};
        r = gathering_add(g, key, &dur, e->slice);
    }
    return r;
}

static const struct aggregation op_kernels = {.n_values = 1, .gather = op_kernels_gather};

const struct report report_op_kernels = {
    .name = "op_kernels",
    .title = "kernels launched by each operator",
    .method = "GPU events by the innermost operator around the call that launched them, otherwise by the "
              "operator with their External id; events of a graph belong to the operator around the graph "
              "launch.",
    .needs = NEEDS_GPU,
    .is_detail = true,
    .sort_by = "sum_ns",
    REPORT_COLUMNS(op_kernels),
    .aggregation = &op_kernels,
};
