/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/nest.h"

#include "trace/read/events.h"
#include "trace/read/sum.h"

void nest_init(struct nest *n, struct budget *budget, struct rows *rows)
{
    *n = (struct nest){.budget = budget, .rows = rows};
}

void nest_done(struct nest *n)
{
    for (size_t i = 0; i < n->cap; i++)
        budget_free(n->budget, n->tracks[i].open, n->tracks[i].cap, sizeof(*n->tracks[i].open));
    if (n->budget)
        budget_free(n->budget, n->tracks, n->cap, sizeof(*n->tracks));
    *n = (struct nest){0};
}

static struct nest_track *track_of(struct nest *n, uint32_t track)
{
    return track < n->cap ? &n->tracks[track] : NULL;
}

static int pop(struct nest *n, struct nest_track *t)
{
    const struct open_slice *s = &t->open[--t->n];

    t->unfinished -= s->dur == UNFINISHED;
    if (t->n == 0)
        t->irregular = false;
    return rows_finish(n->rows, s->row, s->dur, s->child);
}

/* Gives slice i its duration, and its parent the difference. */
static void set_dur(struct nest_track *t, size_t i, int64_t dur)
{
    struct open_slice *s = &t->open[i];
    int64_t before = s->dur == UNFINISHED ? 0 : s->dur;

    t->unfinished -= s->dur == UNFINISHED;
    s->dur = dur;
    if (i > 0)
        t->open[i - 1].child = sum_of(t->open[i - 1].child, dur - before);
}

static bool ended(const struct open_slice *s, int64_t ts, int64_t dur)
{
    int64_t end = sum_of(s->ts, s->dur);

    /* Instants at one time lie in each other. */
    return end < ts || (end == ts && (s->dur != 0 || dur != 0));
}

static bool overlaps(const struct open_slice *s, int64_t ts, int64_t dur)
{
    int64_t end = sum_of(s->ts, s->dur);

    return ts < end && sum_of(ts, dur) > end;
}

/* Every end lies within the one around it: whoever fits into the innermost fits into all. */
static int close_regular(struct nest *n, struct nest_track *t, int64_t ts, int64_t dur)
{
    int r = 0;

    while (r == 0 && t->n > 0 && ended(&t->open[t->n - 1], ts, dur))
        r = pop(n, t);
    if (r < 0)
        return r;
    return t->n == 0 || dur == UNFINISHED || !overlaps(&t->open[t->n - 1], ts, dur);
}

/* The complete slice i ended with unfinished ones in it: they end with it. */
static int cut(struct nest *n, struct nest_track *t, size_t i)
{
    int64_t end = sum_of(t->open[i].ts, t->open[i].dur);
    int r = 0;

    n->n_cut++;
    while (r == 0 && t->n > i) {
        if (t->n - 1 > i)
            set_dur(t, t->n - 1, MAX(difference_of(end, t->open[t->n - 1].ts), 0));
        r = pop(n, t);
    }
    return r;
}

/* As trace_processor does it, step by step: it looks at every open slice and closes the innermost. */
static int close_any(struct nest *n, struct nest_track *t, int64_t ts, int64_t dur)
{
    bool unfinished_within = false;
    int r = 0;

    for (size_t i = t->n; r == 0 && i-- > 0;) {
        const struct open_slice *s = &t->open[i];

        if (s->dur == UNFINISHED) {
            unfinished_within = true;
        } else if (unfinished_within) {
            if (ts > sum_of(s->ts, s->dur)) {
                r = cut(n, t, i);
                unfinished_within = false;
            }
        } else if (ended(s, ts, dur)) {
            r = pop(n, t);
        } else if (dur != UNFINISHED && overlaps(s, ts, dur)) {
            return 0;
        }
    }
    return r < 0 ? r : 1;
}

int nest_close(struct nest *n, uint32_t track, int64_t ts, int64_t dur)
{
    struct nest_track *t = track_of(n, track);

    if (!t || t->n == t->unfinished)
        return 1;
    if (t->unfinished == 0 && !t->irregular)
        return close_regular(n, t, ts, dur);
    return close_any(n, t, ts, dur);
}

int nest_push(struct nest *n, uint32_t track, const struct open_slice *s)
{
    struct nest_track *t;
    int r = budget_grow(n->budget, &n->tracks, &n->cap, (size_t)track + 1, sizeof(*n->tracks));

    if (r < 0)
        return r;
    t = &n->tracks[track];
    r = budget_grow(n->budget, &t->open, &t->cap, t->n + 1, sizeof(*t->open));
    if (r < 0)
        return r;
    t->open[t->n++] = *s;
    if (s->dur == UNFINISHED)
        t->unfinished++;
    else if (t->n > 1)
        t->open[t->n - 2].child = sum_of(t->open[t->n - 2].child, s->dur);
    return 0;
}

static bool matches(const struct open_slice *s, uint16_t category, uint32_t name)
{
    return s->dur == UNFINISHED && (category == CATEGORY_NONE || category == s->category) &&
           (name == 0 || s->name == 0 || name == s->name);
}

int nest_end(struct nest *n, uint32_t track, int64_t ts, uint16_t category, uint32_t name)
{
    struct nest_track *t = track_of(n, track);
    size_t i = t ? t->n : 0;
    int r = 0;

    for (; i > 0 && !matches(&t->open[i - 1], category, name); i--)
        ;
    if (i == 0)
        return 0;
    set_dur(t, i - 1, difference_of(ts, t->open[i - 1].ts));
    if (i == t->n)
        r = pop(n, t);
    else
        t->irregular = true;
    return r < 0 ? r : 1;
}

int nest_finish(struct nest *n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n->cap; i++)
        while (r == 0 && n->tracks[i].n > 0)
            r = pop(n, &n->tracks[i]);
    return r;
}
