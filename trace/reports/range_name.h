/* SPDX-License-Identifier: Apache-2.0 */
/* What ranges are called that count themselves. Pure functions. */
#pragma once

#include "trace/columns/columns.h"

/* torch's emit_nvtx puts numbers behind names ("aten::mm, op_id = 317126"): the name ends before them. */
struct text range_name(struct text name);
