/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of any columns and values, made from bytes, which tests write and read back. Used by the unit test and by the
 * fuzz target.
 */
#pragma once

#include "tests/unit/parquet-decoder.h"
#include "trace/parquet/rows.h"

#define TABLE_COLUMNS_MAX 40

static const char *const table_names[TABLE_COLUMNS_MAX] = {
    "c0",  "c1",  "c2",  "c3",  "c4",  "c5",  "c6",  "c7",  "c8",  "c9",  "c10", "c11", "c12", "c13",
    "c14", "c15", "c16", "c17", "c18", "c19", "c20", "c21", "c22", "c23", "c24", "c25", "c26", "c27",
    "c28", "c29", "c30", "c31", "c32", "c33", "c34", "c35", "c36", "c37", "c38", "c39"};

struct table_text {
    const char *p;
    size_t size;
};

struct table_values {
    int64_t *numbers; /* or bits of doubles */
    double *reals;
    uint8_t *is_present;
    uint32_t *texts;
    bool omits_presence; /* is passed as NULL */
};

struct test_table {
    struct parquet_column columns[TABLE_COLUMNS_MAX];
    struct table_values values[TABLE_COLUMNS_MAX];
    size_t n_columns, rows;
    const struct table_text *texts;
    uint32_t n_texts;
};

/* Values may be set between this and test_table_check(); all are present. */
static inline void test_table_add(struct test_table *t, enum parquet_type type,
                                  enum parquet_encoding encoding, bool is_required)
{
    struct table_values *v = &t->values[t->n_columns];

    t->columns[t->n_columns] = (struct parquet_column){table_names[t->n_columns], (int32_t)t->n_columns + 1,
                                                       type, encoding, is_required};
    *v = (struct table_values){calloc(t->rows + 1, sizeof(*v->numbers)),
                               calloc(t->rows + 1, sizeof(*v->reals)), malloc(t->rows + 1),
                               calloc(t->rows + 1, sizeof(*v->texts)), is_required};
    PQ_CHECK(v->numbers && v->reals && v->is_present && v->texts);
    memset(v->is_present, 1, t->rows + 1);
    t->n_columns++;
}

static inline void test_table_done(struct test_table *t)
{
    for (size_t i = 0; i < t->n_columns; i++) {
        free(t->values[i].numbers);
        free(t->values[i].reals);
        free(t->values[i].is_present);
        free(t->values[i].texts);
    }
}

struct table_file {
    uint8_t *p;
    size_t n, limit; /* limit: bytes after which the sink fails; 0: none */
};

static inline int table_sink(void *arg, const void *data, size_t size)
{
    struct table_file *f = arg;

    if (f->limit > 0 && f->n + size > f->limit)
        return -28; /* ENOSPC */
    f->p = realloc(f->p, f->n + size);
    PQ_CHECK(f->p);
    memcpy(f->p + f->n, data, size);
    f->n += size;
    return 0;
}

static inline const char *table_get_text(const void *arg, uint32_t number, size_t *ret_size)
{
    const struct test_table *t = arg;

    *ret_size = t->texts[number].size;
    return t->texts[number].p;
}

static inline int table_put_column(const struct test_table *t, size_t column, size_t first, size_t rows,
                                   struct parquet_writer *w)
{
    const struct table_values *v = &t->values[column];
    const uint8_t *is_present = v->omits_presence ? NULL : v->is_present + first;
    struct parquet_texts texts = {t->n_texts, table_get_text, t};
    uint32_t *numbers;
    int r;

    switch (t->columns[column].type) {
    case PARQUET_TEXT:
        numbers = malloc((rows + 1) * sizeof(*numbers));
        PQ_CHECK(numbers);
        for (size_t i = 0; i < rows; i++)
            numbers[i] = v->is_present[first + i] ? v->texts[first + i] : PARQUET_NO_TEXT;
        r = parquet_put_texts(w, numbers, &texts);
        free(numbers);
        return r;
    case PARQUET_DOUBLE:
        return parquet_put_reals(w, v->reals + first, is_present);
    default:
        return parquet_put_numbers(w, v->numbers + first, is_present);
    }
}

/* In row groups of at most group_rows. */
static inline int test_table_write(const struct test_table *t, size_t group_rows, struct table_file *ret)
{
    static const struct parquet_fact facts[] = {{"a", "b"}, {"empty", ""}};
    struct parquet_schema schema = {t->columns, t->n_columns, facts, 2, "test version 1"};
    struct parquet_writer *w = NULL;
    int r = parquet_open(&schema, table_sink, ret, &w);

    for (size_t first = 0; first < t->rows && r == 0; first += group_rows) {
        size_t rows = MIN(group_rows, t->rows - first);
        r = parquet_begin_group(w, (uint32_t)rows);
        for (size_t c = 0; c < t->n_columns && r == 0; c++)
            r = table_put_column(t, c, first, rows, w);
    }
    if (r == 0)
        r = parquet_finish(w);
    parquet_close(w);
    return r;
}

/* The same row by row. */
static inline int test_table_write_rows(const struct test_table *t, struct table_file *ret)
{
    static const struct parquet_fact facts[] = {{"a", "b"}};
    struct parquet_schema schema = {t->columns, t->n_columns, facts, 1, "test version 1"};
    struct parquet_rows *rows = NULL;
    int r = parquet_rows_new(&schema, table_sink, ret, &rows);

    for (size_t row = 0; row < t->rows && r == 0; row++) {
        for (size_t c = 0; c < t->n_columns; c++) {
            const struct table_values *v = &t->values[c];
            const struct table_text *text = t->n_texts > 0 ? &t->texts[v->texts[row]] : NULL;
            if (!v->omits_presence && !v->is_present[row])
                continue;
            if (t->columns[c].type == PARQUET_TEXT)
                parquet_rows_set_text(rows, c, text->p, text->size);
            else if (t->columns[c].type == PARQUET_DOUBLE)
                parquet_rows_set_real(rows, c, v->reals[row]);
            else
                parquet_rows_set_number(rows, c, v->numbers[row]);
        }
        r = parquet_rows_end_row(rows);
    }
    if (r == 0)
        r = parquet_rows_finish(rows);
    parquet_rows_free(rows);
    return r;
}

static inline void test_table_check_value(const struct test_table *t, size_t column, size_t row,
                                          const struct pq_value *got)
{
    const struct table_values *v = &t->values[column];

    PQ_CHECK(got->is_present == (v->omits_presence || v->is_present[row]));
    if (!got->is_present)
        return;
    if (t->columns[column].type == PARQUET_TEXT) {
        const struct table_text *text = &t->texts[v->texts[row]];
        PQ_CHECK(got->size == text->size && (text->size == 0 || memcmp(got->p, text->p, text->size) == 0));
    } else if (t->columns[column].type == PARQUET_DOUBLE) {
        PQ_CHECK(memcmp(&got->number, &v->reals[row], sizeof(got->number)) == 0);
    } else {
        PQ_CHECK(got->number == v->numbers[row]);
    }
}

/* Reads everything back. */
static inline void test_table_check(const struct test_table *t, const struct table_file *f)
{
    struct pq_node footer = pq_read_footer(f->p, f->n);

    PQ_CHECK(pq_field(&footer, 2)->n == t->n_columns + 1);
    for (size_t c = 0; c < t->n_columns; c++) {
        const struct pq_node *column = &pq_field(&footer, 2)->items[c + 1];
        size_t n;
        struct pq_value *values = pq_read_column(f->p, f->n, &footer, c, &n);
        PQ_CHECK(n == t->rows && pq_number(column, 9) == t->columns[c].field_id);
        for (size_t row = 0; row < n; row++)
            test_table_check_value(t, c, row, &values[row]);
        pq_values_free(values, n);
    }
    pq_node_free(&footer);
}

/* -- A table of everything --------------------------------------------------------------------------------- */

/* In UTF-8, longer than bounds are. */
static char table_long_text[300], table_high_text[300];

static const struct table_text table_texts[] = {
    {"", 0},
    {"gemm", 4},
    {"\xc3\xa9t\xc3\xa9", 5},
    {"a\tb\n\"c\"", 7},
    {"\xf0\x9f\x94\xa5 kernel<float, 128>", 23},
    {"zz", 2},
    {table_long_text, sizeof(table_long_text)},
    {table_high_text, sizeof(table_high_text)},
};

static uint64_t table_random_state;

/* The same numbers in every run. */
static inline uint64_t table_random(void)
{
    table_random_state = table_random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return table_random_state >> 20 ^ table_random_state << 33;
}

static inline void test_table_set(struct test_table *t, size_t column, unsigned kind)
{
    static const double reals[] = {0.0, -0.0, 1.5, -1e300, 5e-324, INFINITY, -INFINITY, NAN};
    static const int64_t numbers[] = {0, INT64_MIN, INT64_MAX, -1, 1};
    struct table_values *v = &t->values[column];

    for (size_t i = 0; i < t->rows; i++) {
        uint64_t random = table_random();
        v->numbers[i] = kind % 3 == 0   ? numbers[random % ARRAY_SIZE(numbers)]
                        : kind % 3 == 1 ? (int64_t)random
                                        : (int64_t)(i * 1000 + random % 100);
        v->reals[i] = kind % 3 == 0 ? reals[random % (kind ? 8 : 7)] : (double)(random % 1000) / 8;
        v->texts[i] = (uint32_t)(kind % 3 == 0   ? random % t->n_texts
                                 : kind % 3 == 1 ? 4
                                                 : i / 100 % t->n_texts);
        v->is_present[i] = t->columns[column].is_required || kind < 3 ||
                           (kind < 6 ? random % 3 > 0 : kind < 9 && i % 500 < 3);
    }
}

/* Of each type and encoding: all values present, some, few, none. */
static inline struct test_table test_table_of_everything(size_t rows)
{
    struct test_table t = {.rows = rows, .texts = table_texts, .n_texts = ARRAY_SIZE(table_texts)};

    memset(table_long_text, 'y', sizeof(table_long_text));
    for (size_t i = 0; i < sizeof(table_high_text); i++)
        table_high_text[i] = "\xf0\x9f\x94\xa5"[i % 4];
    table_random_state = rows;
    for (unsigned kind = 0; kind < 10; kind++) {
        test_table_add(&t, kind % 2 ? PARQUET_INT64 : PARQUET_MICROS, PARQUET_PLAIN, kind == 2);
        test_table_add(&t, PARQUET_INT64, PARQUET_DIFFERENCE, kind == 1);
        test_table_add(&t, PARQUET_DOUBLE, PARQUET_PLAIN, kind == 1);
        test_table_add(&t, PARQUET_TEXT, PARQUET_PLAIN, kind == 2);
        for (size_t i = 4; i > 0; i--)
            test_table_set(&t, t.n_columns - i, kind);
    }
    return t;
}
