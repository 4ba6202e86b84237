/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a table with values of every kind (tests/unit/parquet-table.h) for other readers: parquet-maker ROWS GROUP_ROWS
 * FILE. Its values are printed as JSON, an array for each row: numbers, the bits of doubles, texts as hexadecimal
 * digits.
 */
#include "tests/unit/parquet-table.h"

#include <inttypes.h>

static void print_value(const struct test_table *t, size_t column, size_t row)
{
    const struct table_values *v = &t->values[column];
    int64_t bits;

    if (!v->omits_presence && !v->is_present[row]) {
        printf("null");
    } else if (t->columns[column].type == PARQUET_TEXT) {
        const struct table_text *text = &t->texts[v->texts[row]];
        putchar('"');
        for (size_t i = 0; i < text->size; i++)
            printf("%02x", (uint8_t)text->p[i]);
        putchar('"');
    } else {
        memcpy(&bits,
               t->columns[column].type == PARQUET_DOUBLE ? (void *)&v->reals[row] : (void *)&v->numbers[row],
               sizeof(bits));
        printf("%" PRId64, bits);
    }
}

int main(int argc, char **argv)
{
    struct table_file f = {0};

    if (argc != 4)
        return 2;
    struct test_table t = test_table_of_everything(strtoul(argv[1], NULL, 10));
    FILE *out = fopen(argv[3], "w");
    if (!out || test_table_write(&t, strtoul(argv[2], NULL, 10), &f) < 0 || fwrite(f.p, 1, f.n, out) != f.n ||
        fclose(out) != 0)
        return 1;
    for (size_t row = 0; row < t.rows; row++) {
        for (size_t column = 0; column < t.n_columns; column++) {
            putchar(column == 0 ? '[' : ',');
            print_value(&t, column, row);
        }
        puts("]");
    }
    free(f.p);
    test_table_done(&t);
    return 0;
}
