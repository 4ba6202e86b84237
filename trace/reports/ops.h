/* SPDX-License-Identifier: Apache-2.0 */
/* What ranges are called that count themselves. Pure functions. */
#pragma once

#include "trace/columns/columns.h"
#include "trace/reports/analysis.h"
#include "trace/reports/grouping.h"

/* torch's emit_nvtx appends numbers to names ("aten::mm, op_id = 317126"): the name ends before them. */
struct text range_name(struct text name);

/* Operators and annotations summed up by name, or by name and the shapes of their input, over ranks. */
struct op_sum {
    struct text name, dims, types; /* the last two where they are asked for */
    enum host_kind kind;
    uint64_t calls, work; /* work: of the GPU, with that of what is within */
    int64_t host, self, runtime, device, self_device;
    uint64_t shapes; /* how many different ones; where they are not asked for */
};

struct op_sums {
    struct op_sum *items; /* those that cost most by themselves first */
    size_t n;
};

/* -ENOMEM. */
int op_sums_read(struct analysis *a, bool by_shape, struct op_sums *ret);
void op_sums_done(struct op_sums *sums);
/* The name that a call goes by, in the table of numbers: all steps of torch.profiler are one, and ranges that
 * number themselves (range_name.h). -ENOMEM. */
int64_t op_name_number(struct text_numbers *numbers, const struct host_call *call);
