/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aligned tables by libsmartcols. Cells are copied and cleaned; an absent one (NULL) or empty one shows as
 * "-", in a column that is verbatim as "NULL" and as nothing.
 *
 * On a terminal that is too narrow, addresses lose their "http://", columns that can be spared are left out,
 * the last one first, and those that may be shortened are, so that a row stays on its line; elsewhere nothing
 * is ever cut.
 */
#pragma once

#include "client/text/screen.h"

enum {
    COLUMN_RIGHT = 1 << 0,
    COLUMN_SHORTEN = 1 << 1,
    COLUMN_URL = 1 << 2,
    COLUMN_SPARE = 1 << 3,
    COLUMN_VERBATIM = 1 << 4,
};

struct table_column {
    const char *name;
    unsigned flags;
};

struct table;

struct table *table_new(const struct table_column *columns, size_t n_columns, bool with_heading);
struct table *table_free(struct table *t);
DEFINE_CLEANUP(struct table *, table_free)

/* One cell for each column. */
void table_add(struct table *t, const char *const *cells);
/* Colours a cell of the row that was added last. */
void table_colour(struct table *t, size_t column, enum colour c);
/* Whether a row stays on its line, shortened as far as may be. */
bool table_fits(const struct table *t, const struct screen *s);
void table_print(struct table *t, const struct screen *s);
/* The same as text, each line behind an indent. The caller frees it. */
char *table_text(struct table *t, const struct screen *s, unsigned indent);
