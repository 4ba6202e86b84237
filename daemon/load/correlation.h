/* SPDX-License-Identifier: Apache-2.0 */
/* How much two figures of the same requests go together, -1 to 1. Pure. NAN where either does not vary or
 * fewer than CORRELATION_MIN pairs are known. */
#pragma once

#include <stddef.h>

#define CORRELATION_MIN 3

/* Pearson's r: how well a line fits. */
double correlation(const double *x, const double *y, size_t n);
/* Spearman's rho: Pearson's r of the ranks, equal values sharing the mean of theirs. Any rising curve is 1.
 */
double rank_correlation(const double *x, const double *y, size_t n);
