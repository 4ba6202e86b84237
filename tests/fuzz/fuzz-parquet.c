/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/parquet-table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define COLUMNS_MAX 6
#define ROWS_MAX    700
#define TEXTS       8

struct fuzz_bytes {
    const uint8_t *p;
    size_t n, at;
};

/* The next byte, from the begin again after the last. */
static uint8_t fuzz_next(struct fuzz_bytes *b)
{
    return b->n > 0 ? b->p[b->at++ % b->n] : 0;
}

static int64_t fuzz_next_number(struct fuzz_bytes *b, int64_t last)
{
    uint8_t kind = fuzz_next(b);
    uint64_t value = 0;

    /* Small steps and repeated values, and any others. */
    if (kind < 128)
        return (int64_t)((uint64_t)last + kind);
    if (kind < 192)
        return kind;
    for (int i = 0; i < 8; i++)
        value = value << 8 | fuzz_next(b);
    return (int64_t)value;
}

static void fuzz_fill(struct test_table *t, size_t column, struct fuzz_bytes *b)
{
    struct table_values *v = &t->values[column];
    int64_t last = 0;

    for (size_t i = 0; i < t->rows; i++) {
        last = fuzz_next_number(b, last);
        v->numbers[i] = last;
        memcpy(&v->reals[i], &last, sizeof(last));
        v->texts[i] = (uint32_t)((uint64_t)last % t->n_texts);
        v->is_present[i] = t->columns[column].is_required || fuzz_next(b) % 4 > 0;
    }
}

/* The bytes are the table: types of its columns, their values, and the texts. Whatever is written is read back. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes b = {data, size, 0};
    struct table_text texts[TEXTS];
    struct table_file f = {0};
    struct test_table t = {.texts = texts, .n_texts = TEXTS};
    size_t columns = 1 + fuzz_next(&b) % COLUMNS_MAX;

    t.rows = (size_t)(fuzz_next(&b) << 8 | fuzz_next(&b)) % ROWS_MAX;
    size_t group_rows = 1 + (size_t)(fuzz_next(&b) << 8 | fuzz_next(&b)) % ROWS_MAX;
    /* Each row group takes memory and time. */
    group_rows = MAX(group_rows, t.rows / 16 + 1);
    for (size_t i = 0; i < TEXTS; i++) {
        size_t from = size > 0 ? fuzz_next(&b) % size : 0;
        size_t length = fuzz_next(&b);
        texts[i] = (struct table_text){(const char *)data + from, MIN(length, size - from)};
    }
    for (size_t i = 0; i < columns; i++) {
        uint8_t type = fuzz_next(&b);
        test_table_add(&t, type % 4, type / 4 % 2, type / 8 % 2);
        fuzz_fill(&t, i, &b);
    }
    if (test_table_write(&t, group_rows, &f) < 0)
        abort();
    test_table_check(&t, &f);
    f.n = 0;
    if (test_table_write_rows(&t, &f) < 0)
        abort();
    test_table_check(&t, &f);
    free(f.p);
    test_table_done(&t);
    return 0;
}
