/* SPDX-License-Identifier: Apache-2.0 */
/* Who arrives last where ranks meet, how long everybody waits for them, and what they did meanwhile. */
#include "base/statistics.h"
#include "trace/reports/encounter.h"
#include "trace/reports/reports.h"

#include <errno.h>

static const struct report_column columns[] = {
    {"rank", UNIT_ID, "which rank"},
    {"last_count", UNIT_COUNT, "collectives at which it arrived last"},
    {"last_share", UNIT_SHARE, "of all collectives that every rank has", IMPORTANCE_HIGH},
    {"wait_caused_ns", UNIT_NS, "what the others waited for it together, where it was last"},
    {"delay_ns", UNIT_NS,
     "by which it came after the last but one: what would be saved if it had not been last", IMPORTANCE_HIGH},
    {"waited_ns", UNIT_NS, "what it waited for others"},
    {"mean_late_ns", UNIT_NS, "how long after the first it arrived, on average", IMPORTANCE_EXTRA},
    {"meanwhile", UNIT_TEXT,
     "what it did longer than the others before it was last: a kind of kernel, or nothing"},
    {"meanwhile_ns", UNIT_NS, "how much longer than the median rank, over all those times"},
};

/* Of one rank. */
struct tally {
    uint64_t last;
    int64_t caused, delay, waited, late;
    /* Beside the median rank, before it was last: by class of kernel, and idle at the end. */
    int64_t longer[_KERNEL_CLASS_MAX + 1];
};

#define IDLE _KERNEL_CLASS_MAX

/* What a rank did between two times, by class. */
static void sum_classes(const struct gpu_work *work, int64_t from, int64_t to, size_t *at, int64_t *ret)
{
    int64_t covered = from;

    memset(ret, 0, (_KERNEL_CLASS_MAX + 1) * sizeof(*ret));
    while (*at < work->n && work->events[*at].ts < from)
        ++*at;
    for (size_t i = *at; i < work->n && work->events[i].ts < to; i++) {
        const struct gpu_event *e = &work->events[i];
        int64_t end = MIN(e->end, to);
        ret[e->class] += end - e->ts;
        if (e->ts > covered)
            ret[IDLE] += e->ts - covered;
        covered = MAX(covered, end);
    }
    if (to > covered)
        ret[IDLE] += to - covered;
}

struct watch {
    struct analysis *a;
    const struct gpu_work **works;
    size_t *places; /* in each rank's work */
    int64_t *left;  /* when each rank left the collective before */
    int64_t *did;   /* ranks x (classes + idle) */
    int64_t *sorted;
};

static void watch_done(struct watch *w)
{
    free(w->works);
    free(w->places);
    free(w->left);
    free(w->did);
    free(w->sorted);
}

static int watch_init(struct watch *w, struct analysis *a)
{
    *w = (struct watch){.a = a,
                        .works = calloc(a->n, sizeof(*w->works)),
                        .places = calloc(a->n, sizeof(*w->places)),
                        .left = calloc(a->n, sizeof(*w->left)),
                        .did = calloc(a->n, (_KERNEL_CLASS_MAX + 1) * sizeof(*w->did)),
                        .sorted = calloc(a->n, sizeof(*w->sorted))};
    int r = w->works && w->places && w->left && w->did && w->sorted ? 0 : -ENOMEM;

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        r = analysis_gpu(a, i, &w->works[i]);
        w->left[i] = INT64_MIN;
    }
    return r;
}

/* Before an encounter every rank did something; what the last did longer than the median is counted for it.
 */
static void compare_doings(struct watch *w, const struct encounter *e, size_t last, struct tally *tally)
{
    const size_t width = _KERNEL_CLASS_MAX + 1;

    for (size_t rank = 0; rank < w->a->n; rank++)
        sum_classes(w->works[rank], w->left[rank], e->events[rank]->ts, &w->places[rank],
                    w->did + rank * width);
    for (size_t class = 0; class < width; class ++) {
        for (size_t rank = 0; rank < w->a->n; rank++)
            w->sorted[rank] = w->did[rank * width + class];
        sort_ns(w->sorted, w->a->n);
        tally->longer[class] += w->did[last * width + class] - percentile(w->sorted, w->a->n, 50);
    }
}

static void count(struct watch *w, const struct encounter *e, struct tally *tallies)
{
    const struct analysis *a = w->a;
    size_t last = encounter_last(a, e);
    int64_t latest = encounter_start(a, e, last), second = INT64_MIN, first = INT64_MAX;
    bool first_of_all = w->left[0] == INT64_MIN;

    for (size_t rank = 0; rank < a->n; rank++) {
        int64_t start = encounter_start(a, e, rank);
        first = MIN(first, start);
        if (rank != last)
            second = MAX(second, start);
    }
    for (size_t rank = 0; rank < a->n; rank++) {
        int64_t start = encounter_start(a, e, rank);
        tallies[rank].waited += latest - start;
        tallies[rank].late += start - first;
        tallies[last].caused += latest - start;
    }
    tallies[last].last++;
    tallies[last].delay += latest - second;
    if (!first_of_all)
        compare_doings(w, e, last, &tallies[last]);
    for (size_t rank = 0; rank < a->n; rank++)
        w->left[rank] = e->events[rank]->end;
}

static void put_meanwhile(struct report_rows *ret, const struct tally *t)
{
    size_t most = 0;

    for (size_t i = 1; i <= IDLE; i++)
        if (t->longer[i] > t->longer[most])
            most = i;
    if (t->longer[most] <= 0) {
        put_null(ret);
        put_null(ret);
        return;
    }
    put_str(ret, most == IDLE ? "idle" : kernel_class_name((enum kernel_class)most));
    put_int(ret, t->longer[most]);
}

static int make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(encounters_done) struct encounters met = {0};
    _cleanup_(watch_done) struct watch watch = {0};
    _cleanup_(freep) struct tally *tallies = calloc(a->n, sizeof(*tallies));
    int r = tallies ? encounters_find(a, &met) : -ENOMEM;

    if (r >= 0)
        r = met.n > 0 ? watch_init(&watch, a) : -ENODATA;
    if (r < 0)
        return r;
    for (size_t i = 0; i < met.n; i++)
        count(&watch, &met.items[i], tallies);
    for (size_t rank = 0; rank < a->n; rank++) {
        const struct tally *t = &tallies[rank];
        put_int(ret, a->ranks[rank].number);
        put_int(ret, (int64_t)t->last);
        put_share(ret, (int64_t)t->last, (int64_t)met.n);
        put_int(ret, t->caused);
        put_int(ret, t->delay);
        put_int(ret, t->waited);
        put_int(ret, t->late / (int64_t)met.n);
        put_meanwhile(ret, t);
    }
    return report_rows_sort(ret, 3, true);
}

const struct report report_stragglers = {
    .name = "stragglers",
    .title = "who arrives last at collectives, and how long the others wait",
    .how = "A collective is the same on every rank where it is the same operation of the same group and its "
           "place among those is the "
           "same; arrival is when its kernel begins, on the clock that all ranks share. wait_caused_ns "
           "follows TraceLens (latest start "
           "less own start, over all ranks).",
    .needs = NEEDS_GPU | NEEDS_RANKS,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
