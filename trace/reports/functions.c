/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a callgrind profile: what each cost itself, and with what it called. */
#include "trace/reports/reports.h"
#include <errno.h>

static const struct report_column columns[] = {
    {"function", UNIT_TEXT, "by name"},
    {"self_ns", UNIT_NS, "what it cost itself"},
    {"self_share", UNIT_SHARE, "of the whole profile"},
    {"inclusive_ns", UNIT_NS, "with what it called; unknown of functions that call each other in a circle"},
    {"inclusive_share", UNIT_SHARE, "of the whole profile"},
    {"rank", UNIT_ID, "which trace"},
};

struct function {
    int64_t name, self, inclusive;
    bool in_circle; /* its inclusive cost is not known */
};

/* What callgraph.h draws: a thread of calls, and one of each function's own cost. Sums that are missing have
 * nothing that could be summed. */
static size_t list_sums(const struct columns *c, struct function *ret)
{
    size_t n = 0;

    for (uint64_t group = 0; group < columns_rows(c, TABLE_name); group++) {
        struct text category = columns_text(c, columns_get(c, COL_name_category, group));
        int64_t sum = columns_get(c, COL_name_sum, group);
        bool is_self = text_is(category, "callgrind_self"), is_circle = text_is(category, "callgrind_circle");
        if (sum < 0 || (!is_self && !is_circle && !text_is(category, "callgrind")))
            continue;
        ret[n++] = (struct function){.name = columns_get(c, COL_name_name, group),
                                     .self = is_self ? sum : 0,
                                     .inclusive = is_self ? 0 : sum,
                                     .in_circle = is_circle};
    }
    return n;
}

static int compare_names(const void *x, const void *y)
{
    const struct function *a = x, *b = y;
    return (a->name > b->name) - (a->name < b->name);
}

static int compare_costs(const void *x, const void *y)
{
    const struct function *a = x, *b = y;

    if (a->self != b->self)
        return a->self > b->self ? -1 : 1;
    return (a->inclusive < b->inclusive) - (a->inclusive > b->inclusive);
}

static size_t unite(struct function *functions, size_t n)
{
    size_t kept = 0;

    qsort(functions, n, sizeof(*functions), compare_names);
    for (size_t i = 0; i < n; i++) {
        if (kept == 0 || functions[kept - 1].name != functions[i].name) {
            functions[kept++] = functions[i];
            continue;
        }
        functions[kept - 1].self = MAX(functions[kept - 1].self, functions[i].self);
        functions[kept - 1].inclusive = MAX(functions[kept - 1].inclusive, functions[i].inclusive);
        functions[kept - 1].in_circle |= functions[i].in_circle;
    }
    return kept;
}

static int add_rank(struct analysis *a, size_t rank, struct report_rows *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    _cleanup_(freep) struct function *functions = calloc(columns_rows(c, TABLE_name) + 1, sizeof(*functions));
    int64_t total = 0;

    if (!functions)
        return -ENOMEM;
    size_t n = list_sums(c, functions);
    if (n == 0)
        return 0;
    n = unite(functions, n);
    qsort(functions, n, sizeof(*functions), compare_costs);
    for (size_t i = 0; i < n; i++)
        if (__builtin_add_overflow(total, functions[i].self, &total))
            total = INT64_MAX;
    /* What was not told of by the functions themselves counts as well. */
    for (size_t i = 0; i < n; i++)
        total = MAX(total, functions[i].inclusive);
    for (size_t i = 0; i < n; i++) {
        /* Calls that are too small are not drawn, but own costs always are. */
        int64_t inclusive = MAX(functions[i].inclusive, functions[i].self);
        put_text_or_null(ret, c, functions[i].name);
        put_int(ret, functions[i].self);
        put_share(ret, functions[i].self, total);
        if (functions[i].in_circle) {
            put_null(ret);
            put_null(ret);
        } else {
            put_int(ret, inclusive);
            put_share(ret, inclusive, total);
        }
        put_int(ret, a->ranks[rank].number);
    }
    return 0;
}

static int make(struct analysis *a, struct report_rows *ret)
{
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(a, i, ret);
    return r < 0 ? r : report_rows_count(ret) == 0 ? -ENODATA : 0;
}

const struct report report_functions = {
    .name = "functions",
    .title = "functions of a callgrind profile by what they cost",
    .how = "A function's own cost is exact. With what it called: the sum over the flame that is drawn of the "
           "profile, in which calls of less than a 100,000th of the total are not drawn. Functions that call "
           "each other in a circle have it only where the circle was entered through one of them alone, and "
           "then that one.",
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
