/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/names.h"

#include "trace/read/nest.h"
#include "trace/read/sheet.h"
#include "trace/read/sum.h"

void names_init(struct names *n, struct budget *budget)
{
    *n = (struct names){.numbers.budget = budget};
}

void names_done(struct names *n)
{
    if (!n->numbers.budget)
        return;
    budget_free(n->numbers.budget, n->groups, n->cap, sizeof(*n->groups));
    map_done(&n->numbers);
    *n = (struct names){0};
}

int64_t names_group(struct names *n, uint16_t category, uint32_t name, int64_t category_string)
{
    uint32_t *group = map_put(&n->numbers, (uint64_t)category << 32 | name, 0, (uint32_t)n->n);

    if (!group)
        return -ENOMEM;
    if (*group == n->n) {
        int r = budget_grow(n->numbers.budget, &n->groups, &n->cap, n->n + 1, sizeof(*n->groups));

        if (r < 0)
            return r;
        n->groups[n->n++] =
            (struct name_group){.category = category_string, .name = name, .min = INT64_MAX, .max = -1};
    }
    return *group;
}

void names_add(struct names *n, uint32_t group, int64_t dur)
{
    struct name_group *g = &n->groups[group];

    g->count++;
    if (dur == UNFINISHED)
        return;
    g->sum = sum_of(g->sum, dur);
    g->min = MIN(g->min, dur);
    g->max = MAX(g->max, dur);
}

static int by_category_and_name(const void *pa, const void *pb, void *arg)
{
    const struct name_group *groups = arg;
    const struct name_group *a = &groups[*(const uint32_t *)pa], *b = &groups[*(const uint32_t *)pb];

    if (a->category != b->category)
        return a->category < b->category ? -1 : 1;
    return (a->name > b->name) - (a->name < b->name);
}

static void put_group(struct columns_writer *w, const struct name_group *g)
{
    bool any = g->max >= 0;

    columns_put(w, COL_name_category, g->category);
    columns_put(w, COL_name_name, g->name);
    columns_put(w, COL_name_first, g->first);
    columns_put(w, COL_name_count, g->count);
    columns_put(w, COL_name_sum, g->sum);
    columns_put(w, COL_name_min, any ? g->min : COLUMN_NULL);
    columns_put(w, COL_name_max, any ? g->max : COLUMN_NULL);
}

/* Where each group begins. */
static int put_groups(struct names *n, struct columns_writer *w)
{
    struct budget *b = n->numbers.budget;
    uint32_t *order = budget_new(b, n->n, sizeof(*order));
    uint32_t first = 0;

    if (!order)
        return -ENOMEM;
    for (size_t i = 0; i < n->n; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, n->n, sizeof(*order), by_category_and_name, n->groups);
    for (size_t i = 0; i < n->n; i++) {
        struct name_group *g = &n->groups[order[i]];

        g->first = first;
        first += g->count;
        put_group(w, g);
    }
    budget_free(b, order, n->n, sizeof(*order));
    return 0;
}

int names_write(struct names *n, struct rows *rows, struct columns_writer *w)
{
    struct budget *b = n->numbers.budget;
    int64_t columns[_ROW_MAX * BLOCK_ROWS];
    size_t n_rows = (size_t)rows_count(rows), got = BLOCK_ROWS;
    uint32_t *by_name;
    int r = put_groups(n, w);

    if (r < 0)
        return r;
    by_name = budget_new(b, n_rows, sizeof(*by_name));
    if (!by_name)
        return -ENOMEM;
    for (size_t first = 0; r == 0 && got == BLOCK_ROWS; first += got) {
        r = rows_read(rows, first, columns, &got);
        for (size_t i = 0; r == 0 && i < got; i++)
            by_name[n->groups[columns[ROW_GROUP * BLOCK_ROWS + i]].first++] = (uint32_t)(first + i);
    }
    if (r == 0)
        put_rows(w, COL_by_name_slice, by_name, n_rows);
    budget_free(b, by_name, n_rows, sizeof(*by_name));
    return r;
}
