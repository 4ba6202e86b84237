/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel names as people read and compare them: demangled, and without what changes from build to build
 * (arguments of functions and templates, numbers of versions and of generated kernels). Pure functions.
 */
#pragma once

#include "trace/columns/columns.h"

/* A longer symbol, or one whose name would be longer, stays as it is. */
#define KERNEL_SYMBOL_MAX    4096
#define KERNEL_DEMANGLED_MAX 16384

static inline bool kernel_name_is_mangled(struct text name)
{
    return name.size > 2 && name.p[0] == '_' && name.p[1] == 'Z';
}

/*
 * The name that a symbol of the Itanium C++ ABI stands for: "_ZN2ns4gemmILi4EEEvPf" is "void
 * ns::gemm<4>(float*)". Profilers of AMD's GPUs record symbols, and NVIDIA's those that they could not
 * demangle. The caller frees. NULL for what is no such symbol, what exceeds the limits above or the limit of
 * stacks (ulimit -s), and without memory: then the name is shown as it is.
 */
char *kernel_name_demangle(struct text name);

/* "void ns::gemm_kernel<4096u, (T)2>(float*, int)" is "ns::gemm_kernel<>", "triton_poi_fused_add_12" is
 * "triton_poi_fused_add_#"; symbols are demangled before. The caller frees; NULL without memory. */
char *kernel_name_normal(struct text name);
