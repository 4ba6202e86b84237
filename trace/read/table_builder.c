/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/merge_internal.h"

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

/* -- Launches ------------------------------------------------------------------------------------------- */

enum {
    GPU_ROW,
    GPU_CORRELATION,
    _GPU_MAX,
};

int links_init(struct links *l, struct spill *spill, struct budget *budget)
{
    *l = (struct links){.calls.budget = budget};
    return spill_log_init(&l->gpu, spill, budget, _GPU_MAX);
}

void links_done(struct links *l)
{
    number_map_done(&l->calls);
    spill_log_done(&l->gpu);
}

int links_call(struct links *l, uint32_t row, int64_t correlation)
{
    uint32_t *last = number_map_put(&l->calls, (uint64_t)correlation, 0, row);

    if (!last)
        return -ENOMEM;
    *last = row;
    return 0;
}

int links_gpu(struct links *l, uint32_t row, int64_t correlation)
{
    *spill_log_slot(&l->gpu, GPU_ROW) = row;
    *spill_log_slot(&l->gpu, GPU_CORRELATION) = correlation;
    return spill_log_next(&l->gpu);
}

int links_write(struct links *l, struct columns_writer *w)
{
    int64_t columns[_GPU_MAX * BLOCK_ROWS];
    int r = spill_log_flush(&l->gpu);
    size_t n = BLOCK_ROWS;

    for (uint64_t first = 0; r == 0 && n == BLOCK_ROWS; first += n) {
        r = spill_log_read(&l->gpu, first, columns, &n);
        for (size_t i = 0; r == 0 && i < n; i++) {
            const uint32_t *call =
                number_map_get(&l->calls, (uint64_t)columns[GPU_CORRELATION * BLOCK_ROWS + i], 0);

            if (!call)
                continue;
            columns_put(w, COL_launch_gpu, columns[GPU_ROW * BLOCK_ROWS + i]);
            columns_put(w, COL_launch_runtime, *call);
        }
    }
    return r;
}

/* -- Arguments ------------------------------------------------------------------------------------------ */

static int args_init_group(struct args *a, struct columns_writer *w, unsigned group)
{
    enum column_table table = TABLE_ARGS_FIRST + group;
    enum column columns[ARG_COLUMNS_MAX + 1], slice = arg_group_slice(table);
    unsigned n = 0;

    for (enum column c = 0; c < _COLUMN_MAX; c++) {
        enum column_kind kind = column_specs[c].kind;

        if (column_specs[c].table != table || c == slice)
            continue;
        if (kind == KIND_TEXT || kind == KIND_REAL)
            a->with_text[group] |= UINT32_C(1) << n;
        columns[n++] = c;
    }
    columns[n++] = slice;
    return table_builder_init(&a->tables[group], w, columns, n);
}

int args_init(struct args *a, struct links *links, struct columns_writer *w)
{
    int r = 0;

    *a = (struct args){.links = links};
    for (unsigned g = 0; r == 0 && g < ARG_GROUPS; g++)
        r = args_init_group(a, w, g);
    return r;
}

void args_done(struct args *a)
{
    for (unsigned g = 0; g < ARG_GROUPS; g++)
        table_builder_done(&a->tables[g]);
}

static void args_renumber(int64_t *values, size_t n, const uint32_t *strings)
{
    for (size_t i = 0; i < n; i++)
        if (values[i] != COLUMN_NULL)
            values[i] = strings[values[i]];
}

/* The table builder already counts these rows. */
static void args_take_over(struct args *a, unsigned group)
{
    struct arg_stretch *t = &a->stretches[group];
    struct table_builder *s = &a->tables[group];
    int64_t *to = s->values + (s->n - t->n) % BLOCK_ROWS;

    for (unsigned i = 0; t->n > 0 && i + 1 < s->width; i++, to += BLOCK_ROWS) {
        packed_rows_get(t->rows, i, t->first, t->n, to);
        if (t->strings && (a->with_text[group] >> i & 1))
            args_renumber(to, t->n, t->strings);
    }
    t->n = 0;
}

static int args_put_links(struct args *a, unsigned group)
{
    static const struct {
        enum column correlation;
        int (*put)(struct links *l, uint32_t row, int64_t correlation);
    } linked[ARG_GROUPS] = {
        [TABLE_gpu - TABLE_ARGS_FIRST] = {COL_gpu_correlation, links_gpu},
        [TABLE_runtime - TABLE_ARGS_FIRST] = {COL_runtime_correlation, links_call},
    };
    const struct table_builder *s = &a->tables[group];
    const int64_t *rows = s->values + (size_t)(s->width - 1) * BLOCK_ROWS, *correlations;
    int r = 0;

    if (!linked[group].put)
        return 0;
    correlations = s->values + arg_group_index(linked[group].correlation) * BLOCK_ROWS;
    for (size_t i = 0; r == 0 && i < table_builder_pending(s); i++)
        if (correlations[i] != COLUMN_NULL)
            r = linked[group].put(a->links, (uint32_t)rows[i], correlations[i]);
    return r;
}

static int args_flush(struct args *a, unsigned group)
{
    int r;

    args_take_over(a, group);
    r = args_put_links(a, group);
    table_builder_flush(&a->tables[group]);
    return r;
}

static int args_put_in_group(struct args *a, unsigned group, struct run_cursor *cursor,
                             const uint32_t *strings, uint32_t row)
{
    struct arg_stretch *t = &a->stretches[group];
    struct table_builder *s = &a->tables[group];
    const struct packed_rows *rows;
    size_t at;

    if (cursor != t->cursor || !run_cursor_args_loaded(cursor, group))
        args_take_over(a, group);
    rows = run_cursor_args(cursor, group, &at);
    if (!rows)
        return run_cursor_error(cursor);
    if (t->n > 0 && at != t->first + t->n)
        args_take_over(a, group);
    if (t->n == 0)
        *t = (struct arg_stretch){cursor, rows, strings, at, 0};
    s->values[(size_t)(s->width - 1) * BLOCK_ROWS + s->n % BLOCK_ROWS] = row;
    t->n++;
    s->n++;
    return table_builder_pending(s) == BLOCK_ROWS ? args_flush(a, group) : 0;
}

int args_put(struct args *a, struct run_cursor *cursor, const uint32_t *strings, uint32_t row)
{
    unsigned groups = run_cursor_event(cursor)->flags / EVENT_IN_GROUP(0);
    int r = 0;

    for (; r == 0 && groups != 0; groups &= groups - 1)
        r = args_put_in_group(a, (unsigned)__builtin_ctz(groups), cursor, strings, row);
    return r;
}

int args_finish(struct args *a)
{
    int r = 0;

    for (unsigned g = 0; r == 0 && g < ARG_GROUPS; g++)
        r = args_flush(a, g);
    return r;
}
