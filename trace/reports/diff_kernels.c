/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels and operators of two analyses, matched and ordered by what their change costs. */
#include "base/statistics.h"
#include "trace/reports/array.h"
#include "trace/reports/diff.h"
#include "trace/reports/kernel_name.h"
#include "trace/reports/name_sums.h"
#include "trace/reports/name_table.h"
#include "trace/reports/search.h"

#include "trace/columns/category.h"
#include <errno.h>
#include <math.h>

/* A change that is this improbable by chance is one. */
#define P_CHANGED 0.01
/* Of the mean: a smaller difference is none, however sure. */
#define CHANGE_MIN 0.01

static const struct report_column columns[] = {
    {"name", UNIT_TEXT, "in the second; in the first where it is gone"},
    {"change_ns", UNIT_NS, "what it costs: after less before"},
    {"verdict", UNIT_TEXT, "new, gone, slower, faster, more, fewer, same, or replaced"},
    {"before_count", UNIT_FACTOR, "how often, in the first", .is_spare = true},
    {"after_count", UNIT_FACTOR, "how often, in the second", .is_spare = true},
    {"before_mean_ns", UNIT_NS, "of one, in the first"},
    {"after_mean_ns", UNIT_NS, "of one, in the second"},
    {"p", UNIT_FACTOR, "how probable the difference of the durations is by chance (Mann and Whitney)",
     .is_spare = true},
    {"before_ns", UNIT_NS, "sum in the first", true},
    {"after_ns", UNIT_NS, "sum in the second", true},
    {"before_name", UNIT_TEXT, "in the first, where it is another", true},
};

const struct report diff_kernels = {
    .name = "kernels",
    .title = "GPU work of two by name, the largest change first",
    .how =
        "Names are matched as they are, then without arguments, template arguments and versions, then by "
        "what ran before and after "
        "them as often. Counts and times are of one step where both sides have steps, over ranks the mean.",
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
};

const struct report diff_ops = {
    .name = "ops",
    .title = "operators of two by name: time on the host, the largest change first",
    .how = "Sums of durations by name, children included. Counts and times are of one step where both sides "
           "have steps, over ranks the "
           "mean.",
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
};

/* One name of one side. */
struct item {
    struct text name;
    char *normal;
    double count, sum; /* of one step and rank */
    double mean;
    const int64_t *durations; /* sorted; NULL where only sums are known */
    uint64_t n_durations;
    uint64_t around; /* what most often ran before and after it; 0 unknown */
    size_t match;    /* in the other side; SIZE_MAX */
};

struct items {
    struct item *items;
    size_t n;
    struct name_sums sums;
};

static void items_done(struct items *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->items[i].normal);
    free(l->items);
    name_sums_done(&l->sums);
}

/* -- What ran around a kernel ------------------------------------------------------------------------- */

static uint64_t hash_text(struct text text)
{
    uint64_t h = 0xcbf29ce484222325; /* FNV-1a */

    for (size_t i = 0; i < text.size; i++)
        h = (h ^ (uint8_t)text.p[i]) * 0x100000001b3;
    return h;
}

/* Of each text of a trace, once it was asked for: the hash of its normal name; 0 before. */
struct normal_hashes {
    const struct columns *c;
    uint64_t *items;
    uint32_t n;
};

static int hash_normal(const struct normal_hashes *known, int64_t name, uint64_t *ret)
{
    /* The last place is that of what has no name. */
    uint64_t *hash = &known->items[name >= 0 && name < known->n ? name : known->n];

    if (*hash == 0) {
        _cleanup_(freep) char *normal = kernel_name_normal(columns_text(known->c, name));
        if (!normal)
            return -ENOMEM;
        *hash = hash_text((struct text){normal, strlen(normal)});
    }
    *ret = *hash;
    return 0;
}

/* What ran before and after one instance. */
static int hash_around(const struct normal_hashes *known, const struct gpu_work *work, size_t at,
                       uint64_t *ret)
{
    uint64_t before, after;
    int r = hash_normal(known, work->events[at - 1].name, &before);

    if (r >= 0)
        r = hash_normal(known, work->events[at + 1].name, &after);
    if (r >= 0)
        *ret = before * 31 + after;
    return r;
}

/* -- Matching ----------------------------------------------------------------------------------------- */

struct key {
    uint64_t hash;
    size_t at;
};

static int compare_keys(const void *x, const void *y)
{
    const struct key *a = x, *b = y;

    return a->hash != b->hash ? (a->hash > b->hash) - (a->hash < b->hash) : (a->at > b->at) - (a->at < b->at);
}

typedef uint64_t (*key_of)(const struct item *item);

static uint64_t key_name(const struct item *item)
{
    return hash_text(item->name);
}

static uint64_t key_normal(const struct item *item)
{
    return hash_text((struct text){item->normal, strlen(item->normal)});
}

static uint64_t key_place(const struct item *item)
{
    return item->around ? item->around * 31 + (uint64_t)llround(item->count * 16) : 0;
}

/* Pairs those that are left over with equal keys, in the order of their sums. A key of 0 is none. */
static int match(struct items *before, struct items *after, key_of key)
{
    _cleanup_(freep) struct key *keys = calloc(before->n + 1, sizeof(*keys));
    size_t n = 0;

    if (!keys)
        return -ENOMEM;
    for (size_t i = 0; i < before->n; i++)
        if (before->items[i].match == SIZE_MAX && key(&before->items[i]))
            keys[n++] = (struct key){key(&before->items[i]), i};
    qsort(keys, n, sizeof(*keys), compare_keys);
    for (size_t i = 0; i < after->n; i++) {
        struct item *one = &after->items[i];
        uint64_t wanted = one->match == SIZE_MAX ? key(one) : 0;
        for (size_t at = wanted ? FIRST_THAT(k, 0, n, keys[k].hash >= wanted) : n;
             at < n && keys[at].hash == wanted; at++)
            if (before->items[keys[at].at].match == SIZE_MAX) {
                one->match = keys[at].at;
                before->items[keys[at].at].match = i;
                break;
            }
    }
    return 0;
}

/* -- Rows --------------------------------------------------------------------------------------------- */

static const char *verdict_of(const struct item *before, const struct item *after, double p)
{
    if (!before || !after)
        return before ? "gone" : "new";
    if (fabs(after->count - before->count) > CHANGE_MIN * before->count)
        return after->count > before->count ? "more" : "fewer";
    if (strcmp(before->normal, after->normal) != 0)
        return "replaced";
    if (p > P_CHANGED || fabs(after->mean - before->mean) <= CHANGE_MIN * before->mean)
        return "same";
    return after->mean > before->mean ? "slower" : "faster";
}

static void put_row(struct report_rows *ret, const struct item *before, const struct item *after)
{
    static const struct item none;
    const struct item *b = before ? before : &none, *a = after ? after : &none;
    bool sampled = before && after && b->durations && a->durations;
    double p = sampled ? p_of_difference(b->durations, b->n_durations, a->durations, a->n_durations) : NAN;

    put_text(ret, after ? a->name : b->name);
    put_int(ret, llround(a->sum - b->sum));
    put_str(ret, verdict_of(before, after, isnan(p) ? 0 : p));
    put_real(ret, b->count);
    put_real(ret, a->count);
    put_int(ret, before ? llround(b->mean) : COLUMN_NULL);
    put_int(ret, after ? llround(a->mean) : COLUMN_NULL);
    put_real(ret, p);
    put_int(ret, llround(b->sum));
    put_int(ret, llround(a->sum));
    if (before && after && !text_equal(b->name, a->name))
        put_text(ret, b->name);
    else
        put_null(ret);
}

/* By the size of the change, whichever way. */
static int sort_by_change(struct report_rows *rows)
{
    size_t n = report_rows_count(rows);

    for (size_t i = 0; i < n; i++)
        rows->cells[i * rows->n_columns + 1].integer = llabs(rows->cells[i * rows->n_columns + 1].integer);
    int r = report_rows_sort(rows, 1, true);
    for (size_t i = 0; i < n && r >= 0; i++) {
        struct cell *row = &rows->cells[i * rows->n_columns];
        row[1].integer = row[9].integer - row[8].integer;
    }
    return r;
}

static int put_rows(struct items *before, struct items *after, struct report_rows *ret)
{
    for (size_t i = 0; i < after->n; i++) {
        const struct item *one = &after->items[i];
        put_row(ret, one->match == SIZE_MAX ? NULL : &before->items[one->match], one);
    }
    for (size_t i = 0; i < before->n; i++)
        if (before->items[i].match == SIZE_MAX)
            put_row(ret, &before->items[i], NULL);
    int r = report_rows_error(ret);
    return r < 0 ? r : sort_by_change(ret);
}

/* -- Both sides' items -------------------------------------------------------------------------------- */

static int gather_kernels(struct analysis *a, int64_t steps, struct items *ret)
{
    double part = 1.0 / ((double)steps * (double)MAX(a->n, (size_t)1));
    int r = name_sums_of_gpu(a, &ret->sums);

    if (r < 0)
        return r;
    ret->items = calloc(ret->sums.n + 1, sizeof(*ret->items));
    for (size_t i = 0; ret->items && i < ret->sums.n; i++) {
        const struct name_sum *s = &ret->sums.items[i];
        struct item *item = &ret->items[ret->n++];
        *item = (struct item){.name = s->name,
                              .normal = kernel_name_normal(s->name),
                              .count = (double)s->count * part,
                              .sum = (double)s->sum * part,
                              .mean = (double)s->sum / (double)s->count,
                              .durations = s->durations,
                              .n_durations = s->count,
                              .match = SIZE_MAX};
        if (!item->normal)
            return -ENOMEM;
    }
    return ret->items ? 0 : -ENOMEM;
}

/* The items by number of their text, + 1; 0 where there is none. Texts of a trace are all different. */
static void number_items(const struct columns *c, const struct items *l, uint32_t *ret)
{
    uint32_t n_texts = columns_texts(c);

    for (size_t i = 0; i < l->n; i++) {
        int64_t text = columns_find_text(c, l->items[i].name.p, l->items[i].name.size);
        if (text >= 0 && text < n_texts && l->items[i].match == SIZE_MAX)
            ret[text] = (uint32_t)i + 1;
    }
}

/* Places only those that are left over, by the instance that is the first from the middle of the trace on: a
 * kernel's place in the sequence hardly varies. */
static int place_leftovers(struct analysis *a, struct items *l)
{
    const struct gpu_work *work;
    int r = a->n > 0 ? analysis_gpu(a, 0, &work) : -ENODATA;

    if (r < 0 || work->n < 3)
        return r;
    const struct columns *c = a->ranks[0].columns;
    uint32_t n_texts = columns_texts(c);
    _cleanup_(freep) uint32_t *item_of = calloc((size_t)n_texts + 1, sizeof(*item_of));
    _cleanup_(freep) uint64_t *hashes = calloc((size_t)n_texts + 1, sizeof(*hashes));
    struct normal_hashes known = {c, hashes, n_texts};
    if (!item_of || !hashes)
        return -ENOMEM;
    number_items(c, l, item_of);
    for (size_t k = 0; k < work->n && r >= 0; k++) {
        size_t at = (k + work->n / 2) % work->n;
        int64_t name = work->events[at].name;
        uint32_t number = name >= 0 && name < n_texts ? item_of[name] : 0;
        if (number > 0 && at > 0 && at + 1 < work->n && l->items[number - 1].around == 0)
            r = hash_around(&known, work, at, &l->items[number - 1].around);
    }
    return r;
}

int diff_make_kernels(struct diff *d, struct report_rows *ret)
{
    _cleanup_(items_done) struct items before = {0}, after = {0};
    int r = gather_kernels(d->before, d->steps_before, &before);

    report_rows_init(ret, diff_kernels.n_columns);
    if (r >= 0)
        r = gather_kernels(d->after, d->steps_after, &after);
    if (r >= 0)
        r = match(&before, &after, key_name);
    if (r >= 0)
        r = match(&before, &after, key_normal);
    if (r >= 0)
        r = place_leftovers(d->before, &before);
    if (r >= 0)
        r = place_leftovers(d->after, &after);
    if (r >= 0)
        r = match(&before, &after, key_place);
    return r < 0 ? r : put_rows(&before, &after, ret);
}

static bool is_op(const struct columns *c, int64_t category)
{
    struct text text = columns_text(c, category);
    static const char *const words[] = {CATEGORY_OP};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (text_is(text, words[i]))
            return true;
    return false;
}

/* By the groups of names that every trace has of itself. */
static int gather_ops(struct analysis *a, int64_t steps, struct items *ret)
{
    double part = 1.0 / ((double)steps * (double)MAX(a->n, (size_t)1));
    _cleanup_(name_table_done) struct name_table names = {0};
    size_t cap = 0;

    for (size_t rank = 0; rank < a->n; rank++) {
        const struct columns *c = a->ranks[rank].columns;
        for (uint64_t group = 0; group < columns_rows(c, TABLE_name); group++) {
            if (!is_op(c, columns_get(c, COL_name_category, group)))
                continue;
            int64_t number = name_table_number(&names, columns_text(c, columns_get(c, COL_name_name, group)));
            if (number < 0)
                return (int)number;
            if (!ARRAY_BESIDE(ret->items, cap, names.n))
                return -ENOMEM;
            struct item *item = &ret->items[number];
            if ((size_t)number == ret->n) {
                ret->n++;
                *item = (struct item){.name = names.items[number],
                                      .normal = kernel_name_normal(names.items[number]),
                                      .match = SIZE_MAX};
                if (!item->normal)
                    return -ENOMEM;
            }
            item->count += (double)columns_get(c, COL_name_count, group) * part;
            item->sum += (double)columns_get(c, COL_name_sum, group) * part;
        }
    }
    for (size_t i = 0; i < ret->n; i++)
        ret->items[i].mean = ret->items[i].count > 0 ? ret->items[i].sum / ret->items[i].count : 0;
    return 0;
}

int diff_make_ops(struct diff *d, struct report_rows *ret)
{
    _cleanup_(items_done) struct items before = {0}, after = {0};
    int r = gather_ops(d->before, d->steps_before, &before);

    report_rows_init(ret, diff_ops.n_columns);
    if (r >= 0)
        r = gather_ops(d->after, d->steps_after, &after);
    if (r >= 0)
        r = match(&before, &after, key_name);
    if (r >= 0)
        r = match(&before, &after, key_normal);
    return r < 0 ? r : put_rows(&before, &after, ret);
}
