/* SPDX-License-Identifier: Apache-2.0 */
/* Common questions about a trace, as SQL with a name. */
#pragma once

#include "client/cli/table.h"

struct named_query {
    const char *name, *about, *sql;
};

extern const struct named_query named_queries[];
extern const size_t named_queries_count;

/* NULL: unknown. */
const struct named_query *named_query_find(const char *name);
/* The remedy for an unknown name, after the name that it is nearest to. The caller frees. */
char *named_query_remedy(const char *name, const char *remedy);
/* A table of them: its columns, and their rows. */
#define N_NAMED_QUERY_COLUMNS 2
extern const struct table_column named_query_columns[N_NAMED_QUERY_COLUMNS];
void named_queries_add(struct table *table);
