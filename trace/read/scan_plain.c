/* SPDX-License-Identifier: Apache-2.0 */
#define SCAN_OPS scan_ops_plain
#include "trace/read/scan_core.h"
