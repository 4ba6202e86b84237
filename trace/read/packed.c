/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/packed.h"

/* A piece is the descriptions of its blocks and then their codes, without anything between them. */
struct piece {
    struct block blocks[PACKED_COLUMNS_MAX];
    uint8_t codes[PACKED_COLUMNS_MAX * BLOCK_BYTES_MAX];
};

int packed_write(struct spool *s, const int64_t *columns, unsigned width, size_t n, uint64_t *ret_place)
{
    struct piece piece;
    uint8_t *begin = (uint8_t *)&piece, *at = begin + width * sizeof(struct block);

    for (unsigned i = 0; i < width; i++)
        at += block_pack(columns + (size_t)i * BLOCK_ROWS, n, &piece.blocks[i], at);
    return spool_write(s, begin, (size_t)(at - begin), ret_place);
}

int packed_read(struct spool *s, uint64_t place, unsigned width, size_t n, int64_t *ret_columns)
{
    struct block blocks[PACKED_COLUMNS_MAX];
    uint8_t codes[PACKED_COLUMNS_MAX * BLOCK_BYTES_MAX + BLOCK_SLACK];
    size_t size = 0, at = 0;
    int r = spool_read(s, place, blocks, width * sizeof(*blocks));

    if (r < 0)
        return r;
    for (unsigned i = 0; i < width; i++)
        size += n * blocks[i].width;
    r = spool_read(s, place + width * sizeof(*blocks), codes, size);
    for (unsigned i = 0; r == 0 && i < width; i++) {
        block_unpack(blocks[i], codes + at, n, ret_columns + (size_t)i * BLOCK_ROWS);
        at += n * blocks[i].width;
    }
    return r;
}

int packed_rows_load(struct packed_rows *p, struct spool *s, uint64_t place, unsigned width, size_t n)
{
    size_t size = 0;
    int r = spool_read(s, place, p->blocks, width * sizeof(*p->blocks));

    if (r < 0)
        return r;
    p->width = width;
    for (unsigned i = 0; i < width; i++) {
        p->offsets[i] = (uint32_t)size;
        size += n * p->blocks[i].width;
    }
    if (size + BLOCK_SLACK > p->cap) {
        uint8_t *bytes = realloc(p->bytes, size + BLOCK_SLACK);

        if (!bytes)
            return -ENOMEM;
        p->bytes = bytes;
        p->cap = size + BLOCK_SLACK;
    }
    return spool_read(s, place + width * sizeof(*p->blocks), p->bytes, size);
}

void packed_rows_get(const struct packed_rows *p, unsigned column, size_t first, size_t n, int64_t *ret)
{
    struct block b = p->blocks[column];

    block_unpack(b, p->bytes + p->offsets[column] + first * b.width, n, ret);
}

void packed_rows_done(struct packed_rows *p)
{
    free(p->bytes);
    *p = (struct packed_rows){0};
}

int tape_init(struct tape *t, struct spool *spool, struct budget *budget, unsigned width)
{
    *t = (struct tape){.spool = spool, .budget = budget, .width = width};
    t->columns = budget_new(budget, (size_t)width * BLOCK_ROWS, sizeof(*t->columns));
    return t->columns ? 0 : -ENOMEM;
}

void tape_done(struct tape *t)
{
    if (!t->budget)
        return;
    budget_free(t->budget, t->columns, (size_t)t->width * BLOCK_ROWS, sizeof(*t->columns));
    budget_free(t->budget, t->places, t->places_cap, sizeof(*t->places));
    *t = (struct tape){0};
}

int tape_flush(struct tape *t)
{
    size_t n = t->n - t->n_places * BLOCK_ROWS;
    int r;

    if (n == 0)
        return 0;
    r = budget_grow(t->budget, &t->places, &t->places_cap, t->n_places + 1, sizeof(*t->places));
    if (r == 0)
        r = packed_write(t->spool, t->columns, t->width, n, &t->places[t->n_places]);
    t->n_places++;
    return r;
}

int tape_read(struct tape *t, uint64_t first, int64_t *ret_columns, size_t *ret_n)
{
    size_t n = first < t->n ? (size_t)MIN(t->n - first, (uint64_t)BLOCK_ROWS) : 0;

    *ret_n = n;
    return n > 0 ? packed_read(t->spool, t->places[first / BLOCK_ROWS], t->width, n, ret_columns) : 0;
}
