/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Categories of events that mean the same: torch called them otherwise until 1.9. Columns keep what the trace
 * says; whoever asks for a category means both of its names.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The category's name, and its older one; items of an array of words. */
#define CATEGORY_KERNEL  "kernel", "Kernel"
#define CATEGORY_MEMCPY  "gpu_memcpy", "Memcpy"
#define CATEGORY_MEMSET  "gpu_memset", "Memset"
#define CATEGORY_OP      "cpu_op", "Operator"
#define CATEGORY_RUNTIME "cuda_runtime", "Runtime"

/* The older name of a category, NULL where it has none. */
const char *category_old_name(const char *name, size_t size);
/* By either name: what a GPU did itself. */
bool category_is_gpu_work(const char *name, size_t size);
