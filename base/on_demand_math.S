/* SPDX-License-Identifier: Apache-2.0 */
/* The mathematical functions of the C library. */
#include "base/on_demand_call.h"

ON_DEMAND("libm.so.6", \
          atan, cos, exp, fmax, fmin, lgamma, llround, log, log10, lround, pow, round, sqrt)
