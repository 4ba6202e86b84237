/* SPDX-License-Identifier: Apache-2.0 */
/* The names that calls of the host are grouped by. */
#pragma once

#include "trace/columns/columns.h"
#include "trace/reports/aggregation.h"

/* torch's emit_nvtx appends numbers to names ("aten::mm, op_id = 317126"): the name ends before them. */
struct text range_name(struct text name);

/* The name that a call goes by, in the table of numbers: all steps of torch.profiler are one, and ranges that
 * number themselves go by range_name(). -ENOMEM. */
int64_t op_name_number(struct text_numbers *numbers, const struct host_call *call);
/* The same as a key of an aggregation, of a call by its number; COLUMN_NULL for HOST_CALL_NONE. */
int64_t gathering_op(struct gathering *g, const struct host_calls *host, uint32_t call);
