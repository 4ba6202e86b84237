/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/slice_sums.h"

#include "base/array.h"
#include "trace/reports/host.h"

#include <errno.h>
#include <math.h>

struct slice_sample {
    int64_t label, value;
};

int64_t slice_sums_new(struct slice_sums *sums, struct text label)
{
    if (!ARRAY_RESERVE(sums->items, sums->cap, sums->n + 1))
        return -ENOMEM;
    sums->items[sums->n] = (struct slice_sum){.label = label, .number = (int64_t)sums->n};
    return (int64_t)sums->n++;
}

int64_t slice_sums_label(struct slice_sums *sums, struct text label)
{
    for (size_t i = 0; i < sums->n; i++)
        if (text_equal(sums->items[i].label, label))
            return (int64_t)i;
    return slice_sums_new(sums, label);
}

int slice_sums_add(struct slice_sums *sums, int64_t label, int64_t value)
{
    if (label < 0)
        return (int)label;
    if (!ARRAY_RESERVE(sums->samples, sums->cap_samples, sums->n_samples + 1))
        return -ENOMEM;
    sums->samples[sums->n_samples++] = (struct slice_sample){label, value};
    return 0;
}

static int compare_samples(const void *x, const void *y)
{
    const struct slice_sample *a = x, *b = y;

    if (a->label != b->label)
        return a->label < b->label ? -1 : 1;
    return (a->value > b->value) - (a->value < b->value);
}

static int slice_sums_compare_sums(const void *x, const void *y)
{
    const struct slice_sum *a = x, *b = y;

    if (a->sum != b->sum)
        return a->sum > b->sum ? -1 : 1;
    int order =
        memcmp(a->label.p ? a->label.p : "", b->label.p ? b->label.p : "", MIN(a->label.size, b->label.size));
    return order ? order : (a->label.size > b->label.size) - (a->label.size < b->label.size);
}

/* n samples of one label, the smallest first. */
static void slice_sums_count(const struct slice_sample *samples, size_t n, struct slice_sum *ret)
{
    double sum = 0, squares = 0;

    ret->count = n;
    ret->min = samples[0].value;
    ret->max = samples[n - 1].value;
    for (size_t i = 0; i < n; i++) {
        sum += (double)samples[i].value;
        if (__builtin_add_overflow(ret->sum, samples[i].value, &ret->sum))
            ret->sum = INT64_MAX;
    }
    ret->mean = sum / (double)n;
    const struct slice_sample *below = &samples[(n - 1) / 2], *above = &samples[n / 2];
    ret->median = ((double)below->value + (double)above->value) / 2;
    for (size_t i = 0; i < n; i++)
        squares += ((double)samples[i].value - ret->mean) * ((double)samples[i].value - ret->mean);
    ret->std = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
}

void slice_sums_finish(struct slice_sums *sums)
{
    size_t kept = 0;

    if (sums->n_samples > 0)
        qsort(sums->samples, sums->n_samples, sizeof(*sums->samples), compare_samples);
    for (size_t i = 0, to; i < sums->n_samples; i = to) {
        int64_t label = sums->samples[i].label;
        for (to = i + 1; to < sums->n_samples && sums->samples[to].label == label;)
            to++;
        slice_sums_count(&sums->samples[i], to - i, &sums->items[label]);
    }
    for (size_t i = 0; i < sums->n; i++) {
        if (sums->items[i].count == 0)
            continue;
        if (__builtin_add_overflow(sums->total, sums->items[i].sum, &sums->total))
            sums->total = INT64_MAX;
        sums->items[kept++] = sums->items[i];
    }
    sums->n = kept;
    if (kept > 0)
        qsort(sums->items, kept, sizeof(*sums->items), slice_sums_compare_sums);
}

void slice_sums_done(struct slice_sums *sums)
{
    free(sums->items);
    free(sums->samples);
    *sums = (struct slice_sums){0};
}

bool category_is_one_of(const struct columns *c, int64_t category, const char *const *categories)
{
    struct text text = columns_text(c, category);

    for (; *categories; categories++)
        if (text_is(text, *categories))
            return true;
    return false;
}

static int slice_sums_add_group(const struct columns *c, uint64_t group, const struct intervals *times,
                                struct slice_sums *ret)
{
    struct name_rows places = name_rows_of(c, group);
    int64_t label = slice_sums_new(ret, columns_text(c, columns_get(c, COL_name_name, group)));
    int r = 0;

    for (uint64_t i = places.first; i < places.end && r >= 0; i++) {
        int64_t slice = columns_get(c, COL_by_name_slice, i);
        if (slice == COLUMN_NULL)
            continue;
        int64_t dur = columns_get(c, COL_slice_dur, (uint64_t)slice);
        if (dur >= 0 && intervals_find(times, columns_get(c, COL_slice_ts, (uint64_t)slice)))
            r = slice_sums_add(ret, label, dur);
    }
    return r;
}

int slice_sums_of_categories(struct analysis *a, size_t rank, const char *const *categories,
                             struct slice_sums *ret)
{
    const struct columns *c = a->ranks[rank].columns;
    const struct intervals *times;
    int r = analysis_times(a, rank, &times);

    *ret = (struct slice_sums){0};
    for (uint64_t group = 0; r >= 0 && group < columns_rows(c, TABLE_name); group++)
        if (category_is_one_of(c, columns_get(c, COL_name_category, group), categories))
            r = slice_sums_add_group(c, group, times, ret);
    if (r >= 0)
        slice_sums_finish(ret);
    return r;
}
