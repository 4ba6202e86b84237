/* SPDX-License-Identifier: Apache-2.0 */
/* What operators cost, on the host and on the GPU. */
#include "trace/reports/op_sums.h"
#include "trace/reports/reports.h"
#include <errno.h>

static const struct report_column columns[] = {
    {"name", UNIT_TEXT, "of the operator or annotation"},
    {"kind", UNIT_TEXT, "operator, annotation", IMPORTANCE_EXTRA},
    {"calls", UNIT_COUNT, "how often it was called"},
    {"host_ns", UNIT_NS, "time of the calls"},
    {"self_host_ns", UNIT_NS, "of it, in no operator or annotation within", IMPORTANCE_HIGH},
    {"runtime_ns", UNIT_NS, "of that, in calls of the GPU's runtime", IMPORTANCE_EXTRA},
    {"device_ns", UNIT_NS, "time of the GPU work that it and what is within launched", IMPORTANCE_HIGH},
    {"self_device_ns", UNIT_NS, "time of the GPU work that it launched itself"},
    {"kernels", UNIT_COUNT, "how much GPU work it and what is within launched"},
    {"shapes", UNIT_COUNT, "how many different shapes of input (op_shapes lists them)", IMPORTANCE_EXTRA},
};

static int make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(op_sums_done) struct op_sums sums = {0};
    int r = op_sums_read(a, false, &sums);

    for (size_t i = 0; i < sums.n && r >= 0; i++) {
        const struct op_sum *s = &sums.items[i];
        put_text(ret, s->name);
        put_str(ret, host_kind_name(s->kind));
        put_int(ret, (int64_t)s->calls);
        put_int(ret, s->host);
        put_int(ret, s->self);
        put_int(ret, s->runtime);
        put_int(ret, s->device);
        put_int(ret, s->self_device);
        put_int(ret, (int64_t)s->work);
        put_int(ret, (int64_t)s->shapes);
    }
    return r < 0 ? r : sums.n == 0 ? -ENODATA : 0;
}

const struct report report_ops = {
    .name = "ops",
    .title = "operators: calls, self and total time on host and GPU",
    .how = "Calls of one name over all threads and ranks, as torch's key_averages() sums them: a call within "
           "one of the same name counts in both. Self time is without operators and annotations within, but "
           "with calls of the runtime. GPU work belongs to the innermost operator around the call that "
           "launched it, else to the one with its External id.",
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
