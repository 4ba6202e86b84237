/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for names that come from several traces, each of which numbers its texts by itself. Names are not
 * copied: the traces must stay open.
 */
#pragma once

#include "base/hash_table.h"
#include "trace/columns/columns.h"

struct name_table {
    struct text *items; /* by number */
    size_t n, cap;
    struct hash_table numbers; /* private */
};

/* The name's number, counted from 0 in order of appearance; -ENOMEM. */
int64_t name_table_number(struct name_table *names, struct text text);
void name_table_done(struct name_table *names);
