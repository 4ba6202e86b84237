/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of an open columnar file, for the code that opens it and the code that reads it.
 */
#pragma once

#include "base/hash_table.h"
#include "trace/columns/columns.h"
#include "trace/columns/layout.h"

#include <pthread.h>
#include <stdatomic.h>

struct column_view {
    const struct layout_block *blocks;
    uint64_t rows;
    uint64_t limit; /* values from here on, and those below zero, are COLUMN_NULL; 0: any value is good */
};

/* The strings by their text, built at the first search. */
struct dictionary {
    pthread_mutex_t lock; /* while the table is being made */
    bool made;
    struct hash_table numbers;
};

struct columns {
    const uint8_t *map;
    uint64_t size;
    uint64_t payload_end, sums_offset;
    const uint32_t *sums;
    /* Results of checks: enum page_state for each of the page sums, and the offset of the first damaged page. */
    _Atomic uint8_t *pages;
    _Atomic int64_t *damage;
    struct column_view views[_LAYOUT_COLUMN_MAX];
    uint64_t table_rows[_TABLE_MAX];
    int64_t meta[_META_MAX];
    struct dictionary *dictionary;
    struct partial *partial; /* NULL: the file is complete */
};

/* Returns whether [offset, offset + size), which lies before the page sums, is as it was written. */
bool columns_check(const struct columns *c, uint64_t offset, uint64_t size);

/* One value; COLUMN_NULL also if its page is damaged. */
int64_t view_get(const struct columns *c, const struct column_view *v, uint64_t row);
