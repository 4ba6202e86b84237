/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/sheet.h"

#include <errno.h>

int sheet_init(struct sheet *s, struct columns_writer *w, const enum column *columns, unsigned width)
{
    *s = (struct sheet){.writer = w, .width = width};
    memcpy(s->columns, columns, width * sizeof(*columns));
    s->values = malloc((size_t)width * BLOCK_ROWS * sizeof(*s->values));
    return s->values ? 0 : -ENOMEM;
}

void sheet_done(struct sheet *s)
{
    free(s->values);
    *s = (struct sheet){0};
}

void sheet_flush(struct sheet *s)
{
    for (unsigned i = 0; i < s->width; i++)
        columns_put_many(s->writer, s->columns[i], s->values + (size_t)i * BLOCK_ROWS, sheet_pending(s));
    s->n_written = s->n;
}

void put_rows(struct columns_writer *w, enum column column, const uint32_t *rows, size_t n)
{
    int64_t values[BLOCK_ROWS];

    for (size_t first = 0; first < n; first += BLOCK_ROWS) {
        size_t k = MIN(n - first, (size_t)BLOCK_ROWS);

        for (size_t i = 0; i < k; i++)
            values[i] = rows[first + i];
        columns_put_many(w, column, values, k);
    }
}
