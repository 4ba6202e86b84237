/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/merge_output.h"

/* -- Launches ------------------------------------------------------------------------------------------- */

enum {
    GPU_ROW,
    GPU_CORRELATION,
    _GPU_MAX,
};

static int links_init(struct links *l, struct spill *spill, struct budget *budget)
{
    *l = (struct links){.calls.budget = budget};
    return spill_log_init(&l->gpu, spill, budget, _GPU_MAX);
}

static void links_done(struct links *l)
{
    number_map_done(&l->calls);
    spill_log_done(&l->gpu);
}

static int links_call(struct links *l, uint32_t row, int64_t correlation)
{
    uint32_t *last = number_map_put(&l->calls, (uint64_t)correlation, 0, row);

    if (!last)
        return -ENOMEM;
    *last = row;
    return 0;
}

static int links_gpu(struct links *l, uint32_t row, int64_t correlation)
{
    *spill_log_slot(&l->gpu, GPU_ROW) = row;
    *spill_log_slot(&l->gpu, GPU_CORRELATION) = correlation;
    return spill_log_next(&l->gpu);
}

static int links_write(struct links *l, struct columns_writer *w)
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
            r = linked[group].put(&a->links, (uint32_t)rows[i], correlations[i]);
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

static int args_put_row(struct args *a, unsigned group, const struct arg_entry *e)
{
    struct arg_stretch *t = &a->stretches[group];
    struct table_builder *s = &a->tables[group];
    const struct packed_rows *rows;
    size_t at;
    int r;

    if (e->cursor != t->cursor || !run_cursor_args_loaded(e->cursor, group))
        args_take_over(a, group);
    r = run_cursor_args(e->cursor, group, &rows, &at);
    if (r < 0)
        return r;
    if (t->n > 0 && at != t->first + t->n)
        args_take_over(a, group);
    if (t->n == 0)
        *t = (struct arg_stretch){e->cursor, rows, e->strings, at, 0};
    s->values[(size_t)(s->width - 1) * BLOCK_ROWS + s->n % BLOCK_ROWS] = e->row;
    t->n++;
    s->n++;
    return table_builder_pending(s) == BLOCK_ROWS ? args_flush(a, group) : 0;
}

static int args_take_entry(struct args *a, const struct arg_entry *e)
{
    int r = 0;

    for (unsigned groups = e->groups; r == 0 && groups != 0; groups &= groups - 1) {
        unsigned group = (unsigned)__builtin_ctz(groups);

        if (e->row != ROW_NONE)
            r = args_put_row(a, group, e);
        run_cursor_args_next(e->cursor, group);
    }
    return r;
}

static void args_take_block(void *arg)
{
    struct arg_block *b = arg;
    struct args *a = b->owner;

    for (size_t i = 0; a->error == 0 && i < b->n; i++)
        a->error = args_take_entry(a, &b->entries[i]);
}

static void args_end(void *arg)
{
    struct args *a = arg;

    for (unsigned g = 0; a->error == 0 && g < ARG_GROUPS; g++)
        a->error = args_flush(a, g);
    if (a->error == 0)
        a->error = links_write(&a->links, a->writer);
}

static void args_begin_block(struct args *a)
{
    a->block = handover_buffer(&a->blocks);
    a->block->owner = a;
    a->block->n = 0;
}

int args_init(struct args *a, struct spill *spill, struct budget *budget, struct columns_writer *w)
{
    int r;

    *a = (struct args){.writer = w};
    r = links_init(&a->links, spill, budget);
    for (unsigned g = 0; r == 0 && g < ARG_GROUPS; g++)
        r = args_init_group(a, w, g);
    if (r == 0)
        r = handover_init(&a->blocks, w, sizeof(*a->block), args_take_block);
    if (r == 0)
        args_begin_block(a);
    return r;
}

void args_done(struct args *a)
{
    if (a->writer)
        columns_wait_for(a->writer, a->end);
    handover_done(&a->blocks);
    for (unsigned g = 0; g < ARG_GROUPS; g++)
        table_builder_done(&a->tables[g]);
    links_done(&a->links);
}

void args_put(struct args *a, struct run_cursor *cursor, const uint32_t *strings, unsigned groups,
              uint32_t row)
{
    a->block->entries[a->block->n++] = (struct arg_entry){cursor, strings, row, groups};
    if (a->block->n == ARG_BLOCK_ENTRIES) {
        handover_give(&a->blocks);
        args_begin_block(a);
    }
}

void args_finish(struct args *a)
{
    handover_give(&a->blocks);
    a->end = columns_call(a->writer, args_end, a);
}

int args_wait(struct args *a)
{
    columns_wait_for(a->writer, a->end);
    return a->error;
}
