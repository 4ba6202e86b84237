/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nemo_gym/function_rows.h"

#include "base/alloc.h"
#include <errno.h>

static const char *text(const json_t *j, const char *key)
{
    const char *s = json_get_str(j, key);
    return s ? s : "";
}

static bool is_known(const struct function_rows *r, const char *worker)
{
    for (size_t i = 0; i < r->n; i++)
        if (streq(r->items[i].worker, worker))
            return true;
    return false;
}

void function_rows_take(const json_t *answer, struct function_rows *ret)
{
    const json_t *functions = json_object_get(answer, "functions");
    size_t i;
    json_t *f;

    *ret = (struct function_rows){.items = xcalloc(json_array_size(functions) + 1, sizeof(*ret->items))};
    json_array_foreach(functions, i, f) {
        struct function_row row = {
            .worker = text(f, "worker"),
            .name = text(f, "name"),
            .file = text(f, "file"),
            .line = json_get_int(f, "line", 0),
            .calls = json_get_int(f, "calls", 0),
            .tsub_ns = json_get_int(f, "tsub_ns", 0),
            .ttot_ns = json_get_int(f, "ttot_ns", 0),
            .tavg_ns = json_get_int(f, "tavg_ns", 0),
        };
        if (!*row.name || row.calls < 0 || row.tsub_ns < 0 || row.ttot_ns < 0)
            continue;
        if (ret->n == 0 || !streq(row.worker, ret->items[ret->n - 1].worker))
            ret->n_workers += !is_known(ret, row.worker);
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

/* By the larger one, then in an order that does not change between two looks. */
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
