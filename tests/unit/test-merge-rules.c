/* SPDX-License-Identifier: Apache-2.0 */
/* Merging beside its rules, written down plainly: what both make of random events is the same. */
#include "tests/unit/merge-fixture.h"

/* Every open slice of a track is looked at for every event. */
struct plain_slice {
    int64_t ts, dur;
    int parent, depth;
    uint32_t name;
};

struct plain {
    struct plain_slice slices[20000];
    int n;
    int stack[DEPTH_MOST];
    int n_stack;
    int n_misplaced;
};

static bool plain_close(struct plain *p, int64_t ts, int64_t dur)
{
    bool unfinished = false;

    for (int i = p->n_stack - 1; i >= 0; i--) {
        const struct plain_slice *s = &p->slices[p->stack[i]];
        int64_t end = s->ts + s->dur;

        if (s->dur == -1) {
            unfinished = true;
            continue;
        }
        if (unfinished) {
            if (ts <= end)
                continue;
            p->n_misplaced++;
            for (int k = i + 1; k < p->n_stack; k++)
                p->slices[p->stack[k]].dur = MAX(end - p->slices[p->stack[k]].ts, 0);
            p->n_stack = i;
            unfinished = false;
            continue;
        }
        if (end < ts || (end == ts && !(s->dur == 0 && dur == 0))) {
            p->n_stack--;
            continue;
        }
        if (dur != -1 && ts < end && ts + dur > end)
            return false;
    }
    return true;
}

static void plain_begin(struct plain *p, int64_t ts, int64_t dur, uint32_t name)
{
    struct plain_slice *s = &p->slices[p->n];

    *s = (struct plain_slice){ts, dur, p->n_stack > 0 ? p->stack[p->n_stack - 1] : -1, p->n_stack, name};
    p->stack[p->n_stack++] = p->n++;
}

static void plain_end(struct plain *p, int64_t ts, uint32_t name)
{
    plain_close(p, ts, -1);
    for (int i = p->n_stack - 1; i >= 0; i--) {
        struct plain_slice *s = &p->slices[p->stack[i]];

        if (s->dur != -1 || (name != 0 && s->name != name))
            continue;
        s->dur = ts - s->ts;
        p->n_stack -= i == p->n_stack - 1;
        return;
    }
    p->n_misplaced++;
}

struct plain_event {
    int64_t ts, rank;
    struct event event;
    int number;
};

static int by_time_and_rank(const void *pa, const void *pb)
{
    const struct plain_event *a = pa, *b = pb;

    if (a->ts != b->ts)
        return a->ts < b->ts ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->number - b->number;
}

static void plain_event(struct plain *p, const struct event *e)
{
    if (e->phase == EVENT_END) {
        plain_end(p, e->ts, e->name);
    } else {
        int64_t dur = e->phase == EVENT_BEGIN ? -1 : e->dur;

        if (plain_close(p, e->ts, dur))
            plain_begin(p, e->ts, dur, e->name);
    }
}

static struct event *add_any(struct trace *t, int64_t ts, uint64_t *random)
{
    static const char *const names[] = {"a", "b", "c"};
    const char *name = names[next_random(random) % ARRAY_SIZE(names)];
    int64_t dur = (int64_t)(next_random(random) % 40);

    switch (next_random(random) % 10) {
    case 0 ... 2:
        return add(t, EVENT_BEGIN, 7, ts, 0, "c", name);
    case 3 ... 5:
        return add(t, EVENT_END, 7, ts, 0, NULL, next_random(random) % 2 ? name : NULL);
    case 6:
        return add(t, EVENT_INSTANT, 7, ts, 0, "c", name);
    default:
        return add(t, EVENT_COMPLETE, 7, ts, dur, "c", name);
    }
}

/* Any mixture of X, B, E and instants on one thread gives what the plain rules give; what overlaps has a
 * track of its own, so that it does not matter here. */
static void check_against_plain_rules(struct trace *t, uint64_t seed, int n)
{
    _cleanup_(freep) struct plain *p = calloc(1, sizeof(*p));
    _cleanup_(freep) struct plain_event *events = calloc((size_t)n, sizeof(*events));
    int64_t ts = 0;
    uint64_t row = 0;

    for (int i = 0; i < n; i++) {
        struct event *e;

        ts += (int64_t)(next_random(&seed) % 6);
        /* not always in order of time; in several runs */
        e = add_any(t, ts - (int64_t)(next_random(&seed) % 20), &seed);
        events[i] = (struct plain_event){e->ts, event_rank(e), *e, i};
        if (i % 100 == 99)
            end_run(t);
    }
    qsort(events, (size_t)n, sizeof(*events), by_time_and_rank);
    for (int i = 0; i < n; i++)
        plain_event(p, &events[i].event);
    merge(t);

    for (uint64_t i = 0; i < t->summary.slices; i++) {
        const struct plain_slice *s = &p->slices[row];
        int64_t parent = get(t, COL_slice_parent, i), child = 0;

        if (track_kind_of(t, i) != TRACK_THREAD)
            continue;
        assert_int_equal(get(t, COL_slice_ts, i), s->ts);
        assert_int_equal(get(t, COL_slice_dur, i), s->dur);
        assert_int_equal(get(t, COL_slice_depth, i), s->depth);
        assert_int_equal(get(t, COL_slice_name, i), s->name);
        assert_int_equal(parent == COLUMN_NULL ? -1 : get(t, COL_slice_ts, (uint64_t)parent),
                         s->parent < 0 ? -1 : p->slices[s->parent].ts);
        for (int k = 0; k < p->n; k++)
            if (p->slices[k].parent == (int)row && p->slices[k].dur > 0)
                child += p->slices[k].dur;
        assert_int_equal(get(t, COL_slice_child, i), child);
        row++;
    }
    assert_int_equal(row, p->n);
    assert_int_equal(t->summary.defects[DEFECT_misplaced_end], p->n_misplaced);
}

static void test_agrees_with_plain_rules(void **state)
{
    for (uint64_t seed = 0; seed < 30; seed++) {
        void *t = NULL;

        assert_int_equal(setup(&t), 0);
        check_against_plain_rules(t, seed, 800);
        teardown(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees_with_plain_rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
