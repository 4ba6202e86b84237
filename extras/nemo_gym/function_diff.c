/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nemo_gym/function_diff.h"

#include "base/alloc.h"

static int by_identity(const void *x, const void *y)
{
    return function_row_compare(x, y);
}

/* One row for each function, in order of identity; the caller frees it. */
static struct function_row *summed(const struct function_rows *rows, size_t *ret_n)
{
    struct function_row *sums = xcalloc(rows->n + 1, sizeof(*sums));
    size_t n = 0;

    if (rows->n > 0)
        memcpy(sums, rows->items, rows->n * sizeof(*sums));
    qsort(sums, rows->n, sizeof(*sums), by_identity);
    for (size_t i = 0; i < rows->n; i++) {
        struct function_row *last = n > 0 ? &sums[n - 1] : NULL;
        if (!last || function_row_compare(last, &sums[i]) != 0) {
            sums[n++] = sums[i];
            continue;
        }
        last->calls += sums[i].calls;
        last->tsub_ns += sums[i].tsub_ns;
        last->ttot_ns += sums[i].ttot_ns;
        last->tavg_ns = last->calls > 0 ? last->ttot_ns / last->calls : 0;
    }
    *ret_n = n;
    return sums;
}

static struct function_row absent(const struct function_row *like)
{
    return (struct function_row){.worker = "", .name = like->name, .file = like->file, .line = like->line};
}

int64_t function_change_ns(const struct function_change *c)
{
    return c->after.ttot_ns - c->before.ttot_ns;
}

static int larger_change_first(const void *x, const void *y)
{
    const struct function_change *a = x, *b = y;
    int64_t u = llabs(function_change_ns(a)), v = llabs(function_change_ns(b));
    return u != v ? (u < v ? 1 : -1) : function_row_compare(&a->after, &b->after);
}

void function_changes_make(const struct function_rows *before, const struct function_rows *after,
                           struct function_changes *ret)
{
    size_t n_old, n_young, i = 0, k = 0;
    _cleanup_(freep) struct function_row *old = summed(before, &n_old);
    _cleanup_(freep) struct function_row *young = summed(after, &n_young);

    *ret = (struct function_changes){.items = xcalloc(n_old + n_young + 1, sizeof(*ret->items))};
    while (i < n_old || k < n_young) {
        int order = i == n_old ? 1 : k == n_young ? -1 : function_row_compare(&old[i], &young[k]);
        struct function_change *c = &ret->items[ret->n++];
        c->before = order <= 0 ? old[i++] : absent(&young[k]);
        c->after = order >= 0 ? young[k++] : absent(&c->before);
    }
    qsort(ret->items, ret->n, sizeof(*ret->items), larger_change_first);
}

void function_changes_done(struct function_changes *c)
{
    free(c->items);
    *c = (struct function_changes){0};
}
