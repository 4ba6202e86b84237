/* SPDX-License-Identifier: Apache-2.0 */
#define FIND_SSE2
#define SCAN_OPS scan_ops_sse2
#include "trace/read/scan_core.h"
