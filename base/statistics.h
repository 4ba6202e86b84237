/* SPDX-License-Identifier: Apache-2.0 */
/* Of sorted values: what a report says of many instances. Pure functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void sort_ns(int64_t *values, size_t n);
/* The value that `percent` of n sorted values do not exceed (nearest rank); 0 of none. */
int64_t percentile(const int64_t *sorted, uint64_t n, unsigned percent);
/* Whether a value lies apart from n sorted ones: further from their median than 3.5 times what is usual
 * (1.4826 times the median distance; Iglewicz and Hoaglin's modified z-score), and than `matters`. */
bool is_outlier(const int64_t *sorted, size_t n, int64_t value, int64_t matters);
