/* SPDX-License-Identifier: Apache-2.0 */
/* Questions that everybody asks of a trace, as SQL with a name. */
#pragma once

#include "client/text/screen.h"

struct named_query {
    const char *name, *about, *sql;
};

extern const struct named_query named_queries[];
extern const size_t named_queries_count;

/* NULL where there is none. */
const struct named_query *named_query_find(const char *name);
/* The one that a misspelt name is nearest to, or NULL. */
const char *named_query_nearest(const char *name);
void named_queries_print(const struct screen *out, bool with_heading);
