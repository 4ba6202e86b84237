/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a columnar file, mapped read-only. The file is not trusted: the records of its columns are checked when it
 * is opened, each page against its checksum when it is first touched, the entry of a block whenever it is used, and
 * every row and string number on its way out. Only files that profd or profctl finished may be opened: one that is
 * cut while it is mapped ends the process (SIGBUS).
 *
 * Once opened, everything is safe to call from several threads. Rows outside a table read as COLUMN_NULL.
 * A page that does not match its checksum reads as COLUMN_NULL, and columns_damage() reports it from then on:
 * callers that return results check it at the end.
 */
#pragma once

#include "base/util.h"
#include "trace/columns/block.h"

struct columns;

struct text {
    const char *p;
    size_t size; /* p is not terminated */
};

static inline bool text_equal(struct text a, struct text b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.p, b.p, a.size) == 0);
}

static inline bool text_is(struct text text, const char *word)
{
    return text_equal(text, (struct text){word, strlen(word)});
}

/* fd stays the caller's and may be closed afterwards. -EBADMSG with a reason (to be freed) where it is no
 * sound columnar file, -EPROTONOSUPPORT where it is of another version. */
int columns_open(int fd, struct columns **ret, char **ret_reason);
struct columns *columns_close(struct columns *c);

/* How missing parts of a file come into it. read() writes [offset, offset + size) into the file of the descriptor; a
 * negative errno value. Called by one thread at a time, of any. */
struct columns_fetch {
    int (*read)(void *arg, uint64_t offset, uint64_t size);
    void *arg;
};
/* The same of a file of which this process has only a part, none at first: pages are fetched when they are first
 * needed, a quarter of a MiB ahead, and one that cannot be fetched is damaged. size: of the complete file. fd must stay
 * open until columns_close(). Also the errors of the fetch. */
int columns_open_partial(int fd, uint64_t size, const struct columns_fetch *fetch, struct columns **ret,
                         char **ret_reason);

uint64_t columns_rows(const struct columns *c, enum column_table table);
/* A row number of another table that is out of its range, and a text number out of the dictionary's, read as
 * COLUMN_NULL. */
int64_t columns_get(const struct columns *c, enum column column, uint64_t row);
/* Values [first, first + n) into ret, n at most BLOCK_ROWS, first a multiple of it; fewer than n are there at
 * the end of a table. Much faster than one by one. Returns how many. Range checks as above. */
size_t columns_block(const struct columns *c, enum column column, uint64_t first, size_t n, int64_t *ret);
/* The same of a part of a block: at most COLUMNS_PART_ROWS values, first a multiple of that. */
#define COLUMNS_PART_ROWS 64
size_t columns_part(const struct columns *c, enum column column, uint64_t first, size_t n, int64_t *ret);
/* Values [first, first + n) into ret, for any first and n; fewer are there at the end of a table. Returns how
 * many. */
size_t columns_values(const struct columns *c, enum column column, uint64_t first, size_t n, int64_t *ret);
/* The same as 32-bit numbers, in half the memory: meant for strings and rows of other tables. A value outside
 * of 0 to COLUMN_NO_CODE - 1 reads as COLUMN_NO_CODE, COLUMN_NULL among them. */
#define COLUMN_NO_CODE UINT32_MAX
size_t columns_codes(const struct columns *c, enum column column, uint64_t first, size_t n, uint32_t *ret);

/* The zone map: smallest and largest value that the block with this row can hold, without touching its
 * payload; false where it can hold anything. A block may hold fewer. */
bool columns_block_range(const struct columns *c, enum column column, uint64_t row, int64_t *ret_min,
                         int64_t *ret_max);
/* By the zone map, the first row of [row, end) whose block can hold a value of min to max: row itself or the
 * first row of a later block; end if there is none. COLUMN_NULL does not count as a value. */
uint64_t columns_next_in_range(const struct columns *c, enum column column, uint64_t row, uint64_t end,
                               int64_t min, int64_t max);

uint32_t columns_texts(const struct columns *c);
/* {"", 0} for COLUMN_NULL and whatever is no string's number. */
struct text columns_text(const struct columns *c, int64_t number);
/* The string's number, or -1: a search through a hash table made at the first call. */
int64_t columns_find_text(const struct columns *c, const char *p, size_t size);
/* A part of the file that a column refers to, NULL where it does not lie within it. */
const uint8_t *columns_bytes(const struct columns *c, uint64_t offset, size_t size);

int64_t columns_meta(const struct columns *c, enum meta_key key); /* COLUMN_NULL where unknown */
struct text columns_meta_text(const struct columns *c, enum meta_key key);

/* First row of a sorted column whose value is >= value (all NULL-free); binary search over blocks. */
uint64_t columns_lower_bound(const struct columns *c, enum column column, int64_t value);

/* Offset of the first damaged page; -1: none was found. */
int64_t columns_damage(const struct columns *c);
uint64_t columns_size(const struct columns *c);
/* The sum of its trailer: of other contents it is most likely another. */
uint32_t columns_sum(const struct columns *c);

DEFINE_CLEANUP(struct columns *, columns_close)
