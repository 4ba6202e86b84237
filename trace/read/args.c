/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/args.h"

static int init_group(struct args *a, struct columns_writer *w, unsigned group)
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
    return sheet_init(&a->sheets[group], w, columns, n);
}

int args_init(struct args *a, struct links *links, struct columns_writer *w)
{
    int r = 0;

    *a = (struct args){.links = links};
    for (unsigned g = 0; r == 0 && g < ARG_GROUPS; g++)
        r = init_group(a, w, g);
    return r;
}

void args_done(struct args *a)
{
    for (unsigned g = 0; g < ARG_GROUPS; g++)
        sheet_done(&a->sheets[g]);
}

static void renumber(int64_t *values, size_t n, const uint32_t *strings)
{
    for (size_t i = 0; i < n; i++)
        if (values[i] != COLUMN_NULL)
            values[i] = strings[values[i]];
}

/* The sheet counts these rows already. */
static void take_over(struct args *a, unsigned group)
{
    struct arg_stretch *t = &a->stretches[group];
    struct sheet *s = &a->sheets[group];
    int64_t *to = s->values + (s->n - t->n) % BLOCK_ROWS;

    for (unsigned i = 0; t->n > 0 && i + 1 < s->width; i++, to += BLOCK_ROWS) {
        packed_rows_get(t->rows, i, t->first, t->n, to);
        if (t->strings && (a->with_text[group] >> i & 1))
            renumber(to, t->n, t->strings);
    }
    t->n = 0;
}

static int put_links(struct args *a, unsigned group)
{
    static const struct {
        enum column correlation;
        int (*put)(struct links *l, uint32_t row, int64_t correlation);
    } linked[ARG_GROUPS] = {
        [TABLE_gpu - TABLE_ARGS_FIRST] = {COL_gpu_correlation, links_gpu},
        [TABLE_runtime - TABLE_ARGS_FIRST] = {COL_runtime_correlation, links_call},
    };
    const struct sheet *s = &a->sheets[group];
    const int64_t *rows = s->values + (size_t)(s->width - 1) * BLOCK_ROWS, *correlations;
    int r = 0;

    if (!linked[group].put)
        return 0;
    correlations = s->values + arg_group_index(linked[group].correlation) * BLOCK_ROWS;
    for (size_t i = 0; r == 0 && i < sheet_pending(s); i++)
        if (correlations[i] != COLUMN_NULL)
            r = linked[group].put(a->links, (uint32_t)rows[i], correlations[i]);
    return r;
}

static int flush(struct args *a, unsigned group)
{
    int r;

    take_over(a, group);
    r = put_links(a, group);
    sheet_flush(&a->sheets[group]);
    return r;
}

static int put_in_group(struct args *a, unsigned group, struct run_cursor *cursor, const uint32_t *strings,
                        uint32_t row)
{
    struct arg_stretch *t = &a->stretches[group];
    struct sheet *s = &a->sheets[group];
    const struct packed_rows *rows;
    size_t at;

    if (cursor != t->cursor || !run_cursor_args_loaded(cursor, group))
        take_over(a, group);
    rows = run_cursor_args(cursor, group, &at);
    if (!rows)
        return run_cursor_error(cursor);
    if (t->n > 0 && at != t->first + t->n)
        take_over(a, group);
    if (t->n == 0)
        *t = (struct arg_stretch){cursor, rows, strings, at, 0};
    *sheet_slot(s, s->width - 1) = row;
    t->n++;
    s->n++;
    return sheet_pending(s) == BLOCK_ROWS ? flush(a, group) : 0;
}

int args_put(struct args *a, struct run_cursor *cursor, const uint32_t *strings, uint32_t row)
{
    unsigned groups = run_cursor_event(cursor)->flags / EVENT_IN_GROUP(0);
    int r = 0;

    for (; r == 0 && groups != 0; groups &= groups - 1)
        r = put_in_group(a, (unsigned)__builtin_ctz(groups), cursor, strings, row);
    return r;
}

int args_finish(struct args *a)
{
    int r = 0;

    for (unsigned g = 0; r == 0 && g < ARG_GROUPS; g++)
        r = flush(a, g);
    return r;
}
