/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/parquet/writer.h"

#include "trace/parquet/bounds.h"
#include "trace/parquet/dictionary.h"
#include "trace/parquet/encoding.h"
#include "trace/parquet/footer.h"
#include <assert.h>
#include <errno.h>
#include <isa-l/crc.h>
#include <stdio.h>
#include <zstd.h>

/* Level of zstd: at 6, files of slices are 1 to 3 % smaller and take a quarter more time; at 1, 6 to 8 % larger. */
#define ZSTD_LEVEL 3

struct parquet_writer {
    const struct parquet_schema *schema;
    parquet_sink sink;
    void *arg;
    int error;
    uint64_t offset; /* bytes sent */
    struct row_group *groups;
    size_t n_groups, groups_cap;
    size_t column; /* of the last row group, the next one */
    /* Reused for each column. */
    struct bytes page, packed, head;
    struct column_dictionary dictionary;
    int64_t *numbers;  /* values that are present */
    uint32_t *codes;   /* their numbers in the dictionary */
    uint32_t *levels;  /* definition levels */
    uint8_t *presence; /* of texts */
    size_t numbers_cap, codes_cap, levels_cap, presence_cap;
    ZSTD_CCtx *zstd;
};

/* Values of a column without the missing ones. */
struct chunk_values {
    uint32_t n;
    const int64_t *numbers; /* of doubles, their bits */
    const uint32_t *codes;  /* in the dictionary, which has n_entries; NULL: none */
    uint32_t n_entries;
};

/* -- Sink --------------------------------------------------------------------------------------------------- */

static int writer_fail(struct parquet_writer *w, int error)
{
    if (w->error == 0)
        w->error = error;
    return w->error;
}

static int writer_send(struct parquet_writer *w, const struct bytes *b)
{
    if (b->failed)
        return writer_fail(w, -ENOMEM);
    if (w->error == 0 && b->n > 0)
        writer_fail(w, w->sink(w->arg, b->p, b->n));
    w->offset += b->n;
    return w->error;
}

int parquet_file_sink(void *file, const void *data, size_t size)
{
    errno = 0;
    if (fwrite(data, 1, size, file) == size)
        return 0;
    return errno > 0 ? -errno : -EIO;
}

int parquet_open(const struct parquet_schema *schema, parquet_sink sink, void *arg,
                 struct parquet_writer **ret)
{
    struct parquet_writer *w = calloc(1, sizeof(*w));

    if (!w)
        return -ENOMEM;
    *w = (struct parquet_writer){.schema = schema, .sink = sink, .arg = arg, .zstd = ZSTD_createCCtx()};
    bytes_put(&w->head, "PAR1", 4);
    int r = w->zstd ? writer_send(w, &w->head) : -ENOMEM;
    if (r < 0) {
        parquet_close(w);
        return r;
    }
    *ret = w;
    return 0;
}

struct parquet_writer *parquet_close(struct parquet_writer *w)
{
    if (!w)
        return NULL;
    for (size_t i = 0; i < w->n_groups; i++) {
        for (size_t k = 0; k < w->schema->n_columns; k++) {
            free(w->groups[i].chunks[k].min.p);
            free(w->groups[i].chunks[k].max.p);
        }
        free(w->groups[i].chunks);
    }
    free(w->groups);
    bytes_done(&w->page);
    bytes_done(&w->packed);
    bytes_done(&w->head);
    column_dictionary_done(&w->dictionary);
    free(w->numbers);
    free(w->codes);
    free(w->levels);
    free(w->presence);
    ZSTD_freeCCtx(w->zstd);
    free(w);
    return NULL;
}

/* -- Pages -------------------------------------------------------------------------------------------------- */

/* Compresses the bytes of w->page and sends them behind their head. */
static int writer_send_page(struct parquet_writer *w, struct column_chunk *chunk, enum page_type type,
                            enum page_encoding encoding, uint32_t values)
{
    size_t bound = ZSTD_compressBound(w->page.n);

    w->packed.n = w->head.n = 0;
    uint8_t *packed = w->page.failed ? NULL : bytes_room(&w->packed, bound);
    if (!packed)
        return writer_fail(w, -ENOMEM);
    size_t size = ZSTD_compressCCtx(w->zstd, packed, bound, w->page.p, w->page.n, ZSTD_LEVEL);
    if (ZSTD_isError(size))
        return writer_fail(w, -ENOMEM);
    /* Thrift's sizes are signed. */
    if (w->page.n > INT32_MAX || size > INT32_MAX)
        return writer_fail(w, -EFBIG);
    w->packed.n = size;
    footer_put_page(&w->head, &(struct page_head){.type = type,
                                                  .encoding = encoding,
                                                  .values = values,
                                                  .size = (uint32_t)w->page.n,
                                                  .compressed_size = (uint32_t)size,
                                                  .crc = crc32_gzip_refl(0, packed, size)});
    chunk->size += w->head.n + w->page.n;
    chunk->packed_size += w->head.n + size;
    writer_send(w, &w->head);
    return writer_send(w, &w->packed);
}

/* Definition levels: 1 where a value is present. */
static void writer_put_levels(struct parquet_writer *w, const uint8_t *is_present, uint32_t rows,
                              uint32_t present)
{
    size_t begin = w->page.n;

    bytes_put_fixed(&w->page, 0, sizeof(uint32_t));
    if (present == rows || present == 0) {
        encoding_put_repeated(&w->page, 1, present > 0, rows);
    } else {
        for (uint32_t i = 0; i < rows; i++)
            w->levels[i] = is_present[i] != 0;
        encoding_put_hybrid(&w->page, 1, w->levels, rows);
    }
    if (w->page.failed)
        return;
    size_t end = w->page.n;
    w->page.n = begin;
    bytes_put_fixed(&w->page, end - begin - sizeof(uint32_t), sizeof(uint32_t));
    w->page.n = end;
}

/* The data page behind its levels, which w->page has. */
static int writer_send_data(struct parquet_writer *w, struct column_chunk *chunk,
                            const struct chunk_values *v, uint32_t rows)
{
    const struct parquet_column *column = &w->schema->columns[w->column];

    if (v->codes) {
        unsigned width = encoding_width(v->n_entries - 1);
        chunk->encoding = ENCODING_DICTIONARY;
        bytes_put_byte(&w->page, (uint8_t)width);
        encoding_put_hybrid(&w->page, width, v->codes, v->n);
    } else if (column->encoding == PARQUET_DIFFERENCE && v->n > 0) {
        chunk->encoding = ENCODING_DELTA;
        encoding_put_delta(&w->page, v->numbers, v->n);
    } else {
        chunk->encoding = ENCODING_PLAIN;
        encoding_put_numbers(&w->page, v->numbers, v->n);
    }
    return writer_send_page(w, chunk, PAGE_DATA, chunk->encoding, rows);
}

/* -- Columns ------------------------------------------------------------------------------------------------ */

int parquet_begin_group(struct parquet_writer *w, uint32_t rows)
{
    if (w->error < 0)
        return w->error;
    assert(rows > 0 && (w->n_groups == 0 || w->column == w->schema->n_columns));
    if (!ARRAY_RESERVE(w->groups, w->groups_cap, w->n_groups + 1) ||
        !ARRAY_RESERVE(w->numbers, w->numbers_cap, rows) || !ARRAY_RESERVE(w->codes, w->codes_cap, rows) ||
        !ARRAY_RESERVE(w->levels, w->levels_cap, rows) || !ARRAY_RESERVE(w->presence, w->presence_cap, rows))
        return writer_fail(w, -ENOMEM);
    struct row_group group = {.rows = rows, .chunks = calloc(w->schema->n_columns, sizeof(*group.chunks))};
    if (!group.chunks)
        return writer_fail(w, -ENOMEM);
    w->groups[w->n_groups++] = group;
    w->column = 0;
    return 0;
}

/* The next column of the row group, with its offset; its type is what the caller passes. */
static struct column_chunk *writer_begin_chunk(struct parquet_writer *w, const struct row_group **ret_group)
{
    struct row_group *group = &w->groups[w->n_groups - 1];

    assert(w->column < w->schema->n_columns);
    *ret_group = group;
    w->page.n = 0;
    group->chunks[w->column].offset = w->offset;
    return &group->chunks[w->column];
}

/* The dictionary page is sent before the data page, for whose values w->codes are the entries. */
static int writer_send_dictionary(struct parquet_writer *w, struct column_chunk *chunk)
{
    int r = writer_send_page(w, chunk, PAGE_DICTIONARY, ENCODING_PLAIN, w->dictionary.n);

    chunk->dictionary_size = chunk->packed_size;
    w->page.n = 0;
    return r;
}

static int writer_end_chunk(struct parquet_writer *w, struct column_chunk *chunk,
                            const struct row_group *group, const uint8_t *is_present,
                            const struct chunk_values *v)
{
    bool is_required = w->schema->columns[w->column].is_required;

    chunk->missing = group->rows - v->n;
    assert(!is_required || chunk->missing == 0);
    if (!is_required)
        writer_put_levels(w, is_present, group->rows, v->n);
    int r = writer_send_data(w, chunk, v, group->rows);
    w->column++;
    return r;
}

/* Numbers, or the bits of doubles; those that are present are moved together in w->numbers, in which they may be. */
static int writer_put_values(struct parquet_writer *w, const int64_t *values, const uint8_t *is_present)
{
    const struct row_group *group;
    struct column_chunk *chunk = writer_begin_chunk(w, &group);
    const struct parquet_column *column = &w->schema->columns[w->column];
    struct chunk_values v = {.n = group->rows, .numbers = values};

    if (is_present) {
        v = (struct chunk_values){.numbers = w->numbers};
        for (uint32_t i = 0; i < group->rows; i++) {
            w->numbers[v.n] = values[i];
            v.n += is_present[i] != 0;
        }
    }
    bool is_double = column->type == PARQUET_DOUBLE;
    int r = is_double ? bounds_set_reals(chunk, v.numbers, v.n) : bounds_set_numbers(chunk, v.numbers, v.n);
    if (r == 0 && v.n > 0 && column->encoding == PARQUET_PLAIN)
        r = column_dictionary_numbers(&w->dictionary, v.numbers, v.n, w->codes);
    if (r < 0)
        return writer_fail(w, r);
    if (r > 0) {
        v.codes = w->codes;
        v.n_entries = w->dictionary.n;
        encoding_put_numbers(&w->page, w->dictionary.values, w->dictionary.n);
        r = writer_send_dictionary(w, chunk);
    }
    return r < 0 ? r : writer_end_chunk(w, chunk, group, is_present, &v);
}

int parquet_put_numbers(struct parquet_writer *w, const int64_t *values, const uint8_t *is_present)
{
    if (w->error < 0)
        return w->error;
    assert(w->schema->columns[w->column].type <= PARQUET_MICROS);
    return writer_put_values(w, values, is_present);
}

int parquet_put_reals(struct parquet_writer *w, const double *values, const uint8_t *is_present)
{
    if (w->error < 0)
        return w->error;
    assert(w->schema->columns[w->column].type == PARQUET_DOUBLE);
    memcpy(w->numbers, values, w->groups[w->n_groups - 1].rows * sizeof(*values));
    return writer_put_values(w, w->numbers, is_present);
}

static void writer_put_entries(struct parquet_writer *w, const struct parquet_texts *texts)
{
    for (uint32_t i = 0; i < w->dictionary.n; i++) {
        size_t size;
        const char *p = texts->get(texts->arg, w->dictionary.used[i], &size);
        bytes_put_fixed(&w->page, size, sizeof(uint32_t));
        bytes_put(&w->page, p, size);
    }
}

int parquet_put_texts(struct parquet_writer *w, const uint32_t *numbers, const struct parquet_texts *texts)
{
    const struct row_group *group;
    struct chunk_values v = {0};

    if (w->error < 0)
        return w->error;
    assert(w->schema->columns[w->column].type == PARQUET_TEXT);
    struct column_chunk *chunk = writer_begin_chunk(w, &group);
    for (uint32_t i = 0; i < group->rows; i++) {
        bool is_present = numbers[i] < texts->n;
        w->presence[i] = is_present;
        w->codes[v.n] = numbers[i];
        v.n += is_present;
    }
    int r = column_dictionary_texts(&w->dictionary, w->codes, v.n, texts->n, w->codes);
    if (r == 0)
        r = bounds_set_texts(chunk, texts, w->dictionary.used, w->dictionary.n);
    if (r < 0)
        return writer_fail(w, r);
    if (v.n > 0) {
        v.codes = w->codes;
        v.n_entries = w->dictionary.n;
        writer_put_entries(w, texts);
        r = writer_send_dictionary(w, chunk);
    }
    return r < 0 ? r : writer_end_chunk(w, chunk, group, w->presence, &v);
}

int parquet_finish(struct parquet_writer *w)
{
    if (w->error < 0)
        return w->error;
    assert(w->n_groups == 0 || w->column == w->schema->n_columns);
    w->page.n = 0;
    footer_put(&w->page, w->schema, w->groups, w->n_groups);
    return writer_send(w, &w->page);
}
