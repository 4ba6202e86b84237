/* SPDX-License-Identifier: Apache-2.0 */
#define FIND_NEON
#define SCAN_OPS scan_ops_neon
#include "trace/read/scan_core.h"
