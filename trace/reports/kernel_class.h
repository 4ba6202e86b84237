/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel categories, derived from names: GEMM, attention, communication, ... by patterns (glob_matches(), any case)
 * in a table, the first that matches counts. Users put their own before it (kernel_patterns_parse); these are
 * matched against the complete name.
 */
#pragma once

#include "base/util.h"

/* C(identifier, name, for people) */
#define KERNEL_CLASSES(C)                                                                                    \
    C(GEMM, "gemm", "matrix products")                                                                       \
    C(ATTENTION, "attention", "attention, and state spaces in its place")                                    \
    C(COMMUNICATION, "communication", "between GPUs")                                                        \
    C(MOE, "moe", "experts: routing, permuting, their products")                                             \
    C(NORM, "norm", "normalisation")                                                                         \
    C(ACTIVATION, "activation", "activation functions")                                                      \
    C(ROPE, "rope", "rotary positions")                                                                      \
    C(QUANT, "quant", "quantisation and conversion")                                                         \
    C(KV_CACHE, "kv_cache", "the KV cache")                                                                  \
    C(SAMPLING, "sampling", "softmax, top-k, choice of tokens")                                              \
    C(SORT, "sort", "sorting and searching")                                                                 \
    C(EMBEDDING, "embedding", "embeddings, gather, scatter, index")                                          \
    C(CONVOLUTION, "convolution", "convolutions and pooling")                                                \
    C(REDUCTION, "reduction", "sums and other reductions")                                                   \
    C(ELEMENTWISE, "elementwise", "element by element")                                                      \
    C(TRITON, "triton", "compiled (Triton), else unknown")                                                   \
    C(COPY, "copy", "copies and transposes by kernels")                                                      \
    C(OPTIMIZER, "optimizer", "optimizers")                                                                  \
    C(MEMORY, "memory", "memcpy and memset")                                                                 \
    C(OTHER, "other", "everything else")

enum kernel_class {
#define C(identifier, name, what) CLASS_##identifier,
    KERNEL_CLASSES(C)
#undef C
        _KERNEL_CLASS_MAX,
};

const char *kernel_class_name(enum kernel_class class);
const char *kernel_class_text(enum kernel_class class);

struct kernel_pattern {
    enum kernel_class class;
    char *glob;
};

/* What users added. */
struct kernel_patterns {
    struct kernel_pattern *items;
    size_t n, cap;
};

#define KERNEL_PATTERNS_MAX 4096

/* Lines "class pattern"; # begins a comment. -EINVAL with the number of the line that is none, -E2BIG,
 * -ENOMEM. */
int kernel_patterns_parse(const char *text, struct kernel_patterns *ret, size_t *ret_line);
void kernel_patterns_done(struct kernel_patterns *patterns);

/* patterns may be NULL. */
enum kernel_class kernel_class_of(const struct kernel_patterns *patterns, const char *name, size_t size);
