/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled for processors with AVX2; scan.c asks whether this one has it. */
#define FIND_AVX2
#define SCAN_OPS scan_ops_avx2
#include "trace/read/scan_core.h"
