/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which columns of a table a line has room for, and how wide each is. A pure function over widths.
 */
#pragma once

#include "base/importance.h"
#include "base/util.h"

struct table_layout_column {
    unsigned natural; /* of the widest cell or the heading; 0: there is nothing to show */
    unsigned least;   /* to which cells may be shortened; the same as natural where they may not be */
    int importance;
    unsigned width; /* result: 0 where the column is left out */
};

/*
 * Sets the widths so that a row, with a gap between columns, is at most `line` columns wide. Columns of low
 * importance are left out before texts become shorter than is comfortable; then texts are shortened, then
 * columns are left out by importance. False if not even the columns that identify a row fit: then every column has
 * its natural width.
 */
bool layout_columns(struct table_layout_column *columns, size_t n, unsigned gap, unsigned line);
