/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels and operators of two analyses, matched and ordered by what their change costs. */
#include "base/array.h"
#include "base/hash_table.h"
#include "trace/reports/diff.h"
#include "trace/reports/grouping.h"
#include "trace/reports/kernel_name.h"
#include "trace/reports/search.h"

#include <errno.h>
#include <math.h>

/* Of the mean or the count: a smaller change is none, however sure. */
#define CHANGE_MIN 0.01

#define DIFF_ITEM_COLUMNS(C)                                                                                 \
    C(name, TEXT, "name in the second; in the first if it is gone")                                          \
    C(change_ns, NS, "change of the time in a step: after less before")                                      \
    C(result, TEXT,                                                                                          \
      "slower or faster (time per call), more or fewer (calls), new, gone, replaced, same, unclear, too "    \
      "few samples")                                                                                         \
    C(outliers_ns, NS, "part of the change that comes from outlier steps", IMPORTANCE_LOW)                   \
    C(before_count, FACTOR, "calls in the first", IMPORTANCE_LOW)                                            \
    C(after_count, FACTOR, "calls in the second", IMPORTANCE_LOW)                                            \
    C(before_mean_ns, NS, "time per call in the first")                                                      \
    C(after_mean_ns, NS, "time per call in the second")                                                      \
    C(low_mean_ns, NS, "lower end of the 95 % interval of the change of the time per call",                  \
      IMPORTANCE_EXTRA)                                                                                      \
    C(high_mean_ns, NS, "upper end of the 95 % interval of the change of the time per call",                 \
      IMPORTANCE_EXTRA)                                                                                      \
    C(before_ns, NS, "sum in the first", IMPORTANCE_EXTRA)                                                   \
    C(after_ns, NS, "sum in the second", IMPORTANCE_EXTRA)                                                   \
    C(before_name, TEXT, "name in the first, if it differs", IMPORTANCE_EXTRA)
REPORT_ROW(diff_item, DIFF_ITEM_COLUMNS);

const struct report diff_kernels = {
    .name = "kernels",
    .title = "GPU events of two analyses by name, the largest change first",
    .method =
        "Names are matched as they are, then without arguments, template arguments and versions, then by "
        "what ran before and after them as often. Counts and times are of the work that steps launched, for "
        "one step where both sides have steps, over ranks the mean. Time per call decides between slower "
        "and more: the result is what made most of the change, if its 95 % interval over blocks of "
        "neighbouring steps excludes no change. All steps count, also outliers (more than twice the median "
        "of their phase).",
    REPORT_COLUMNS(diff_item),
};

const struct report diff_ops = {
    .name = "ops",
    .title = "operators of two analyses by name: host time, the largest change first",
    .method =
        "Sums of durations by name, children included, of the calls that begin within steps. Counts and "
        "times are of one step where both sides have steps, over ranks the mean; the result is that of "
        "kernels.",
    REPORT_COLUMNS(diff_item),
};

/* One name of one side. */
struct diff_item {
    struct text name;
    char *normal;
    struct ratio_sums calls[STEP_BLOCKS]; /* their time in ns, and their number */
    double count, sum;                    /* of one step and rank */
    double steady;                        /* its time in a step that is no outlier */
    double mean;                          /* of a call */
    uint64_t around;                      /* what most often ran before and after it; 0 unknown */
    size_t match;                         /* in the other side; SIZE_MAX */
};

struct diff_items {
    struct diff_item *items;
    size_t n, cap;
    struct name_table names;
    const struct diff_side *side;
    double outside_ns; /* of work that belongs to no step */
    bool is_of_time;   /* blocks are parts of the time, so that nothing is known about outlier steps */
};

static void items_done(struct diff_items *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->items[i].normal);
    free(l->items);
    name_table_done(&l->names);
}

/* -- What ran around a kernel ------------------------------------------------------------------------- */

/* Of each text of a trace, once it was asked for: the hash of its normal name; 0 before. */
struct normal_hashes {
    const struct columns *c;
    uint64_t *items;
    uint32_t n;
};

static int hash_normal(const struct normal_hashes *known, int64_t name, uint64_t *ret)
{
    /* The last position is that of what has no name. */
    uint64_t *hash = &known->items[name >= 0 && name < known->n ? name : known->n];

    if (*hash == 0) {
        _cleanup_(freep) char *normal = kernel_name_normal(columns_text(known->c, name));
        if (!normal)
            return -ENOMEM;
        *hash = hash_bytes(normal, strlen(normal));
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
        *ret = hash_words(before, after);
    return r;
}

/* -- Matching ----------------------------------------------------------------------------------------- */

struct diff_item_key {
    uint64_t hash;
    size_t at;
};

static int diff_item_compare_keys(const void *x, const void *y)
{
    const struct diff_item_key *a = x, *b = y;

    return a->hash != b->hash ? (a->hash > b->hash) - (a->hash < b->hash) : (a->at > b->at) - (a->at < b->at);
}

typedef uint64_t (*key_of)(const struct diff_item *item);

static uint64_t key_name(const struct diff_item *item)
{
    return hash_bytes(item->name.p, item->name.size);
}

static uint64_t key_normal(const struct diff_item *item)
{
    return hash_bytes(item->normal, strlen(item->normal));
}

static uint64_t key_place(const struct diff_item *item)
{
    return item->around ? hash_words(item->around, (uint64_t)llround(item->count * 16)) : 0;
}

/* Pairs those that are left over with equal keys, in the order of their sums. A key of 0 is none. */
static int diff_item_match(struct diff_items *before, struct diff_items *after, key_of key)
{
    _cleanup_(freep) struct diff_item_key *keys = calloc(before->n + 1, sizeof(*keys));
    size_t n = 0;

    if (!keys)
        return -ENOMEM;
    for (size_t i = 0; i < before->n; i++)
        if (before->items[i].match == SIZE_MAX && key(&before->items[i]))
            keys[n++] = (struct diff_item_key){key(&before->items[i]), i};
    qsort(keys, n, sizeof(*keys), diff_item_compare_keys);
    for (size_t i = 0; i < after->n; i++) {
        struct diff_item *one = &after->items[i];
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

/* Calls of a step, by blocks of steps. */
static struct estimate estimate_count(const struct diff *d, const struct diff_items *side,
                                      const struct diff_item *item)
{
    struct ratio_sums blocks[STEP_BLOCKS];

    for (size_t i = 0; i < STEP_BLOCKS; i++)
        blocks[i] = (struct ratio_sums){item->calls[i].below, side->side->sample.rank_steps[i]};
    /* The number of calls of a recording without steps is what it is. */
    return d->by_step ? ratio_as_units(blocks, STEP_BLOCKS, side->side->sample.n)
                      : (struct estimate){item->count, 0, 1, 1};
}

static struct estimate estimate_mean(const struct diff *d, const struct diff_items *side,
                                     const struct diff_item *item)
{
    return ratio_as_units(item->calls, STEP_BLOCKS, d->by_step ? side->side->sample.n : STEP_BLOCKS);
}

struct item_change {
    struct contrast mean, count;
};

static struct item_change change_of(const struct diff *d, const struct diff_items *before,
                                    const struct diff_item *b, const struct diff_items *after,
                                    const struct diff_item *a)
{
    struct estimate mean_b = estimate_mean(d, before, b), mean_a = estimate_mean(d, after, a),
                    count_b = estimate_count(d, before, b), count_a = estimate_count(d, after, a);

    return (struct item_change){estimate_contrast(&mean_b, &mean_a, 1),
                                estimate_contrast(&count_b, &count_a, 1)};
}

static bool excludes_none(const struct contrast *c)
{
    return c->low > 0 || c->high < 0;
}

/* One word for the larger part of the change, and for the other one where that one is none. */
static const char *diff_item_result_of(const struct diff *d, const struct diff_item *b,
                                       const struct diff_item *a, const struct item_change *change)
{
    double by_mean = fabs(change->mean.value) * (a->count + b->count) / 2,
           by_count = fabs(change->count.value) * (a->mean + b->mean) / 2;
    bool mean_changed = fabs(change->mean.value) > CHANGE_MIN * b->mean,
         count_changed = fabs(change->count.value) > CHANGE_MIN * b->count;
    bool is_slower = mean_changed && excludes_none(&change->mean),
         is_more = count_changed && excludes_none(&change->count);

    if (!mean_changed && !count_changed)
        return strcmp(b->normal, a->normal) != 0 ? "replaced" : "same";
    if (d->by_step && MIN(d->before.sample.n, d->after.sample.n) < DIFF_STEPS_MIN)
        return "too few samples";
    if (is_slower && (by_mean >= by_count || !is_more))
        return change->mean.value > 0 ? "slower" : "faster";
    if (is_more)
        return change->count.value > 0 ? "more" : "fewer";
    return strcmp(b->normal, a->normal) != 0 ? "replaced" : "unclear";
}

/* A row: an item of each side, or of one alone. */
struct diff_pair {
    const struct diff_item *before, *after; /* NULL: none */
    int64_t change;                         /* in ns */
};

static void diff_item_emit_row(const struct diff *d, struct report_rows *ret,
                               const struct diff_items *of_before, const struct diff_items *of_after,
                               const struct diff_pair *pair)
{
    static const struct diff_item none;
    const struct diff_item *b = pair->before ? pair->before : &none, *a = pair->after ? pair->after : &none;
    struct item_change change = {{NAN, NAN, NAN, NAN}, {NAN, NAN, NAN, NAN}};
    bool both = pair->before && pair->after;

    if (both)
        change = change_of(d, of_before, b, of_after, a);
    EMIT_ROW(diff_item, ret, .name = pair->after ? a->name : b->name,
             .change_ns = llround(a->sum) - llround(b->sum),
             .result = row_str(both           ? diff_item_result_of(d, b, a, &change)
                               : pair->before ? "gone"
                                              : "new"),
             .outliers_ns = diff_outliers_part(d, a->sum - b->sum, b->steady, a->steady),
             .before_count = b->count, .after_count = a->count,
             .before_mean_ns = pair->before ? llround(b->mean) : COLUMN_NULL,
             .after_mean_ns = pair->after ? llround(a->mean) : COLUMN_NULL,
             .low_mean_ns = isfinite(change.mean.low) ? llround(change.mean.low) : COLUMN_NULL,
             .high_mean_ns = isfinite(change.mean.high) ? llround(change.mean.high) : COLUMN_NULL,
             .before_ns = llround(b->sum), .after_ns = llround(a->sum),
             .before_name = both && !text_equal(b->name, a->name) ? b->name : (struct text){0});
}

/* By the size of the change, whichever way; equal ones stay in their order, which is that of memory. */
static int diff_pair_compare(const void *x, const void *y)
{
    const struct diff_pair *a = x, *b = y;
    int64_t one = llabs(a->change), other = llabs(b->change);

    return (one < other) - (one > other);
}

static int diff_item_emit_rows(const struct diff *d, struct diff_items *before, struct diff_items *after,
                               struct report_rows *ret)
{
    _cleanup_(freep) struct diff_pair *pairs = calloc(before->n + after->n + 1, sizeof(*pairs));
    size_t n = 0;

    if (!pairs)
        return -ENOMEM;
    for (size_t i = 0; i < after->n; i++) {
        const struct diff_item *one = &after->items[i];
        pairs[n++] = (struct diff_pair){one->match == SIZE_MAX ? NULL : &before->items[one->match], one, 0};
    }
    for (size_t i = 0; i < before->n; i++)
        if (before->items[i].match == SIZE_MAX)
            pairs[n++] = (struct diff_pair){&before->items[i], NULL, 0};
    for (size_t i = 0; i < n; i++)
        pairs[i].change = llround((pairs[i].after ? pairs[i].after->sum : 0) -
                                  (pairs[i].before ? pairs[i].before->sum : 0));
    qsort(pairs, n, sizeof(*pairs), diff_pair_compare);
    for (size_t i = 0; i < n; i++)
        diff_item_emit_row(d, ret, before, after, &pairs[i]);
    return report_rows_error(ret);
}

/* -- Both sides' items -------------------------------------------------------------------------------- */

/* numbers: of the rank's texts, in the names of the side. */
static int diff_item_add_call(struct diff_items *l, struct text_numbers *numbers, int64_t name,
                              unsigned block, bool is_outlier, int64_t dur)
{
    int64_t number = text_numbers_get(numbers, name);

    if (number < 0)
        return (int)number;
    if (!ARRAY_RESERVE_ZEROED(l->items, l->cap, l->names.n))
        return -ENOMEM;
    struct diff_item *item = &l->items[number];
    if ((size_t)number == l->n) {
        l->n++;
        *item = (struct diff_item){.name = l->names.items[number],
                                   .normal = kernel_name_normal(l->names.items[number]),
                                   .match = SIZE_MAX};
        if (!item->normal)
            return -ENOMEM;
    }
    item->calls[block].above += (double)dur;
    item->calls[block].below++;
    item->steady += is_outlier ? 0 : (double)dur;
    return 0;
}

static void finish_items(struct diff_items *l)
{
    for (size_t i = 0; i < l->n; i++) {
        struct diff_item *item = &l->items[i];
        double calls = 0, sum = 0;
        for (size_t b = 0; b < STEP_BLOCKS; b++) {
            calls += item->calls[b].below;
            sum += item->calls[b].above;
        }
        item->mean = calls > 0 ? sum / calls : 0;
        item->count = calls / l->side->n_steps;
        item->sum = sum / l->side->n_steps;
        item->steady = l->is_of_time ? NAN : item->steady / l->side->n_steady;
    }
}

/* Without steps, blocks are equal parts of the time. */
static unsigned block_at(int64_t ts, int64_t from, int64_t to)
{
    double part = to > from ? ((double)ts - (double)from) / ((double)to - (double)from) : 0;

    return (unsigned)fmin(fmax(part * STEP_BLOCKS, 0), STEP_BLOCKS - 1);
}

static int gather_work_of_steps(struct analysis *a, size_t rank, struct diff_items *ret)
{
    _cleanup_(freep) uint32_t *blocks = NULL;
    _cleanup_(freep) bool *outliers = NULL;
    _cleanup_(text_numbers_done) struct text_numbers numbers = {a->ranks[rank].columns, &ret->names, NULL};
    const struct gpu_work *work;
    const struct steps *steps = NULL;
    int r = analysis_all_gpu(a, rank, &work);

    if (r >= 0)
        r = analysis_steps(a, rank, &steps);
    if (r >= 0)
        r = step_blocks_of_rank(a, rank, &blocks);
    if (r >= 0)
        r = step_sample_outliers_of_rank(&ret->side->sample, a, rank, blocks, &outliers);
    for (size_t i = 0; r >= 0 && steps->n > 0 && i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        uint32_t owner = steps->owners[i];
        if (e->kind == _GPU_KIND_MAX)
            continue;
        if (owner == STEP_NONE)
            ret->outside_ns += (double)(e->end - e->ts);
        else if (blocks[owner] != STEP_NONE)
            r = diff_item_add_call(ret, &numbers, e->name, blocks[owner], outliers[owner], e->end - e->ts);
    }
    return r;
}

static int diff_item_gather_work(struct analysis *a, size_t rank, struct diff_items *ret)
{
    _cleanup_(text_numbers_done) struct text_numbers numbers = {a->ranks[rank].columns, &ret->names, NULL};
    const struct gpu_work *work;
    int r = analysis_gpu(a, rank, &work);

    if (r < 0)
        return r;
    struct interval span = gpu_work_span(work);
    for (size_t i = 0; i < work->n && r >= 0; i++) {
        const struct gpu_event *e = &work->events[i];
        if (e->kind != _GPU_KIND_MAX)
            r = diff_item_add_call(ret, &numbers, e->name, block_at(e->ts, span.from, span.to), false,
                                   e->end - e->ts);
    }
    return r;
}

static int gather_kernels(const struct diff *d, const struct diff_side *side, struct diff_items *ret)
{
    struct analysis *a = side->analysis;
    int r = 0;

    ret->side = side;
    for (size_t rank = 0; rank < a->n && r >= 0; rank++)
        r = d->by_step ? gather_work_of_steps(a, rank, ret) : diff_item_gather_work(a, rank, ret);
    finish_items(ret);
    return r;
}

/* The items by number of their text, + 1; 0 where there is none. Texts of a trace are all different. */
static void number_items(const struct columns *c, const struct diff_items *l, uint32_t *ret)
{
    uint32_t n_texts = columns_texts(c);

    for (size_t i = 0; i < l->n; i++) {
        int64_t text = columns_find_text(c, l->items[i].name.p, l->items[i].name.size);
        if (text >= 0 && text < n_texts && l->items[i].match == SIZE_MAX)
            ret[text] = (uint32_t)i + 1;
    }
}

/* Places only those that are left over, by the instance that is the first from the middle of the trace on: a
 * kernel's position in the sequence hardly varies. */
static int place_leftovers(struct analysis *a, struct diff_items *l)
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

static double outside_share(const struct diff_items *l)
{
    double within = 0;

    for (size_t i = 0; i < l->n; i++)
        within += l->items[i].sum * l->side->n_steps;
    return l->outside_ns > 0 ? l->outside_ns / (l->outside_ns + within) : 0;
}

int diff_make_kernels(struct diff *d, struct report_rows *ret)
{
    _cleanup_(items_done) struct diff_items before = {0}, after = {0};
    int r = gather_kernels(d, &d->before, &before);

    report_rows_init(ret, diff_kernels.n_columns);
    if (r >= 0)
        r = gather_kernels(d, &d->after, &after);
    d->before.outside_share = outside_share(&before);
    d->after.outside_share = outside_share(&after);
    if (r >= 0)
        r = diff_item_match(&before, &after, key_name);
    if (r >= 0)
        r = diff_item_match(&before, &after, key_normal);
    if (r >= 0)
        r = place_leftovers(d->before.analysis, &before);
    if (r >= 0)
        r = place_leftovers(d->after.analysis, &after);
    if (r >= 0)
        r = diff_item_match(&before, &after, key_place);
    return r < 0 ? r : diff_item_emit_rows(d, &before, &after, ret);
}

/* The step whose annotation is open when a call of the host begins, or was the last to be open. */
static uint32_t step_of_call(const struct steps *steps, int64_t ts)
{
    size_t next = FIRST_THAT(i, 0, steps->n, steps->items[i].host_ts > ts);

    return next > 0 && (next < steps->n || ts < steps->items[next - 1].host_end) ? (uint32_t)(next - 1)
                                                                                 : STEP_NONE;
}

/* The blocks of the calls of a rank. Steps that were found on the GPU do not identify their calls:
 * then, as without steps, blocks are equal parts of the time. */
struct call_blocks {
    const struct host_calls *calls;
    const struct intervals *times;
    const struct steps *steps;
    const uint32_t *of_steps;
    const bool *outliers; /* of the steps */
    bool by_step;
};

static uint32_t block_of_call(const struct call_blocks *b, const struct host_call *call, bool *ret_is_outlier)
{
    struct host_call first = host_call_get(b->calls, 0), last = host_call_get(b->calls, b->calls->n - 1);

    if (b->by_step) {
        uint32_t step = step_of_call(b->steps, call->ts);
        *ret_is_outlier = step != STEP_NONE && b->outliers[step];
        return step == STEP_NONE ? STEP_NONE : b->of_steps[step];
    }
    return analysis_has_call(b->times, call) ? block_at(call->ts, first.ts, last.ts) : STEP_NONE;
}

static int gather_ops_of_rank(const struct diff *d, struct analysis *a, size_t rank, struct diff_items *ret)
{
    _cleanup_(text_numbers_done) struct text_numbers numbers = {a->ranks[rank].columns, &ret->names, NULL};
    _cleanup_(freep) uint32_t *of_steps = NULL;
    _cleanup_(freep) bool *outliers = NULL;
    struct call_blocks blocks = {0};
    int r = analysis_ops(a, rank, &blocks.calls);

    if (r >= 0)
        r = analysis_times(a, rank, &blocks.times);
    if (r >= 0)
        r = analysis_steps(a, rank, &blocks.steps);
    if (r >= 0)
        r = step_blocks_of_rank(a, rank, &of_steps);
    if (r >= 0)
        r = step_sample_outliers_of_rank(&ret->side->sample, a, rank, of_steps, &outliers);
    if (r < 0)
        return r;
    blocks.of_steps = of_steps;
    blocks.outliers = outliers;
    blocks.by_step = d->by_step && blocks.steps->n > 0 && blocks.steps->items[0].host_ts != COLUMN_NULL;
    ret->is_of_time |= !blocks.by_step;
    for (size_t i = 0; r >= 0 && i < blocks.calls->n; i++) {
        struct host_call call = host_call_get(blocks.calls, i);
        bool is_outlier = false;
        uint32_t block = call.kind == HOST_OP ? block_of_call(&blocks, &call, &is_outlier) : STEP_NONE;
        if (block != STEP_NONE)
            r = diff_item_add_call(ret, &numbers, call.name, block, is_outlier, call.end - call.ts);
    }
    return r;
}

static int gather_ops(const struct diff *d, const struct diff_side *side, struct diff_items *ret)
{
    int r = 0;

    ret->side = side;
    for (size_t rank = 0; rank < side->analysis->n && r >= 0; rank++)
        r = gather_ops_of_rank(d, side->analysis, rank, ret);
    finish_items(ret);
    return r;
}

int diff_make_ops(struct diff *d, struct report_rows *ret)
{
    _cleanup_(items_done) struct diff_items before = {0}, after = {0};
    int r = gather_ops(d, &d->before, &before);

    report_rows_init(ret, diff_ops.n_columns);
    if (r >= 0)
        r = gather_ops(d, &d->after, &after);
    if (r >= 0)
        r = diff_item_match(&before, &after, key_name);
    if (r >= 0)
        r = diff_item_match(&before, &after, key_normal);
    return r < 0 ? r : diff_item_emit_rows(d, &before, &after, ret);
}
