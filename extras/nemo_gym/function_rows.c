/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nemo_gym/functions.h"

#include "base/alloc.h"
#include <errno.h>

void function_rows_take(const json_t *answer, struct function_rows *ret)
{
    const json_t *functions = json_object_get(answer, "functions");
    size_t i;
    json_t *f;

    *ret = (struct function_rows){.items = xcalloc(json_array_size(functions) + 1, sizeof(*ret->items))};
    json_array_foreach(functions, i, f) {
        const char *worker = json_get_str(f, "worker"), *name = json_get_str(f, "name"),
                   *file = json_get_str(f, "file");
        struct function_row row = {
            .worker = worker ? worker : "",
            .name = name ? name : "",
            .file = file ? file : "",
            .line = json_get_int(f, "line", 0),
            .calls = json_get_int(f, "calls", 0),
            .tsub_ns = json_get_int(f, "tsub_ns", 0),
            .ttot_ns = json_get_int(f, "ttot_ns", 0),
            .tavg_ns = json_get_int(f, "tavg_ns", 0),
        };
        if (!*row.name || row.calls < 0 || row.tsub_ns < 0 || row.ttot_ns < 0)
            continue;
        size_t k = 0;
        if (ret->n == 0 || !streq(row.worker, ret->items[ret->n - 1].worker))
            while (k < ret->n && !streq(ret->items[k].worker, row.worker))
                k++;
        ret->n_workers += k == ret->n;
        ret->items[ret->n++] = row;
    }
}

void function_rows_done(struct function_rows *r)
{
    free(r->items);
    *r = (struct function_rows){0};
}

int function_row_compare(const struct function_row *a, const struct function_row *b)
{
    int r = strcmp(a->file, b->file);
    return r ? r : strcmp(a->name, b->name);
}

/* By the larger one, then in an order that does not change when the screen is redrawn. */
#define DEFINE_COMPARE(member)                                                                               \
    static int larger_##member(const void *x, const void *y)                                                 \
    {                                                                                                        \
        const struct function_row *a = x, *b = y;                                                            \
        if (a->member != b->member)                                                                          \
            return a->member < b->member ? 1 : -1;                                                           \
        int r = function_row_compare(a, b);                                                                  \
        return r ? r : (a->line > b->line) - (a->line < b->line);                                            \
    }
DEFINE_COMPARE(ttot_ns)
DEFINE_COMPARE(tsub_ns)
DEFINE_COMPARE(calls)
DEFINE_COMPARE(tavg_ns)

static const struct {
    const char *key;
    int (*compare)(const void *x, const void *y);
} orders[] = {
    {"ttot", larger_ttot_ns},
    {"tsub", larger_tsub_ns},
    {"ncall", larger_calls},
    {"tavg", larger_tavg_ns},
};

int function_rows_sort(struct function_rows *r, const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(orders); i++)
        if (streq(orders[i].key, key)) {
            if (r->n > 0)
                qsort(r->items, r->n, sizeof(*r->items), orders[i].compare);
            return 0;
        }
    return -EINVAL;
}

int64_t function_rows_total_ns(const struct function_rows *r, const char *worker)
{
    int64_t sum = 0, longest = 0;

    for (size_t i = 0; i < r->n; i++) {
        const struct function_row *f = &r->items[i];
        if (!streq(worker, f->worker))
            continue;
        longest = MAX(longest, f->ttot_ns);
        if (__builtin_add_overflow(sum, f->tsub_ns, &sum))
            return INT64_MAX;
    }
    return MAX(sum, longest);
}

/* -- Differences -- */

static int function_rows_compare_identity(const void *x, const void *y)
{
    return function_row_compare(x, y);
}

/* One row for each function, in order of identity; the caller frees it. */
static struct function_row *function_rows_sum(const struct function_rows *rows, size_t *ret_n)
{
    struct function_row *sums = xcalloc(rows->n + 1, sizeof(*sums));
    size_t n = 0;

    if (rows->n > 0)
        memcpy(sums, rows->items, rows->n * sizeof(*sums));
    qsort(sums, rows->n, sizeof(*sums), function_rows_compare_identity);
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

static struct function_row function_row_absent(const struct function_row *like)
{
    return (struct function_row){.worker = "", .name = like->name, .file = like->file, .line = like->line};
}

int64_t function_change_ns(const struct function_change *c)
{
    return c->after.ttot_ns - c->before.ttot_ns;
}

static int function_changes_compare(const void *x, const void *y)
{
    const struct function_change *a = x, *b = y;
    int64_t u = llabs(function_change_ns(a)), v = llabs(function_change_ns(b));
    return u != v ? (u < v ? 1 : -1) : function_row_compare(&a->after, &b->after);
}

void function_changes_make(const struct function_rows *before, const struct function_rows *after,
                           struct function_changes *ret)
{
    size_t n_old, n_young, i = 0, k = 0;
    _cleanup_(freep) struct function_row *old = function_rows_sum(before, &n_old);
    _cleanup_(freep) struct function_row *young = function_rows_sum(after, &n_young);

    *ret = (struct function_changes){.items = xcalloc(n_old + n_young + 1, sizeof(*ret->items))};
    while (i < n_old || k < n_young) {
        int order = i == n_old ? 1 : k == n_young ? -1 : function_row_compare(&old[i], &young[k]);
        struct function_change *c = &ret->items[ret->n++];
        c->before = order <= 0 ? old[i++] : function_row_absent(&young[k]);
        c->after = order >= 0 ? young[k++] : function_row_absent(&c->before);
    }
    qsort(ret->items, ret->n, sizeof(*ret->items), function_changes_compare);
}

void function_changes_done(struct function_changes *c)
{
    free(c->items);
    *c = (struct function_changes){0};
}
