/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small pictures of text: a bar, and a line of values. In eighths of a character where the locale has them
 * (UTF-8), else in whole ones. Pure functions; the caller frees.
 */
#pragma once

#include "base/util.h"

/* A share of 0 to 1 in at most so many columns, not padded. */
char *bar_text(double share, unsigned columns);
/* One character for each value, from 0 to the largest. NULL values are NAN. */
char *sparkline_text(const double *values, size_t n);
