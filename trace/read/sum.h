/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of times from an untrusted file: they saturate at the largest number instead of wrapping. */
#pragma once

#include <stdint.h>

static inline int64_t sum_of(int64_t a, int64_t b)
{
    int64_t c;

    if (__builtin_add_overflow(a, b, &c))
        return b > 0 ? INT64_MAX : INT64_MIN + 1;
    return c;
}

static inline int64_t difference_of(int64_t a, int64_t b)
{
    int64_t c;

    if (__builtin_sub_overflow(a, b, &c))
        return b < 0 ? INT64_MAX : INT64_MIN + 1;
    return c;
}
