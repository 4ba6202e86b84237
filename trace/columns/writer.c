/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns/writer.h"

#include "base/whole.h"
#include "trace/columns/conveyor.h"
#include "trace/columns/layout.h"

#include <errno.h>

/* What is written for one column in one go: large enough that reading a single column seldom meets others. */
#define CHUNK     (256 << 10)
#define OUT_PAGES 16
#define OUT_BYTES (OUT_PAGES * LAYOUT_PAGE)

struct column_buffer {
    int64_t values[BLOCK_ROWS];
    size_t n;

    uint8_t *chunk; /* packed blocks that are not written; CHUNK + BLOCK_BYTES_MAX */
    size_t chunk_size;

    struct layout_block *blocks;
    size_t n_blocks, blocks_cap;
    size_t n_placed; /* the places of the further blocks are still relative to the chunk */
};

struct columns_writer {
    int fd;
    int error;
    uint64_t written; /* bytes in the file; out follows */
    size_t out_size;
    uint32_t *sums; /* of the pages written */
    size_t n_sums, sums_cap;
    /* Packs and writes: while blocks are under way, what it touches is its own (all but values and n of the
     * columns). */
    struct conveyor *conveyor;
    struct column_buffer columns[_LAYOUT_COLUMN_MAX];
    uint8_t out[OUT_BYTES];
};

static void fail(struct columns_writer *w, int error)
{
    if (w->error == 0)
        w->error = error;
}

/* Makes room for one more element. */
static bool grow(struct columns_writer *w, void **items, size_t n, size_t *cap, size_t size)
{
    size_t wanted = *cap ? *cap * 2 : 64;
    void *grown;

    if (n < *cap)
        return true;
    grown = reallocarray(*items, wanted, size);
    if (!grown) {
        fail(w, -ENOMEM);
        return false;
    }
    *items = grown;
    *cap = wanted;
    return true;
}

/* Writes what is in the buffer, which is whole pages but at the end of what the page sums cover. */
static void flush(struct columns_writer *w)
{
    int r;

    for (size_t at = 0; at < w->out_size && w->error == 0; at += LAYOUT_PAGE) {
        if (!grow(w, (void **)&w->sums, w->n_sums, &w->sums_cap, sizeof(w->sums[0])))
            break;
        w->sums[w->n_sums++] = layout_sum(0, w->out + at, MIN(w->out_size - at, LAYOUT_PAGE));
    }
    if (w->error == 0) {
        r = pwrite_whole(w->fd, w->out, w->out_size, w->written);
        if (r < 0)
            fail(w, r);
    }
    w->written += w->out_size;
    w->out_size = 0;
}

static uint64_t place_of_next(const struct columns_writer *w)
{
    return w->written + w->out_size;
}

static void append(struct columns_writer *w, const void *data, size_t size)
{
    const uint8_t *from = data;

    while (size > 0 && w->error == 0) {
        size_t n = MIN(size, OUT_BYTES - w->out_size);

        memcpy(w->out + w->out_size, from, n);
        w->out_size += n;
        from += n;
        size -= n;
        if (w->out_size == OUT_BYTES)
            flush(w);
    }
    if (place_of_next(w) > LAYOUT_PLACE_MAX)
        fail(w, -EFBIG);
}

static void flush_chunk(struct columns_writer *w, struct column_buffer *c)
{
    uint64_t place = place_of_next(w);

    for (; c->n_placed < c->n_blocks; c->n_placed++)
        c->blocks[c->n_placed].packing += place;
    append(w, c->chunk, c->chunk_size);
    c->chunk_size = 0;
}

static void pack(void *arg, unsigned column, const int64_t *values, size_t n)
{
    struct columns_writer *w = arg;
    struct column_buffer *c = &w->columns[column];
    struct block b;
    uint64_t place = c->chunk_size;

    if (w->error || !grow(w, (void **)&c->blocks, c->n_blocks, &c->blocks_cap, sizeof(c->blocks[0])))
        return;
    if (!c->chunk) {
        c->chunk = malloc(CHUNK + BLOCK_BYTES_MAX);
        if (!c->chunk)
            return fail(w, -ENOMEM);
    }
    c->chunk_size += block_pack(values, n, &b, c->chunk + c->chunk_size);
    c->blocks[c->n_blocks++] = (struct layout_block){
        .base = b.base,
        .packing = place | (uint64_t)b.width << LAYOUT_PLACE_BITS | (uint64_t)b.nulls << LAYOUT_NULLS_SHIFT,
    };
    if (c->chunk_size >= CHUNK)
        flush_chunk(w, c);
}

static void flush_block(struct columns_writer *w, unsigned column)
{
    struct column_buffer *c = &w->columns[column];

    conveyor_put(w->conveyor, column, c->values, c->n);
    c->n = 0;
}

static void put(struct columns_writer *w, unsigned column, int64_t value)
{
    struct column_buffer *c = &w->columns[column];

    c->values[c->n++] = value;
    if (__builtin_expect(c->n == BLOCK_ROWS, 0))
        flush_block(w, column);
}

void columns_put(struct columns_writer *w, enum column column, int64_t value)
{
    put(w, column, value);
}

void columns_put_many(struct columns_writer *w, enum column column, const int64_t *values, size_t n)
{
    struct column_buffer *c = &w->columns[column];

    for (size_t some; n > 0; values += some, n -= some) {
        some = MIN(n, BLOCK_ROWS - c->n);
        if (some == BLOCK_ROWS) {
            conveyor_put(w->conveyor, column, values, BLOCK_ROWS);
            continue;
        }
        memcpy(c->values + c->n, values, some * sizeof(values[0]));
        c->n += some;
        if (c->n == BLOCK_ROWS)
            flush_block(w, column);
    }
}

uint64_t columns_put_bytes(struct columns_writer *w, const void *data, size_t size)
{
    uint64_t place;

    conveyor_drain(w->conveyor);
    place = place_of_next(w);
    append(w, data, size);
    return place;
}

void columns_put_text(struct columns_writer *w, const char *text, size_t size)
{
    put(w, LAYOUT_TEXT_PLACE, (int64_t)columns_put_bytes(w, text, size));
    put(w, LAYOUT_TEXT_SIZE, (int64_t)size);
}

static uint64_t rows_of(const struct column_buffer *c)
{
    return c->n_blocks == 0 ? 0 : (c->n_blocks - 1) * (uint64_t)BLOCK_ROWS + (c->n ? c->n : BLOCK_ROWS);
}

/* Packs what is left, keeping the number of rows of the last block in n. */
static void finish_columns(struct columns_writer *w)
{
    for (unsigned i = 0; i < _LAYOUT_COLUMN_MAX; i++) {
        struct column_buffer *c = &w->columns[i];
        size_t left = c->n;

        if (left > 0) {
            flush_block(w, i);
            c->n = left;
        }
    }
    conveyor_drain(w->conveyor);
    for (unsigned i = 0; i < _LAYOUT_COLUMN_MAX; i++)
        flush_chunk(w, &w->columns[i]);
}

static int check_lengths(const struct columns_writer *w)
{
    uint64_t rows[_TABLE_MAX] = {0};

    for (size_t i = 0; i < _COLUMN_MAX; i++) {
        uint64_t n = rows_of(&w->columns[i]), *of_table = &rows[column_specs[i].table];

        if (n > 0 && *of_table > 0 && n != *of_table)
            return -EINVAL;
        *of_table = MAX(*of_table, n);
    }
    return 0;
}

static void append_directory(struct columns_writer *w, struct layout_trailer *t)
{
    struct layout_column records[_LAYOUT_COLUMN_MAX] = {0};

    for (unsigned i = 0; i < _LAYOUT_COLUMN_MAX; i++) {
        struct column_buffer *c = &w->columns[i];
        struct layout_column *record = &records[t->n_columns];

        if (rows_of(c) == 0)
            continue;
        layout_column_name(i, record->name);
        record->kind = i < _COLUMN_MAX ? column_specs[i].kind : KIND_INT;
        record->rows = rows_of(c);
        record->blocks = place_of_next(w);
        append(w, c->blocks, c->n_blocks * sizeof(c->blocks[0]));
        t->n_columns++;
    }
    t->columns = place_of_next(w);
    append(w, records, t->n_columns * sizeof(records[0]));
}

static void append_end(struct columns_writer *w, struct layout_trailer *t)
{
    size_t size;
    int r;

    t->sums = place_of_next(w);
    flush(w);
    t->n_sums = (uint32_t)w->n_sums;
    t->version = COLUMNS_VERSION;
    if (w->error)
        return;

    size = w->n_sums * sizeof(w->sums[0]);
    t->sum = layout_sum(layout_sum(0, w->sums, size), t, offsetof(struct layout_trailer, magic));
    memcpy(t->magic, LAYOUT_END_MAGIC, sizeof(t->magic));
    r = pwrite_whole(w->fd, w->sums, size, w->written);
    if (r == 0)
        r = pwrite_whole(w->fd, t, sizeof(*t), w->written + size);
    if (r < 0)
        fail(w, r);
    w->written += size + sizeof(*t);
}

int columns_writer_new(int fd, struct columns_writer **ret)
{
    struct layout_head head = {.magic = COLUMNS_MAGIC, .version = COLUMNS_VERSION};
    _cleanup_(columns_writer_freep) struct columns_writer *w = calloc(1, sizeof(*w));
    int r;

    if (!w)
        return -ENOMEM;
    w->fd = fd;
    r = conveyor_new(pack, w, &w->conveyor);
    if (r < 0)
        return r;
    append(w, &head, sizeof(head));
    *ret = TAKE_PTR(w);
    return 0;
}

struct columns_writer *columns_writer_free(struct columns_writer *w)
{
    if (!w)
        return NULL;
    conveyor_free(w->conveyor);
    for (size_t i = 0; i < _LAYOUT_COLUMN_MAX; i++) {
        free(w->columns[i].chunk);
        free(w->columns[i].blocks);
    }
    free(w->sums);
    free(w);
    return NULL;
}

int columns_writer_finish(struct columns_writer *w, bool sync, uint64_t *ret_size)
{
    static const uint8_t zeros[LAYOUT_ALIGN];
    struct layout_trailer trailer = {0};

    finish_columns(w);
    if (w->error == 0)
        w->error = check_lengths(w);
    append(w, zeros, -place_of_next(w) % LAYOUT_ALIGN);
    trailer.payload_end = place_of_next(w);
    append_directory(w, &trailer);
    append_end(w, &trailer);
    if (w->error == 0 && sync && fsync(w->fd) < 0)
        w->error = -errno;
    if (w->error == 0 && ret_size)
        *ret_size = w->written;
    return w->error;
}
