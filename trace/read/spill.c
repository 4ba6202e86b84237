/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/spill.h"

#include "base/fs.h"
#include <errno.h>
#include <pthread.h>

/* -- Bytes ---------------------------------------------------------------------------------------------- */

#define CHUNK ((uint64_t)1 << 20)

/*
 * Chunk i holds the offsets from i * CHUNK. The first chunks stay in memory; the others are consecutive in
 * the file, except for the last, which is collected in tail.
 */
struct spill {
    pthread_mutex_t lock;
    uint8_t **chunks;
    uint64_t chunks_max, n_chunks;
    uint64_t size;
    int fd;
    uint8_t *tail;
    int error;
};

int spill_new(uint64_t memory_max, int spill_fd, struct spill **ret)
{
    _cleanup_(spill_freep) struct spill *s = calloc(1, sizeof(*s));

    if (!s)
        return -ENOMEM;
    pthread_mutex_init(&s->lock, NULL);
    s->fd = spill_fd;
    s->chunks_max = memory_max / CHUNK;
    s->chunks = calloc(s->chunks_max + 1, sizeof(*s->chunks));
    if (!s->chunks)
        return -ENOMEM;
    *ret = TAKE_PTR(s);
    return 0;
}

struct spill *spill_free(struct spill *s)
{
    if (!s)
        return NULL;
    for (uint64_t i = 0; i < s->n_chunks; i++)
        free(s->chunks[i]);
    free(s->chunks);
    free(s->tail);
    pthread_mutex_destroy(&s->lock);
    free(s);
    return NULL;
}

static uint64_t spill_file_offset(const struct spill *s, uint64_t chunk)
{
    return (chunk - s->chunks_max) * CHUNK;
}

/* Returns the bytes of a chunk in memory; NULL: in the file. */
static uint8_t *spill_chunk_memory(const struct spill *s, uint64_t chunk)
{
    if (chunk < s->chunks_max)
        return s->chunks[chunk];
    return chunk == s->size / CHUNK ? s->tail : NULL;
}

static int spill_begin_chunk(struct spill *s, uint64_t chunk)
{
    if (chunk < s->chunks_max) {
        s->chunks[chunk] = malloc(CHUNK + BLOCK_SLACK);
        if (!s->chunks[chunk])
            return -ENOMEM;
        s->n_chunks++;
        return 0;
    }
    if (s->fd < 0)
        return -ENOMEM;
    if (!s->tail)
        s->tail = malloc(CHUNK);
    return s->tail ? 0 : -ENOMEM;
}

static int spill_append(struct spill *s, const uint8_t *p, size_t size)
{
    while (size > 0) {
        uint64_t chunk = s->size / CHUNK, at = s->size % CHUNK;
        size_t n = MIN(size, CHUNK - at);
        int r = at == 0 ? spill_begin_chunk(s, chunk) : 0;

        if (r < 0)
            return r;
        memcpy(spill_chunk_memory(s, chunk) + at, p, n);
        if (at + n == CHUNK && chunk >= s->chunks_max) {
            r = pwrite_full(s->fd, s->tail, CHUNK, spill_file_offset(s, chunk));
            if (r < 0)
                return r;
        }
        s->size += n;
        p += n;
        size -= n;
    }
    return 0;
}

int spill_write(struct spill *s, const void *data, size_t size, uint64_t *ret_offset)
{
    int r;

    pthread_mutex_lock(&s->lock);
    *ret_offset = s->size;
    /* An error leaves an incomplete piece: nothing more is accepted. */
    if (s->error == 0)
        s->error = spill_append(s, data, size);
    r = s->error;
    pthread_mutex_unlock(&s->lock);
    return r;
}

int spill_read(struct spill *s, uint64_t offset, void *data, size_t size)
{
    uint8_t *out = data;

    while (size > 0) {
        uint64_t chunk = offset / CHUNK, at = offset % CHUNK;
        size_t n = MIN(size, CHUNK - at);
        const uint8_t *memory;
        bool there;

        pthread_mutex_lock(&s->lock);
        there = offset + n <= s->size;
        memory = there ? spill_chunk_memory(s, chunk) : NULL;
        if (memory)
            memcpy(out, memory + at, n);
        pthread_mutex_unlock(&s->lock);

        if (!there)
            return -EINVAL;
        if (!memory) {
            ssize_t got = pread_full(s->fd, out, n, spill_file_offset(s, chunk) + at);

            if (got < (ssize_t)n)
                return got < 0 ? (int)got : -EIO;
        }
        out += n;
        offset += n;
        size -= n;
    }
    return 0;
}

/* Returns bytes where they lie, valid as long as the spill, with BLOCK_SLACK readable bytes after them; NULL unless
 * they are in one chunk in memory that is complete, so that no thread writes next to them. */
static const uint8_t *spill_view(struct spill *s, uint64_t offset, size_t size)
{
    uint64_t chunk = offset / CHUNK, at = offset % CHUNK;
    const uint8_t *memory = NULL;

    pthread_mutex_lock(&s->lock);
    if (at + size <= CHUNK && chunk < MIN(s->chunks_max, s->size / CHUNK))
        memory = s->chunks[chunk] + at;
    pthread_mutex_unlock(&s->lock);
    return memory;
}

uint64_t spill_memory(struct spill *s)
{
    uint64_t n;

    pthread_mutex_lock(&s->lock);
    n = (s->n_chunks + (s->tail != NULL)) * CHUNK;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* -- Packed rows, and logs of them ---------------------------------------------------------------------- */

/* A piece consists of the descriptions of its blocks followed by their codes, without padding. */
struct packed_piece {
    struct block blocks[PACKED_COLUMNS_MAX];
    uint8_t codes[PACKED_COLUMNS_MAX * BLOCK_BYTES_MAX];
};

int packed_write(struct spill *s, const int64_t *columns, unsigned width, size_t n, uint64_t *ret_offset)
{
    struct packed_piece piece;
    uint8_t *begin = (uint8_t *)&piece, *at = begin + width * sizeof(struct block);

    for (unsigned i = 0; i < width; i++)
        at += block_pack(columns + (size_t)i * BLOCK_ROWS, n, &piece.blocks[i], at);
    return spill_write(s, begin, (size_t)(at - begin), ret_offset);
}

int packed_read(struct spill *s, uint64_t offset, unsigned width, size_t n, int64_t *ret_columns)
{
    struct block blocks[PACKED_COLUMNS_MAX] = {0};
    uint8_t copy[PACKED_COLUMNS_MAX * BLOCK_BYTES_MAX + BLOCK_SLACK];
    const uint8_t *codes;
    size_t size = 0;
    int r = spill_read(s, offset, blocks, width * sizeof(*blocks));

    if (r < 0)
        return r;
    for (unsigned i = 0; i < width; i++)
        size += n * blocks[i].width;
    codes = spill_view(s, offset + width * sizeof(*blocks), size);
    if (!codes) {
        r = spill_read(s, offset + width * sizeof(*blocks), copy, size);
        codes = copy;
    }
    for (unsigned i = 0; r == 0 && i < width; i++) {
        block_unpack(blocks[i], codes, n, ret_columns + (size_t)i * BLOCK_ROWS);
        codes += n * blocks[i].width;
    }
    return r;
}

int packed_rows_load(struct packed_rows *p, struct spill *s, uint64_t offset, unsigned width, size_t n)
{
    size_t size = 0;
    int r = spill_read(s, offset, p->blocks, width * sizeof(*p->blocks));

    if (r < 0)
        return r;
    p->width = width;
    for (unsigned i = 0; i < width; i++) {
        p->offsets[i] = (uint32_t)size;
        size += n * p->blocks[i].width;
    }
    p->bytes = spill_view(s, offset + width * sizeof(*p->blocks), size);
    if (p->bytes)
        return 0;
    if (size + BLOCK_SLACK > p->cap) {
        uint8_t *copy = realloc(p->copy, size + BLOCK_SLACK);

        if (!copy)
            return -ENOMEM;
        p->copy = copy;
        p->cap = size + BLOCK_SLACK;
    }
    p->bytes = p->copy;
    return spill_read(s, offset + width * sizeof(*p->blocks), p->copy, size);
}

void packed_rows_get(const struct packed_rows *p, unsigned column, size_t first, size_t n, int64_t *ret)
{
    struct block b = p->blocks[column];

    block_unpack(b, p->bytes + p->offsets[column] + first * b.width, n, ret);
}

void packed_rows_done(struct packed_rows *p)
{
    free(p->copy);
    *p = (struct packed_rows){0};
}

int spill_log_init(struct spill_log *t, struct spill *spill, struct budget *budget, unsigned width)
{
    *t = (struct spill_log){.spill = spill, .budget = budget, .width = width};
    t->columns = budget_new(budget, (size_t)width * BLOCK_ROWS, sizeof(*t->columns));
    return t->columns ? 0 : -ENOMEM;
}

void spill_log_done(struct spill_log *t)
{
    BUDGET_FREE(t->budget, t->columns, (size_t)t->width * BLOCK_ROWS);
    BUDGET_FREE(t->budget, t->offsets, t->offsets_cap);
}

int spill_log_flush(struct spill_log *t)
{
    size_t n = t->n - t->n_offsets * BLOCK_ROWS;
    int r;

    if (n == 0)
        return 0;
    r = BUDGET_RESERVE(t->budget, t->offsets, t->offsets_cap, t->n_offsets + 1);
    if (r == 0)
        r = packed_write(t->spill, t->columns, t->width, n, &t->offsets[t->n_offsets]);
    t->n_offsets++;
    return r;
}

int spill_log_read(struct spill_log *t, uint64_t first, int64_t *ret_columns, size_t *ret_n)
{
    size_t n = first < t->n ? (size_t)MIN(t->n - first, (uint64_t)BLOCK_ROWS) : 0;

    *ret_n = n;
    return n > 0 ? packed_read(t->spill, t->offsets[first / BLOCK_ROWS], t->width, n, ret_columns) : 0;
}
