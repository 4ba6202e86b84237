/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/args.h"

/* The slice of a row of arguments; behind the last row, one that is larger than any. */
static int64_t slice_of(const struct args *a, enum column column, uint64_t row)
{
    return row < columns_rows(a->c, column_specs[column].table) ? columns_get(a->c, column, row) : INT64_MAX;
}

static bool seek_group(struct args *a, unsigned group, uint64_t slice)
{
    enum column column = arg_group_slice(TABLE_ARGS_FIRST + group);
    int64_t wanted = (int64_t)slice;
    uint64_t *row = &a->rows[group];

    /* Mostly it is the row that the last search came to, or the next one. */
    if (slice_of(a, column, *row) < wanted)
        ++*row;
    if (slice_of(a, column, *row) < wanted || (*row > 0 && slice_of(a, column, *row - 1) >= wanted))
        *row = columns_lower_bound(a->c, column, wanted);
    return slice_of(a, column, *row) == wanted;
}

void args_seek(struct args *a, uint64_t slice)
{
    for (unsigned group = 0; group < ARG_GROUPS; group++)
        a->has[group] = columns_rows(a->c, TABLE_ARGS_FIRST + group) > 0 && seek_group(a, group, slice);
    a->next = 0;
}

/* The elements of an array are columns in a row. */
static bool same_array(const struct arg_spec *a, const struct arg_spec *b)
{
    return a->array >= 0 && b->array >= 0 && streq(a->keys[0], b->keys[0]);
}

bool args_next(struct args *a, struct arg *ret)
{
    while (a->next < column_args_count) {
        const struct arg_spec *first = &column_args[a->next];
        unsigned group = column_specs[first->column].table - TABLE_ARGS_FIRST;
        bool known = false;

        *ret = (struct arg){.key = first->keys[0],
                            .column = first->column,
                            .kind = column_specs[first->column].kind,
                            .is_array = first->array >= 0};
        do {
            int64_t value =
                a->has[group] ? columns_get(a->c, column_args[a->next].column, a->rows[group]) : COLUMN_NULL;

            known = known || value != COLUMN_NULL;
            ret->values[ret->n++] = value;
            a->next++;
        } while (ret->n < ARG_ARRAY_MAX && a->next < column_args_count &&
                 same_array(first, &column_args[a->next]));
        if (known)
            return true;
    }
    return false;
}
