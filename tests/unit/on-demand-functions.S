/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the C library that test-on-demand.c calls through definitions of its own. */
#include "base/on_demand_call.h"

ON_DEMAND("libc.so.6", lldiv, snprintf)
