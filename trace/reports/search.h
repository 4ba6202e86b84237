/* SPDX-License-Identifier: Apache-2.0 */
/* Halving what is in order. */
#pragma once

#include "base/util.h"

/* The first i of [first, end) for which an expression of it holds, where it then holds for all after it; end
 * where it holds for none: FIRST_THAT(i, 0, n, items[i].ts >= ts). */
#define FIRST_THAT(i, first, end, holds)                                                                     \
    ({                                                                                                       \
        size_t _low = (first), _high = (end);                                                                \
        while (_low < _high) {                                                                               \
            size_t i = _low + (_high - _low) / 2;                                                            \
            if (holds)                                                                                       \
                _high = i;                                                                                   \
            else                                                                                             \
                _low = i + 1;                                                                                \
        }                                                                                                    \
        _low;                                                                                                \
    })
