/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/selection.h"

#include "trace/columns/category.h"
#include <errno.h>

/* What the trace does not have, no slice can be of. */
static void add_category(struct selection *s, const char *name, size_t size)
{
    int64_t number = columns_find_text(s->c, name, size);

    if (number >= 0)
        s->categories[s->n_categories++] = number;
}

static int read_categories(struct selection *s, const char *only)
{
    size_t most = 1;

    for (const char *p = only; *p; p++)
        most += *p == ',';
    /* Each may have an older name. */
    s->categories = calloc(most, 2 * sizeof(s->categories[0]));
    if (!s->categories)
        return -ENOMEM;
    for (const char *p = only; *p; p += *p == ',') {
        size_t size = strcspn(p, ",");
        const char *old_name = category_old_name(p, size);

        if (size > 0)
            add_category(s, p, size);
        if (old_name)
            add_category(s, old_name, strlen(old_name));
        p += size;
    }
    return 0;
}

int selection_init(struct selection *s, const struct columns *c, int64_t from, int64_t to, const char *only)
{
    uint64_t rows = columns_rows(c, TABLE_slice);

    *s = (struct selection){.c = c, .from = from, .to = to, .everything = !only};
    s->end = to == INT64_MAX ? rows : columns_lower_bound(c, COL_slice_ts, to);
    s->last = columns_meta(c, META_last_ns);
    if (s->last == COLUMN_NULL && rows > 0)
        s->last = columns_get(c, COL_slice_ts, rows - 1);
    return only ? read_categories(s, only) : 0;
}

void selection_done(struct selection *s)
{
    free(s->categories);
    *s = (struct selection){0};
}

static bool has_category(const struct selection *s, int64_t category)
{
    for (size_t i = 0; i < s->n_categories; i++) {
        if (s->categories[i] == category)
            return true;
    }
    return s->everything;
}

int64_t selection_slice_end(const struct selection *s, uint64_t row)
{
    int64_t ts = columns_get(s->c, COL_slice_ts, row), dur = columns_get(s->c, COL_slice_dur, row);

    return dur < 0 ? MAX(s->last, ts) : add_ns(ts, dur);
}

bool selection_has_time(const struct selection *s, int64_t ts)
{
    return ts != COLUMN_NULL && ts >= s->from && ts < s->to;
}

bool selection_has(const struct selection *s, uint64_t row)
{
    int64_t ts = columns_get(s->c, COL_slice_ts, row);

    if (ts == COLUMN_NULL || row >= s->end || !has_category(s, columns_get(s->c, COL_slice_category, row)))
        return false;
    return ts >= s->from || selection_slice_end(s, row) > s->from;
}
