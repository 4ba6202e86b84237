/* SPDX-License-Identifier: Apache-2.0 */
/* What operators cost for each shape of their input. */
#include "trace/reports/op_sums.h"
#include "trace/reports/reports.h"
#include <ctype.h>
#include <errno.h>

static const struct report_column columns[] = {
    {"name", UNIT_TEXT, "of the operator"},
    {"dims", UNIT_TEXT, "shapes of its input, as the trace has them", IMPORTANCE_HIGH},
    {"types", UNIT_TEXT, "types of its input", IMPORTANCE_EXTRA},
    {"calls", UNIT_COUNT, "how often it was called"},
    {"host_ns", UNIT_NS, "time of the calls"},
    {"self_host_ns", UNIT_NS, "of it, in no operator or annotation within", IMPORTANCE_HIGH},
    {"device_ns", UNIT_NS, "time of the GPU work that it and what is within launched", IMPORTANCE_HIGH},
    {"self_device_ns", UNIT_NS, "time of the GPU work that it launched itself"},
    {"kernels", UNIT_COUNT, "how much GPU work it and what is within launched"},
};

/* Shapes and types are JSON, which some traces have over many lines: spaces stay behind commas alone. */
static void put_compact(struct report_rows *ret, struct text json)
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
    put_text(ret, text ? (struct text){text, n} : json);
}

static int make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(op_sums_done) struct op_sums sums = {0};
    int r = op_sums_read(a, true, &sums);

    for (size_t i = 0; i < sums.n && r >= 0; i++) {
        const struct op_sum *s = &sums.items[i];
        if (s->kind != HOST_OP)
            continue;
        put_text(ret, s->name);
        put_compact(ret, s->dims);
        put_compact(ret, s->types);
        put_int(ret, (int64_t)s->calls);
        put_int(ret, s->host);
        put_int(ret, s->self);
        put_int(ret, s->device);
        put_int(ret, s->self_device);
        put_int(ret, (int64_t)s->work);
    }
    return r < 0 ? r : report_rows_count(ret) == 0 ? -ENODATA : 0;
}

const struct report report_op_shapes = {
    .name = "op_shapes",
    .title = "operators by the shapes of their input",
    .how = "As ops, with calls told apart by Input Dims and Input type (record_shapes=True).",
    .is_detail = true,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
