/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables and columns of a connection, for lists and for suggestions of names.
 */
#pragma once

#include "base/util.h"

#include <sqlite3.h>

struct schema_table {
    char *name;
    char **columns, **types; /* type "" where the column has none */
    size_t n_columns;
};

struct schema {
    struct schema_table *tables;
    size_t n_tables;
    /* Every table, column, function and keyword once, in alphabetical order. */
    const char **words;
    size_t n_words;
};

struct schema *schema_read(sqlite3 *db);
struct schema *schema_free(struct schema *s);
DEFINE_CLEANUP(struct schema *, schema_free)

/* NULL: unknown. */
const struct schema_table *schema_find(const struct schema *s, const char *name);
