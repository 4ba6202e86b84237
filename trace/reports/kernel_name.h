/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of names: * is any text, ? one byte, all else itself. Unlike fnmatch(3) there are no sets, no
 * escapes and no locale: names of kernels are full of brackets, and thousands are looked at against hundreds
 * of patterns.
 */
#pragma once

#include "base/util.h"
#include "trace/columns/columns.h"

bool glob_matches(const char *glob, const char *text);

/*
 * Parts of a kernel's name as C++ writes it: "void ns::function<arguments of the template>(types)".
 */
#define KERNEL_PARTS_MAX 1024

/* All in lower case into a buffer of KERNEL_PARTS_MAX; longer names are cut. */
void kernel_lower(const char *name, size_t size, char *buf);
/* The function alone with its namespaces: "ns::function". A name that is not C++ is unchanged. */
void kernel_function(const char *name, size_t size, char *buf);
/* Without the types of its parameters: "void ns::function<arguments of the template>". */
void kernel_template(const char *name, size_t size, char *buf);

/*
 * Kernel names as people read and compare them: demangled, and without what changes from build to build
 * (arguments of functions and templates, numbers of versions and of generated kernels). Pure functions.
 */
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
