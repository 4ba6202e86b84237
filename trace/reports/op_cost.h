/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The minimum of operations and bytes of an operator, by the shapes of its arguments. A pure function of
 * the data in the trace: name, "Input Dims", "Input type", "Concrete Inputs".
 */
#pragma once

#include "trace/columns/columns.h"

enum precision {
    PRECISION_FP64,
    PRECISION_FP32,
    PRECISION_TF32, /* what kernels make of FP32 */
    PRECISION_BF16,
    PRECISION_FP16,
    PRECISION_FP8,
    PRECISION_INT8,
    _PRECISION_MAX /* unknown */
};

struct op_cost {
    int64_t flops; /* a multiplication and an addition are two */
    int64_t bytes; /* each input read and each output written once; COLUMN_NULL where sizes are not known */
    enum precision precision;
};

/* Whether an operator of that name can be known at all. */
bool op_cost_is_known(struct text name);
/* False where it is not known, or the trace does not contain enough. */
bool op_cost_of(struct text name, struct text dims, struct text types, struct text concrete,
                struct op_cost *ret);
/* "bf16", "fp16", ...; NULL where unknown */
const char *precision_name(enum precision precision);
