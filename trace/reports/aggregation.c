/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/aggregation.h"

#include "base/array.h"
#include "base/statistics.h"
#include <errno.h>
#include <math.h>

/* A value that is wanted in order. */
struct aggregation_sample {
    uint32_t group, value;
    int64_t number;
};

/* -- Items -------------------------------------------------------------------------------------------- */

int64_t gathering_number(struct gathering *g, int64_t number)
{
    g->is_out_of_memory = g->is_out_of_memory || number < 0;
    return number;
}

int64_t gathering_text(struct gathering *g, int64_t text)
{
    return gathering_number(g, text_numbers_get(&g->numbers, text));
}

int64_t gathering_name(struct gathering *g, struct text text)
{
    return gathering_number(g, name_table_number(&g->all->names, text));
}

int64_t gathering_nonempty(struct gathering *g, struct text text)
{
    return text.size > 0 ? gathering_name(g, text) : COLUMN_NULL;
}

int64_t gathering_is_new(struct gathering *g, struct group_key thing)
{
    size_t n = g->all->distinct.n;

    gathering_number(g, groups_number(&g->all->distinct, thing));
    return g->all->distinct.n > n;
}

static int group_value_add(struct aggregated *all, size_t group, unsigned i, int64_t number,
                           struct group_place position)
{
    struct group_value *v = &all->values[group * all->aggregation->n_values + i];

    if (v->n++ == 0) {
        v->first = v->min = v->max = number;
        v->min_at = v->max_at = position;
    } else if (number < v->min) {
        v->min = number, v->min_at = position;
    } else if (number > v->max) {
        v->max = number, v->max_at = position;
    }
    v->sum = add_time(v->sum, number);
    if (i == 0)
        all->totals[position.rank] = add_time(all->totals[position.rank], number);
    if (!(all->wanted >> i & 1))
        return 0;
    if (!ARRAY_RESERVE(all->samples, all->samples_cap, all->n_samples + 1))
        return -ENOMEM;
    all->samples[all->n_samples++] = (struct aggregation_sample){(uint32_t)group, i, number};
    return 0;
}

int gathering_add(struct gathering *g, struct group_key key, const int64_t *values, uint64_t slice)
{
    struct aggregated *all = g->all;
    unsigned n_values = all->aggregation->n_values;
    int r = 0;

    if (all->aggregation->by_rank)
        key.part[GROUP_PARTS - 1] = (int64_t)g->rank;
    int64_t group = g->is_out_of_memory ? -ENOMEM : groups_number(&all->groups, key);
    if (group < 0 || !ARRAY_RESERVE(all->items, all->items_cap, all->groups.n) ||
        !ARRAY_RESERVE_ZEROED(all->values, all->values_cap, all->groups.n * n_values))
        return -ENOMEM;
    if ((size_t)group == all->n)
        all->items[all->n++] = (struct group){.key = key, .rank = g->rank, .number = (size_t)group};
    for (unsigned i = 0; i < n_values && r >= 0; i++)
        if (values[i] != COLUMN_NULL)
            r = group_value_add(all, (size_t)group, i, values[i], (struct group_place){g->rank, slice});
    return r;
}

/* -- Groups ------------------------------------------------------------------------------------------- */

/* Brings the values of each group together, in order. */
static int aggregated_sort_values(struct aggregated *all)
{
    unsigned n_values = all->aggregation->n_values;
    size_t n = 0;

    all->sorted = malloc((all->n_samples + 1) * sizeof(*all->sorted));
    if (!all->sorted)
        return -ENOMEM;
    for (size_t i = 0; i < all->n * n_values; i++) {
        all->values[i].sorted = all->sorted + n;
        n += all->wanted >> i % n_values & 1 ? all->values[i].n : 0;
    }
    for (size_t i = 0; i < all->n_samples; i++)
        *all->values[all->samples[i].group * n_values + all->samples[i].value].sorted++ =
            all->samples[i].number;
    for (size_t i = 0; i < all->n * n_values; i++)
        if (all->wanted >> i % n_values & 1) {
            all->values[i].sorted -= all->values[i].n;
            sort_ns(all->values[i].sorted, all->values[i].n);
        }
    return 0;
}

static int group_compare(const void *x, const void *y, void *arg)
{
    const struct aggregated *all = arg;
    const struct aggregation *by = all->aggregation;
    const struct group *a = x, *b = y;

    if (by->by_rank && a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    for (unsigned i = 0; i < by->n_order; i++) {
        int64_t one = a->values[by->order[i]].sum, other = b->values[by->order[i]].sum;
        if (one != other)
            return one > other ? -1 : 1;
    }
    if (by->then_by_text) {
        struct text one = group_text(all, a, 0), other = group_text(all, b, 0);
        int order = memcmp(one.p, other.p, MIN(one.size, other.size));
        return order ? order : (one.size > other.size) - (one.size < other.size);
    }
    return (a->number > b->number) - (a->number < b->number);
}

static int aggregated_finish(struct aggregated *all)
{
    size_t kept = 0;
    int r = all->wanted ? aggregated_sort_values(all) : 0;

    for (size_t i = 0; i < all->n; i++) {
        all->items[i].values = &all->values[i * all->aggregation->n_values];
        if (all->items[i].values[0].n > 0)
            all->items[kept++] = all->items[i];
    }
    all->n = kept;
    if (kept > 0)
        qsort_r(all->items, kept, sizeof(*all->items), group_compare, all);
    return r;
}

int aggregate(struct analysis *a, const struct aggregation *aggregation, const void *arg, unsigned sorted,
              struct aggregated *ret)
{
    *ret = (struct aggregated){.aggregation = aggregation,
                               .analysis = a,
                               .totals = calloc(a->n + 1, sizeof(*ret->totals)),
                               .wanted = sorted};
    int r = ret->totals ? 0 : -ENOMEM;

    for (size_t rank = 0; rank < a->n && r >= 0; rank++) {
        struct gathering g = {
            .analysis = a, .rank = rank, .c = a->ranks[rank].columns, .arg = arg, .all = ret};
        g.numbers = (struct text_numbers){.c = g.c, .names = &ret->names};
        r = aggregation->gather(&g);
        text_numbers_done(&g.numbers);
    }
    for (size_t rank = 1; rank < a->n && !aggregation->by_rank && r >= 0; rank++)
        ret->totals[0] = add_time(ret->totals[0], ret->totals[rank]);
    return r < 0 ? r : aggregated_finish(ret);
}

void aggregated_done(struct aggregated *all)
{
    free(all->items);
    free(all->totals);
    free(all->values);
    free(all->samples);
    free(all->sorted);
    name_table_done(&all->names);
    groups_done(&all->groups);
    groups_done(&all->distinct);
    *all = (struct aggregated){0};
}

struct text group_text(const struct aggregated *all, const struct group *group, unsigned key)
{
    int64_t number = group->key.part[key];
    struct text none = {0};

    return number < 0 ? none : all->names.items[number];
}

/* -- Reports ------------------------------------------------------------------------------------------ */

static int64_t start_of(const struct aggregated *all, struct group_place at)
{
    return analysis_since_first(all->analysis, at.rank,
                                columns_get(all->analysis->ranks[at.rank].columns, COL_slice_ts, at.slice));
}

static double value_mean(const struct group_value *v)
{
    return v->n > 0 ? (double)v->sum / (double)v->n : NAN;
}

static double value_median(const struct group_value *v)
{
    return v->n > 0 ? ((double)v->sorted[(v->n - 1) / 2] + (double)v->sorted[v->n / 2]) / 2 : NAN;
}

static void emit_rounded(struct report_rows *ret, double value)
{
    emit_int(ret, isfinite(value) ? llround(value) : COLUMN_NULL);
}

static void emit_figure(const struct aggregated *all, const struct group *g, const struct figure *f,
                        struct report_rows *ret)
{
    const struct group_value *v = &g->values[f->of];
    const struct rank *ranks = all->analysis->ranks;

    switch (f->kind) {
    case FIGURE_TEXT:
        if (g->key.part[f->of] < 0)
            emit_null(ret);
        else
            emit_text(ret, group_text(all, g, f->of));
        break;
    case FIGURE_KEY:
        emit_int(ret, g->key.part[f->of]);
        break;
    case FIGURE_FIRST:
        emit_int(ret, v->n > 0 ? v->first : COLUMN_NULL);
        break;
    case FIGURE_RANK:
        emit_int(ret, ranks[g->rank].number);
        break;
    case FIGURE_COUNT:
        emit_int(ret, (int64_t)v->n);
        break;
    case FIGURE_SUM:
        emit_int(ret, v->sum);
        break;
    case FIGURE_MEAN:
        emit_rounded(ret, value_mean(v));
        break;
    case FIGURE_PART:
        emit_real(ret, value_mean(v));
        break;
    case FIGURE_MIN:
        emit_int(ret, v->n > 0 ? v->min : COLUMN_NULL);
        break;
    case FIGURE_MAX:
        emit_int(ret, v->n > 0 ? v->max : COLUMN_NULL);
        break;
    case FIGURE_MEDIAN:
        emit_rounded(ret, value_median(v));
        break;
    case FIGURE_P50:
        emit_int(ret, v->n > 0 ? percentile(v->sorted, v->n, 50) : COLUMN_NULL);
        break;
    case FIGURE_P99:
        emit_int(ret, v->n > 0 ? percentile(v->sorted, v->n, 99) : COLUMN_NULL);
        break;
    case FIGURE_DEVIATION:
        emit_rounded(ret, sample_deviation(v->sorted, v->n, value_mean(v)));
        break;
    case FIGURE_SHARE:
        emit_real(ret, row_share(v->sum, all->totals[all->aggregation->by_rank ? g->rank : 0]));
        break;
    case FIGURE_MIN_RANK:
        emit_int(ret, ranks[v->min_at.rank].number);
        break;
    case FIGURE_MIN_SLICE:
        emit_int(ret, (int64_t)v->min_at.slice);
        break;
    case FIGURE_MIN_START:
        emit_int(ret, start_of(all, v->min_at));
        break;
    case FIGURE_MAX_RANK:
        emit_int(ret, ranks[v->max_at.rank].number);
        break;
    case FIGURE_MAX_SLICE:
        emit_int(ret, (int64_t)v->max_at.slice);
        break;
    case FIGURE_MAX_START:
        emit_int(ret, start_of(all, v->max_at));
        break;
    case FIGURE_OTHER:
        f->emit(all, g, ret);
        break;
    case FIGURE_NONE:
        emit_null(ret);
    }
}

int aggregation_make(const struct report *report, struct analysis *a, struct report_rows *ret)
{
    static const unsigned of_all_values =
        1u << FIGURE_P50 | 1u << FIGURE_P99 | 1u << FIGURE_MEDIAN | 1u << FIGURE_DEVIATION;
    _cleanup_(aggregated_done) struct aggregated all = {0};
    unsigned sorted = 0;

    for (size_t i = 0; i < report->n_columns; i++)
        if (of_all_values >> report->columns[i].figure.kind & 1)
            sorted |= 1u << report->columns[i].figure.of;
    int r = aggregate(a, report->aggregation, report->aggregated, sorted, &all);
    for (size_t row = 0; row < all.n && r >= 0; row++)
        for (size_t i = 0; i < report->n_columns; i++)
            emit_figure(&all, &all.items[row], &report->columns[i].figure, ret);
    return r;
}
