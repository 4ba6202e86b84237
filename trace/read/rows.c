/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/rows.h"

#define LATE_COLUMNS (_ROW_MAX - _ROW_FIXED)

struct open_page {
    struct open_page *next; /* of the spare ones */
    unsigned unfinished;
    int64_t columns[LATE_COLUMNS * BLOCK_ROWS];
};

int rows_init(struct rows *r, struct spool *spool, struct budget *budget)
{
    *r = (struct rows){.spool = spool, .budget = budget};
    return tape_init(&r->fixed, spool, budget, _ROW_FIXED);
}

void rows_done(struct rows *r)
{
    if (!r->budget)
        return;
    for (size_t i = 0; i < r->pages_cap; i++)
        budget_free(r->budget, r->pages[i], 1, sizeof(*r->pages[i]));
    for (struct open_page *p = r->spare, *next; p; p = next) {
        next = p->next;
        budget_free(r->budget, p, 1, sizeof(*p));
    }
    budget_free(r->budget, r->pages, r->pages_cap, sizeof(*r->pages));
    budget_free(r->budget, r->places, r->places_cap, sizeof(*r->places));
    tape_done(&r->fixed);
    *r = (struct rows){0};
}

static int begin_page(struct rows *r, size_t block)
{
    struct open_page *p = r->spare;

    if (budget_grow(r->budget, &r->pages, &r->pages_cap, block + 1, sizeof(struct open_page *)) < 0 ||
        budget_grow(r->budget, &r->places, &r->places_cap, block + 1, sizeof(*r->places)) < 0)
        return -ENOMEM;
    if (p)
        r->spare = p->next;
    else
        p = budget_new(r->budget, 1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->unfinished = BLOCK_ROWS;
    r->pages[block] = p;
    return 0;
}

static int end_page(struct rows *r, size_t block, size_t n)
{
    struct open_page *p = r->pages[block];

    r->pages[block] = NULL;
    p->next = r->spare;
    r->spare = p;
    return packed_write(r->spool, p->columns, LATE_COLUMNS, n, &r->places[block]);
}

int rows_add(struct rows *r, int64_t ts, uint32_t track, uint32_t group)
{
    uint64_t row = r->fixed.n;

    if (row >= ROWS_MAX)
        return -E2BIG;
    if (row % BLOCK_ROWS == 0 && begin_page(r, row / BLOCK_ROWS) < 0)
        return -ENOMEM;
    *tape_slot(&r->fixed, ROW_TS) = ts;
    *tape_slot(&r->fixed, ROW_TRACK) = track;
    *tape_slot(&r->fixed, ROW_GROUP) = group;
    return tape_next(&r->fixed);
}

int rows_finish(struct rows *r, uint32_t row, int64_t dur, int64_t child)
{
    size_t block = row / BLOCK_ROWS, at = row % BLOCK_ROWS;
    struct open_page *p = r->pages[block];

    p->columns[(ROW_DUR - _ROW_FIXED) * BLOCK_ROWS + at] = dur;
    p->columns[(ROW_CHILD - _ROW_FIXED) * BLOCK_ROWS + at] = child;
    return --p->unfinished == 0 ? end_page(r, block, BLOCK_ROWS) : 0;
}

int rows_flush(struct rows *r)
{
    size_t n = r->fixed.n % BLOCK_ROWS;
    int e = tape_flush(&r->fixed);

    return e == 0 && n > 0 ? end_page(r, r->fixed.n / BLOCK_ROWS, n) : e;
}

int rows_read(struct rows *r, uint64_t first, int64_t *ret_columns, size_t *ret_n)
{
    int e = tape_read(&r->fixed, first, ret_columns, ret_n);

    if (e < 0 || *ret_n == 0)
        return e;
    return packed_read(r->spool, r->places[first / BLOCK_ROWS], LATE_COLUMNS, *ret_n,
                       ret_columns + _ROW_FIXED * BLOCK_ROWS);
}
