/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/merge_output.h"

/* -- Tables --------------------------------------------------------------------------------------------- */

int table_builder_init(struct table_builder *s, struct columns_writer *w, const enum column *columns,
                       unsigned width)
{
    *s = (struct table_builder){.writer = w, .width = width};
    memcpy(s->columns, columns, width * sizeof(*columns));
    s->values = malloc((size_t)width * BLOCK_ROWS * sizeof(*s->values));
    return s->values ? 0 : -ENOMEM;
}

void table_builder_done(struct table_builder *s)
{
    free(s->values);
}

void table_builder_flush(struct table_builder *s)
{
    for (unsigned i = 0; i < s->width; i++)
        columns_put_many(s->writer, s->columns[i], s->values + (size_t)i * BLOCK_ROWS,
                         table_builder_pending(s));
    s->n_written = s->n;
}

void table_builder_put_rows(struct columns_writer *w, enum column column, const uint32_t *rows, size_t n)
{
    int64_t values[BLOCK_ROWS];

    for (size_t first = 0; first < n; first += BLOCK_ROWS) {
        size_t k = MIN(n - first, (size_t)BLOCK_ROWS);

        for (size_t i = 0; i < k; i++)
            values[i] = rows[first + i];
        columns_put_many(w, column, values, k);
    }
}
