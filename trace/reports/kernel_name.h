/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel names without what changes from build to build: arguments of functions and templates, numbers of
 * versions and of generated kernels. Pure functions.
 */
#pragma once

#include "trace/columns/columns.h"

/* "void ns::gemm_kernel<4096u, (T)2>(float*, int)" is "ns::gemm_kernel<>", "triton_poi_fused_add_12" is
 * "triton_poi_fused_add_#". The caller frees; NULL without memory. */
char *kernel_name_normal(struct text name);
