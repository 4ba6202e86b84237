/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/columns/writer.h"

#include "base/array.h"
#include "base/fs.h"
#include "trace/columns/layout.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

/* Blocks for which the worker is woken: waking it costs more than packing a block. A call counts as several. */
#define WAKE_BLOCKS 128
#define CALL_BLOCKS 8
/* Blocks by which the caller waits longer than it has to, so that it is not woken for each. */
#define WAIT_SLACK 32
/* Blocks and calls in flight at most. */
#define ASYNC_BLOCKS 1024

/* Bytes of one column that are written together: large enough that a reader of one column seldom reads others. */
#define CHUNK (256 << 10)
/* Blocks without the attempt of a dictionary after one that had no use for it. */
#define PLAIN_BLOCKS 7
#define OUT_PAGES    16
#define OUT_BYTES    (OUT_PAGES * LAYOUT_PAGE)

struct column_buffer {
    int64_t values[BLOCK_ROWS];
    size_t n;

    uint8_t *chunk; /* packed blocks that are not written; CHUNK + PACKING_BYTES_MAX */
    size_t chunk_size;
    unsigned plain_blocks; /* that are still to be packed before a dictionary is tried again */
    bool is_known;         /* has any value but COLUMN_NULL */

    struct layout_block *blocks;
    size_t n_blocks, blocks_cap;
    size_t n_located; /* the offsets of the further blocks are still relative to the chunk */
};

/* Values, or a call, on their way to the worker. */
struct async_block {
    void (*call)(void *arg); /* NULL: values */
    void *arg;
    unsigned column;
    size_t n;
    int64_t values[BLOCK_ROWS];
};

struct columns_writer {
    int fd;
    bool is_early; /* see columns_write_early() */
    int error;
    uint64_t written; /* bytes in the file; out follows */
    size_t out_size;
    uint32_t *sums; /* of the pages written */
    size_t n_sums, sums_cap;
    struct column_buffer columns[_LAYOUT_COLUMN_MAX];
    uint8_t out[OUT_BYTES];

    /* A thread that packs and writes blocks and makes calls, in order. The caller goes on meanwhile, and waits
     * only where ASYNC_BLOCKS are in flight. While any is, the worker owns all members above but values and n
     * of the columns that the caller puts. If no thread can be created, all is done at once. */
    bool has_worker, ends;
    pthread_t worker;
    pthread_mutex_t lock;
    pthread_cond_t to_do, done;
    atomic_size_t put, worked; /* blocks so far; put is the caller's, worked the worker's */
    atomic_size_t awaited;     /* the caller waits until this number is worked off */
    size_t unannounced;        /* the caller's: blocks since the worker was woken */
    struct async_block blocks[ASYNC_BLOCKS];
};

static void writer_fail(struct columns_writer *w, int error)
{
    if (w->error == 0)
        w->error = error;
}

/* Makes room for one more element. */
static bool writer_grow(struct columns_writer *w, void **items, size_t n, size_t *cap, size_t size)
{
    bool has_capacity = n < *cap || array_grow(items, cap, n + 1, size, false);

    if (!has_capacity)
        writer_fail(w, -ENOMEM);
    return has_capacity;
}

/* Writes what is in the buffer, which is complete pages except at the end of what the page sums cover. */
static void writer_flush(struct columns_writer *w)
{
    int r;

    for (size_t at = 0; at < w->out_size && w->error == 0; at += LAYOUT_PAGE) {
        if (!writer_grow(w, (void **)&w->sums, w->n_sums, &w->sums_cap, sizeof(w->sums[0])))
            break;
        w->sums[w->n_sums++] = layout_sum(0, w->out + at, MIN(w->out_size - at, LAYOUT_PAGE));
    }
    if (w->error == 0) {
        r = pwrite_full(w->fd, w->out, w->out_size, w->written);
        if (r < 0)
            writer_fail(w, r);
        else if (w->is_early)
            sync_file_range(w->fd, (off_t)w->written, (off_t)w->out_size, SYNC_FILE_RANGE_WRITE);
    }
    w->written += w->out_size;
    w->out_size = 0;
}

static uint64_t writer_offset(const struct columns_writer *w)
{
    return w->written + w->out_size;
}

static void writer_append(struct columns_writer *w, const void *data, size_t size)
{
    const uint8_t *from = data;

    while (size > 0 && w->error == 0) {
        size_t n = MIN(size, OUT_BYTES - w->out_size);

        memcpy(w->out + w->out_size, from, n);
        w->out_size += n;
        from += n;
        size -= n;
        if (w->out_size == OUT_BYTES)
            writer_flush(w);
    }
    if (writer_offset(w) > LAYOUT_OFFSET_MAX)
        writer_fail(w, -EFBIG);
}

static void writer_align(struct columns_writer *w, size_t size)
{
    static const uint8_t zeros[LAYOUT_ALIGN];

    writer_append(w, zeros, -writer_offset(w) % size);
}

static void writer_flush_chunk(struct columns_writer *w, struct column_buffer *c)
{
    writer_align(w, PACKING_ALIGN);
    for (; c->n_located < c->n_blocks; c->n_located++)
        c->blocks[c->n_located].packing += writer_offset(w) / PACKING_ALIGN;
    writer_append(w, c->chunk, c->chunk_size);
    c->chunk_size = 0;
}

/* Strings and files' parts are found one by one, which steps from one to the other would slow down. */
static struct packing_hints writer_hints(const struct column_buffer *c, unsigned column)
{
    enum column_kind kind = column < _COLUMN_MAX ? column_specs[column].kind : KIND_INT;

    return (struct packing_hints){
        .steps = column < _COLUMN_MAX,
        .dictionary = (kind == KIND_TEXT || kind == KIND_REAL || kind == KIND_INT) && c->plain_blocks == 0,
        .thousands = kind == KIND_NS,
    };
}

static void writer_pack(struct columns_writer *w, unsigned column, const int64_t *values, size_t n)
{
    struct column_buffer *c = &w->columns[column];
    struct packing_hints hints = writer_hints(c, column);
    uint64_t offset = c->chunk_size;
    struct packing p;

    if (w->error || !writer_grow(w, (void **)&c->blocks, c->n_blocks, &c->blocks_cap, sizeof(c->blocks[0])))
        return;
    if (!c->chunk) {
        c->chunk = malloc(CHUNK + PACKING_BYTES_MAX);
        if (!c->chunk)
            return writer_fail(w, -ENOMEM);
    }
    c->chunk_size += packing_pack(values, n, hints, &p, c->chunk + c->chunk_size);
    c->blocks[c->n_blocks++] = (struct layout_block){.base = p.base, .packing = layout_packing_of(p, offset)};
    c->is_known |= p.range > 0 || !p.nulls;
    if (hints.dictionary && p.range > 0 && p.form < PACKING_DICTIONARY_MIN)
        c->plain_blocks = PLAIN_BLOCKS;
    else if (c->plain_blocks > 0)
        c->plain_blocks--;
    if (c->chunk_size >= CHUNK)
        writer_flush_chunk(w, c);
}

/* Returns the number of blocks so far; the number worked off at the end. */
static size_t writer_wait_for_blocks(struct columns_writer *w, size_t worked)
{
    if (w->put > worked)
        return w->put;
    pthread_mutex_lock(&w->lock);
    while (w->put == worked && !w->ends)
        pthread_cond_wait(&w->to_do, &w->lock);
    pthread_mutex_unlock(&w->lock);
    return w->put;
}

static void *writer_worker_main(void *arg)
{
    struct columns_writer *w = arg;

    for (size_t at = 0, end; (end = writer_wait_for_blocks(w, at)) > at;) {
        for (; at < end; at++) {
            const struct async_block *b = &w->blocks[at % ASYNC_BLOCKS];

            if (b->call)
                b->call(b->arg);
            else
                writer_pack(w, b->column, b->values, b->n);
            w->worked = at + 1;
            if (w->awaited == at + 1) {
                pthread_mutex_lock(&w->lock);
                pthread_cond_signal(&w->done);
                pthread_mutex_unlock(&w->lock);
            }
        }
    }
    return NULL;
}

static void writer_wake(struct columns_writer *w)
{
    w->unannounced = 0;
    pthread_mutex_lock(&w->lock);
    pthread_cond_signal(&w->to_do);
    pthread_mutex_unlock(&w->lock);
}

void columns_wait_for(struct columns_writer *w, size_t call)
{
    if (w->worked >= call)
        return;
    writer_wake(w);
    call = MIN(call + WAIT_SLACK, w->put);
    pthread_mutex_lock(&w->lock);
    w->awaited = call;
    while (w->worked < call)
        pthread_cond_wait(&w->done, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

/* Afterwards the caller may touch all members until the next block. */
static void writer_wait(struct columns_writer *w)
{
    columns_wait_for(w, w->put);
}

/* The worker itself, in a call, and a writer without a worker do everything at once. */
static bool writer_is_direct(const struct columns_writer *w)
{
    return !w->has_worker || pthread_equal(pthread_self(), w->worker);
}

/* Returns room for the next block, which the worker does not look at before writer_hand_over(). */
static struct async_block *writer_room(struct columns_writer *w)
{
    if (w->put - w->worked == ASYNC_BLOCKS)
        columns_wait_for(w, w->put - ASYNC_BLOCKS + 1);
    return &w->blocks[w->put % ASYNC_BLOCKS];
}

static void writer_hand_over(struct columns_writer *w, size_t n_blocks)
{
    w->put++;
    w->unannounced += n_blocks;
    if (w->unannounced >= WAKE_BLOCKS)
        writer_wake(w);
}

/* Hands at most BLOCK_ROWS values over, which are copied. */
static void writer_put_block(struct columns_writer *w, unsigned column, const int64_t *values, size_t n)
{
    if (writer_is_direct(w))
        return writer_pack(w, column, values, n);

    struct async_block *b = writer_room(w);
    b->call = NULL;
    b->column = column;
    b->n = n;
    memcpy(b->values, values, n * sizeof(*values));
    writer_hand_over(w, 1);
}

size_t columns_call(struct columns_writer *w, void (*call)(void *arg), void *arg)
{
    if (writer_is_direct(w)) {
        call(arg);
        return 0;
    }
    struct async_block *b = writer_room(w);
    b->call = call;
    b->arg = arg;
    writer_hand_over(w, CALL_BLOCKS);
    return w->put;
}

static void writer_flush_block(struct columns_writer *w, unsigned column)
{
    struct column_buffer *c = &w->columns[column];

    writer_put_block(w, column, c->values, c->n);
    c->n = 0;
}

void columns_put(struct columns_writer *w, enum column column, int64_t value)
{
    struct column_buffer *c = &w->columns[column];

    c->values[c->n++] = value;
    if (__builtin_expect(c->n == BLOCK_ROWS, 0))
        writer_flush_block(w, column);
}

void columns_put_many(struct columns_writer *w, enum column column, const int64_t *values, size_t n)
{
    struct column_buffer *c = &w->columns[column];

    for (size_t some; n > 0; values += some, n -= some) {
        some = MIN(n, BLOCK_ROWS - c->n);
        if (some == BLOCK_ROWS) {
            writer_put_block(w, column, values, BLOCK_ROWS);
            continue;
        }
        memcpy(c->values + c->n, values, some * sizeof(values[0]));
        c->n += some;
        if (c->n == BLOCK_ROWS)
            writer_flush_block(w, column);
    }
}

uint64_t columns_put_bytes(struct columns_writer *w, const void *data, size_t size)
{
    uint64_t offset;

    writer_wait(w);
    offset = writer_offset(w);
    writer_append(w, data, size);
    return offset;
}

void columns_put_text(struct columns_writer *w, const char *text, size_t size)
{
    columns_put(w, (enum column)LAYOUT_TEXT_OFFSET, (int64_t)columns_put_bytes(w, text, size));
    columns_put(w, (enum column)LAYOUT_TEXT_SIZE, (int64_t)size);
}

static uint64_t buffer_rows(const struct column_buffer *c)
{
    return c->n_blocks == 0 ? 0 : (c->n_blocks - 1) * (uint64_t)BLOCK_ROWS + (c->n ? c->n : BLOCK_ROWS);
}

/* Packs what is left, keeping the number of rows of the last block in n. */
static void writer_finish_columns(struct columns_writer *w)
{
    for (unsigned i = 0; i < _LAYOUT_COLUMN_MAX; i++) {
        struct column_buffer *c = &w->columns[i];
        size_t left = c->n;

        if (left > 0) {
            writer_flush_block(w, i);
            c->n = left;
        }
    }
    writer_wait(w);
    for (unsigned i = 0; i < _LAYOUT_COLUMN_MAX; i++)
        writer_flush_chunk(w, &w->columns[i]);
}

static int writer_check_lengths(const struct columns_writer *w)
{
    uint64_t rows[_TABLE_MAX] = {0};

    for (size_t i = 0; i < _COLUMN_MAX; i++) {
        uint64_t n = buffer_rows(&w->columns[i]), *of_table = &rows[column_specs[i].table];

        if (n > 0 && *of_table > 0 && n != *of_table)
            return -EINVAL;
        *of_table = MAX(*of_table, n);
    }
    return 0;
}

/* Columns without any value are left out, where others tell how many rows the table has. */
static bool writer_leaves_out(const struct columns_writer *w, unsigned column)
{
    bool others = false;

    if (column >= _COLUMN_MAX || w->columns[column].is_known)
        return false;
    for (unsigned i = 0; i < _COLUMN_MAX; i++)
        others |= column_specs[i].table == column_specs[column].table && w->columns[i].is_known;
    return others;
}

static void writer_append_directory(struct columns_writer *w, struct layout_trailer *t)
{
    struct layout_column records[_LAYOUT_COLUMN_MAX] = {0};

    for (unsigned i = 0; i < _LAYOUT_COLUMN_MAX; i++) {
        struct column_buffer *c = &w->columns[i];
        struct layout_column *record = &records[t->n_columns];

        if (buffer_rows(c) == 0 || writer_leaves_out(w, i))
            continue;
        snprintf(record->name, sizeof(record->name), "%s.%s", layout_table_of(i), layout_name_of(i));
        record->kind = i < _COLUMN_MAX ? column_specs[i].kind : KIND_INT;
        record->rows = buffer_rows(c);
        record->blocks = writer_offset(w);
        writer_append(w, c->blocks, c->n_blocks * sizeof(c->blocks[0]));
        t->n_columns++;
    }
    t->columns = writer_offset(w);
    writer_append(w, records, t->n_columns * sizeof(records[0]));
}

static void writer_append_end(struct columns_writer *w, struct layout_trailer *t)
{
    size_t size;
    int r;

    t->sums = writer_offset(w);
    writer_flush(w);
    t->n_sums = (uint32_t)w->n_sums;
    t->version = COLUMNS_VERSION;
    if (w->error)
        return;

    size = w->n_sums * sizeof(w->sums[0]);
    t->sum = layout_sum(layout_sum(0, w->sums, size), t, offsetof(struct layout_trailer, magic));
    memcpy(t->magic, LAYOUT_END_MAGIC, sizeof(t->magic));
    r = pwrite_full(w->fd, w->sums, size, w->written);
    if (r == 0)
        r = pwrite_full(w->fd, t, sizeof(*t), w->written + size);
    if (r < 0)
        writer_fail(w, r);
    w->written += size + sizeof(*t);
}

int columns_writer_new(int fd, struct columns_writer **ret)
{
    struct layout_head head = {.magic = COLUMNS_MAGIC, .version = COLUMNS_VERSION};
    _cleanup_(columns_writer_freep) struct columns_writer *w = calloc(1, sizeof(*w));

    if (!w)
        return -ENOMEM;
    w->fd = fd;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->to_do, NULL);
    pthread_cond_init(&w->done, NULL);
    w->has_worker = pthread_create(&w->worker, NULL, writer_worker_main, w) == 0;
    writer_append(w, &head, sizeof(head));
    *ret = TAKE_PTR(w);
    return 0;
}

void columns_write_early(struct columns_writer *w)
{
    w->is_early = true;
}

struct columns_writer *columns_writer_free(struct columns_writer *w)
{
    if (!w)
        return NULL;
    /* Blocks in flight are written first. */
    if (w->has_worker) {
        pthread_mutex_lock(&w->lock);
        w->ends = true;
        pthread_cond_signal(&w->to_do);
        pthread_mutex_unlock(&w->lock);
        pthread_join(w->worker, NULL);
    }
    pthread_cond_destroy(&w->done);
    pthread_cond_destroy(&w->to_do);
    pthread_mutex_destroy(&w->lock);
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
    struct layout_trailer trailer = {0};

    writer_finish_columns(w);
    if (w->error == 0)
        w->error = writer_check_lengths(w);
    writer_align(w, LAYOUT_ALIGN);
    trailer.payload_end = writer_offset(w);
    writer_append_directory(w, &trailer);
    writer_append_end(w, &trailer);
    if (w->error == 0 && sync && fsync(w->fd) < 0)
        w->error = -errno;
    if (w->error == 0 && ret_size)
        *ret_size = w->written;
    return w->error;
}
