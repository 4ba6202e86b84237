/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/parquet/rows.h"

#include "base/array.h"
#include "base/hash_table.h"
#include "trace/parquet/bytes.h"
#include <assert.h>
#include <errno.h>

/* Bytes of texts of a row group; one with more has fewer rows. */
#define TEXTS_MAX (64u << 20)

struct rows_text {
    size_t offset, size;
};

/* Values of one column in the row group; those of rows without a value are undefined. */
struct rows_column {
    int64_t *numbers;
    double *reals;
    uint32_t *codes; /* of texts */
    uint8_t *is_present;
    size_t numbers_cap, reals_cap, codes_cap, present_cap;
    struct bytes bytes;
    struct rows_text *texts;
    size_t n_texts, texts_cap;
    struct hash_table numbers_of; /* of texts */
};

struct parquet_rows {
    const struct parquet_schema *schema;
    struct parquet_writer *w;
    struct rows_column *columns;
    uint32_t n; /* complete rows */
    size_t text_bytes;
    bool is_begun; /* the row after them has room */
    int error;
};

int parquet_rows_new(const struct parquet_schema *schema, parquet_sink sink, void *arg,
                     struct parquet_rows **ret)
{
    struct parquet_rows *r = calloc(1, sizeof(*r));

    if (!r)
        return -ENOMEM;
    r->schema = schema;
    r->columns = calloc(schema->n_columns + 1, sizeof(*r->columns));
    int err = r->columns ? parquet_open(schema, sink, arg, &r->w) : -ENOMEM;
    if (err < 0) {
        parquet_rows_free(r);
        return err;
    }
    *ret = r;
    return 0;
}

struct parquet_rows *parquet_rows_free(struct parquet_rows *r)
{
    if (!r)
        return NULL;
    for (size_t i = 0; r->columns && i < r->schema->n_columns; i++) {
        struct rows_column *c = &r->columns[i];
        free(c->numbers);
        free(c->reals);
        free(c->codes);
        free(c->is_present);
        bytes_done(&c->bytes);
        free(c->texts);
        hash_table_done(&c->numbers_of);
    }
    free(r->columns);
    parquet_close(r->w);
    free(r);
    return NULL;
}

/* -- A row -------------------------------------------------------------------------------------------------- */

static bool rows_reserve(struct rows_column *c, enum parquet_type type, size_t n)
{
    if (!ARRAY_RESERVE(c->is_present, c->present_cap, n))
        return false;
    switch (type) {
    case PARQUET_INT64:
    case PARQUET_MICROS:
        return ARRAY_RESERVE(c->numbers, c->numbers_cap, n);
    case PARQUET_DOUBLE:
        return ARRAY_RESERVE(c->reals, c->reals_cap, n);
    case PARQUET_TEXT:
        return ARRAY_RESERVE(c->codes, c->codes_cap, n);
    }
    return false;
}

/* All values of the row are missing at first. */
static struct rows_column *rows_column_of(struct parquet_rows *r, size_t column)
{
    assert(column < r->schema->n_columns);
    for (size_t i = 0; i < r->schema->n_columns && !r->is_begun && r->error == 0; i++) {
        if (!rows_reserve(&r->columns[i], r->schema->columns[i].type, r->n + 1)) {
            r->error = -ENOMEM;
            break;
        }
        r->columns[i].is_present[r->n] = 0;
        if (r->columns[i].codes)
            r->columns[i].codes[r->n] = PARQUET_NO_TEXT;
    }
    r->is_begun = true;
    return r->error == 0 ? &r->columns[column] : NULL;
}

void parquet_rows_set_number(struct parquet_rows *r, size_t column, int64_t value)
{
    struct rows_column *c = rows_column_of(r, column);

    if (!c)
        return;
    c->numbers[r->n] = value;
    c->is_present[r->n] = 1;
}

void parquet_rows_set_real(struct parquet_rows *r, size_t column, double value)
{
    struct rows_column *c = rows_column_of(r, column);

    if (!c)
        return;
    c->reals[r->n] = value;
    c->is_present[r->n] = 1;
}

struct rows_key {
    const char *p;
    size_t size;
};

static bool rows_text_is(const void *owner, size_t number, const void *key)
{
    const struct rows_column *c = owner;
    const struct rows_key *k = key;
    const struct rows_text *t = &c->texts[number];

    return t->size == k->size && (k->size == 0 || memcmp(c->bytes.p + t->offset, k->p, k->size) == 0);
}

static int64_t rows_number_of_text(struct parquet_rows *r, struct rows_column *c, const char *p, size_t size)
{
    const struct rows_key key = {p, size};

    if (!ARRAY_RESERVE(c->texts, c->texts_cap, c->n_texts + 1))
        return -ENOMEM;
    int64_t number = hash_table_number(&c->numbers_of, hash_bytes(p, size), rows_text_is, c, &key);
    if (number == (int64_t)c->n_texts) {
        c->texts[c->n_texts++] = (struct rows_text){c->bytes.n, size};
        bytes_put(&c->bytes, p, size);
        r->text_bytes += size;
    }
    return c->bytes.failed ? -ENOMEM : number;
}

void parquet_rows_set_text(struct parquet_rows *r, size_t column, const char *p, size_t size)
{
    struct rows_column *c = rows_column_of(r, column);
    int64_t number = c ? rows_number_of_text(r, c, p, size) : 0;

    if (number < 0)
        r->error = (int)number;
    if (!c || number < 0)
        return;
    c->codes[r->n] = (uint32_t)number;
    c->is_present[r->n] = 1;
}

void parquet_rows_set_string(struct parquet_rows *r, size_t column, const char *text)
{
    if (text)
        parquet_rows_set_text(r, column, text, strlen(text));
}

/* -- Row groups --------------------------------------------------------------------------------------------- */

static const char *rows_get_text(const void *arg, uint32_t number, size_t *ret_size)
{
    const struct rows_column *c = arg;

    *ret_size = c->texts[number].size;
    return c->bytes.p ? (const char *)c->bytes.p + c->texts[number].offset : "";
}

static int rows_put_column(struct parquet_rows *r, size_t i)
{
    struct rows_column *c = &r->columns[i];
    const struct parquet_texts texts = {(uint32_t)c->n_texts, rows_get_text, c};

    switch (r->schema->columns[i].type) {
    case PARQUET_INT64:
    case PARQUET_MICROS:
        return parquet_put_numbers(r->w, c->numbers, c->is_present);
    case PARQUET_DOUBLE:
        return parquet_put_reals(r->w, c->reals, c->is_present);
    case PARQUET_TEXT:
        return parquet_put_texts(r->w, c->codes, &texts);
    }
    return -EINVAL;
}

static void rows_forget_texts(struct rows_column *c)
{
    c->bytes.n = 0;
    c->n_texts = 0;
    hash_table_done(&c->numbers_of);
    c->numbers_of = (struct hash_table){0};
}

static int rows_flush(struct parquet_rows *r)
{
    if (r->error == 0 && r->n > 0)
        r->error = parquet_begin_group(r->w, r->n);
    for (size_t i = 0; i < r->schema->n_columns && r->error == 0 && r->n > 0; i++)
        r->error = rows_put_column(r, i);
    for (size_t i = 0; i < r->schema->n_columns; i++)
        rows_forget_texts(&r->columns[i]);
    r->n = 0;
    r->text_bytes = 0;
    return r->error;
}

int parquet_rows_end_row(struct parquet_rows *r)
{
    if (!rows_column_of(r, 0))
        return r->error;
    r->n++;
    r->is_begun = false;
    return r->n == PARQUET_GROUP_ROWS || r->text_bytes >= TEXTS_MAX ? rows_flush(r) : 0;
}

int parquet_rows_finish(struct parquet_rows *r)
{
    return rows_flush(r) < 0 ? r->error : parquet_finish(r->w);
}
