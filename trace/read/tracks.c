/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/merge_internal.h"

#include "trace/read/sum.h"

/* -- Rows ----------------------------------------------------------------------------------------------- */

#define LATE_COLUMNS (_ROW_MAX - _ROW_FIXED)

struct open_page {
    struct open_page *next; /* of the unused ones */
    unsigned unfinished;
    int64_t columns[LATE_COLUMNS * BLOCK_ROWS];
};

void rows_done(struct rows *r)
{
    for (size_t i = 0; i < r->pages_cap; i++)
        BUDGET_FREE(r->budget, r->pages[i], 1);
    for (struct open_page *p = r->unused, *next; p; p = next) {
        next = p->next;
        BUDGET_FREE(r->budget, p, 1);
    }
    BUDGET_FREE(r->budget, r->pages, r->pages_cap);
    BUDGET_FREE(r->budget, r->offsets, r->offsets_cap);
    BUDGET_FREE(r->budget, r->fixed, r->fixed_cap);
}

static int rows_begin_page(struct rows *r, size_t block)
{
    struct open_page *p = r->unused;

    if (BUDGET_RESERVE(r->budget, r->pages, r->pages_cap, block + 1) < 0 ||
        BUDGET_RESERVE(r->budget, r->offsets, r->offsets_cap, block + 1) < 0)
        return -ENOMEM;
    if (p)
        r->unused = p->next;
    else
        p = budget_new(r->budget, 1, sizeof(*p));
    if (!p)
        return -ENOMEM;
    p->unfinished = BLOCK_ROWS;
    r->pages[block] = p;
    return 0;
}

static int rows_end_page(struct rows *r, size_t block, size_t n)
{
    struct open_page *p = r->pages[block];

    r->pages[block] = NULL;
    p->next = r->unused;
    r->unused = p;
    return packed_write(r->spill, p->columns, LATE_COLUMNS, n, &r->offsets[block]);
}

int rows_add(struct rows *r)
{
    if (r->n >= ROWS_MAX)
        return -E2BIG;
    if (r->n % BLOCK_ROWS == 0 && rows_begin_page(r, r->n / BLOCK_ROWS) < 0)
        return -ENOMEM;
    r->n++;
    return 0;
}

int rows_put_fixed(struct rows *r, const int64_t *columns, size_t n)
{
    int e = BUDGET_RESERVE(r->budget, r->fixed, r->fixed_cap, r->n_fixed + 1);

    return e < 0 ? e : packed_write(r->spill, columns, _ROW_FIXED, n, &r->fixed[r->n_fixed++]);
}

int rows_finish(struct rows *r, uint32_t row, int64_t dur, int64_t child)
{
    size_t block = row / BLOCK_ROWS, at = row % BLOCK_ROWS;
    struct open_page *p = r->pages[block];

    p->columns[(ROW_DUR - _ROW_FIXED) * BLOCK_ROWS + at] = dur;
    p->columns[(ROW_CHILD - _ROW_FIXED) * BLOCK_ROWS + at] = child;
    return --p->unfinished == 0 ? rows_end_page(r, block, BLOCK_ROWS) : 0;
}

int rows_flush(struct rows *r)
{
    size_t n = r->n % BLOCK_ROWS;

    return n > 0 ? rows_end_page(r, r->n / BLOCK_ROWS, n) : 0;
}

int rows_read(struct rows *r, uint64_t first, int64_t *ret_columns, size_t *ret_n)
{
    size_t n = first < r->n ? (size_t)MIN(r->n - first, (uint64_t)BLOCK_ROWS) : 0, block = first / BLOCK_ROWS;
    int e = 0;

    *ret_n = n;
    if (n > 0)
        e = packed_read(r->spill, r->fixed[block], _ROW_FIXED, n, ret_columns);
    if (n > 0 && e == 0)
        e = packed_read(r->spill, r->offsets[block], LATE_COLUMNS, n, ret_columns + _ROW_FIXED * BLOCK_ROWS);
    return e;
}

/* -- Open slices ---------------------------------------------------------------------------------------- */

void nest_done(struct nest *n)
{
    for (size_t i = 0; i < n->cap; i++)
        BUDGET_FREE(n->budget, n->tracks[i].open, n->tracks[i].cap);
    BUDGET_FREE(n->budget, n->tracks, n->cap);
}

static int nest_pop(struct nest *n, struct nest_track *t)
{
    const struct open_slice *s = &t->open[--t->n];

    t->unfinished -= s->dur == UNFINISHED;
    if (t->n == 0)
        t->irregular = false;
    lanes_add(n->lanes, (size_t)(t - n->tracks), t->n, s);
    return rows_finish(n->rows, s->row, s->dur, s->child);
}

/* Sets the duration of slice i, and adds it to the child time of its parent. */
static void nest_set_dur(struct nest_track *t, size_t i, int64_t dur)
{
    struct open_slice *s = &t->open[i];
    int64_t before = s->dur == UNFINISHED ? 0 : s->dur;

    t->unfinished -= s->dur == UNFINISHED;
    s->dur = dur;
    if (i > 0)
        t->open[i - 1].child = sum_of(t->open[i - 1].child, dur - before);
}

static bool nest_ended(const struct open_slice *s, int64_t ts, int64_t dur)
{
    int64_t end = sum_of(s->ts, s->dur);

    /* Instants at one time are nested in each other. */
    return end < ts || (end == ts && (s->dur != 0 || dur != 0));
}

static bool nest_overlaps(const struct open_slice *s, int64_t ts, int64_t dur)
{
    int64_t end = sum_of(s->ts, s->dur);

    return ts < end && sum_of(ts, dur) > end;
}

/* Every end lies within the surrounding slice: a slice that fits into the innermost fits into all. */
static int nest_close_regular(struct nest *n, struct nest_track *t, int64_t ts, int64_t dur)
{
    int r = 0;

    while (r == 0 && t->n > 0 && nest_ended(&t->open[t->n - 1], ts, dur))
        r = nest_pop(n, t);
    if (r < 0)
        return r;
    return t->n == 0 || dur == UNFINISHED || !nest_overlaps(&t->open[t->n - 1], ts, dur);
}

/* The complete slice i ended with unfinished slices in it: they end with it. */
static int nest_cut(struct nest *n, struct nest_track *t, size_t i)
{
    int64_t end = sum_of(t->open[i].ts, t->open[i].dur);
    int r = 0;

    n->n_cut++;
    while (r == 0 && t->n > i) {
        if (t->n - 1 > i)
            nest_set_dur(t, t->n - 1, MAX(difference_of(end, t->open[t->n - 1].ts), 0));
        r = nest_pop(n, t);
    }
    return r;
}

/* Follows trace_processor step by step: examines every open slice and closes the innermost. */
static int nest_close_any(struct nest *n, struct nest_track *t, int64_t ts, int64_t dur)
{
    bool unfinished_within = false;
    int r = 0;

    for (size_t i = t->n; r == 0 && i-- > 0;) {
        const struct open_slice *s = &t->open[i];

        if (s->dur == UNFINISHED) {
            unfinished_within = true;
        } else if (unfinished_within) {
            if (ts > sum_of(s->ts, s->dur)) {
                r = nest_cut(n, t, i);
                unfinished_within = false;
            }
        } else if (nest_ended(s, ts, dur)) {
            r = nest_pop(n, t);
        } else if (dur != UNFINISHED && nest_overlaps(s, ts, dur)) {
            return 0;
        }
    }
    return r < 0 ? r : 1;
}

int nest_close(struct nest *n, uint32_t track, int64_t ts, int64_t dur)
{
    struct nest_track *t = track < n->cap ? &n->tracks[track] : NULL;

    if (!t || t->n == t->unfinished)
        return 1;
    if (t->unfinished == 0 && !t->irregular)
        return nest_close_regular(n, t, ts, dur);
    return nest_close_any(n, t, ts, dur);
}

int nest_push(struct nest *n, uint32_t track, const struct open_slice *s)
{
    struct nest_track *t;
    int r = BUDGET_RESERVE(n->budget, n->tracks, n->cap, (size_t)track + 1);

    if (r < 0)
        return r;
    t = &n->tracks[track];
    r = BUDGET_RESERVE(n->budget, t->open, t->cap, t->n + 1);
    if (r < 0)
        return r;
    t->open[t->n++] = *s;
    if (s->dur == UNFINISHED)
        t->unfinished++;
    else if (t->n > 1)
        t->open[t->n - 2].child = sum_of(t->open[t->n - 2].child, s->dur);
    return 0;
}

static bool nest_matches(const struct open_slice *s, uint16_t category, uint32_t name)
{
    return s->dur == UNFINISHED && (category == CATEGORY_NONE || category == s->category) &&
           (name == 0 || s->name == 0 || name == s->name);
}

int nest_end(struct nest *n, uint32_t track, int64_t ts, uint16_t category, uint32_t name)
{
    struct nest_track *t = track < n->cap ? &n->tracks[track] : NULL;
    size_t i = t ? t->n : 0;
    int r = 0;

    for (; i > 0 && !nest_matches(&t->open[i - 1], category, name); i--)
        ;
    if (i == 0)
        return 0;
    nest_set_dur(t, i - 1, difference_of(ts, t->open[i - 1].ts));
    if (i == t->n)
        r = nest_pop(n, t);
    else
        t->irregular = true;
    return r < 0 ? r : 1;
}

int nest_finish(struct nest *n)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < n->cap; i++)
        while (r == 0 && n->tracks[i].n > 0)
            r = nest_pop(n, &n->tracks[i]);
    return r;
}

/* -- Tracks --------------------------------------------------------------------------------------------- */

void tracks_done(struct tracks *t)
{
    for (size_t i = 0; i < t->threads_cap; i++)
        BUDGET_FREE(t->budget, t->threads[i].overflow, t->threads[i].overflow_cap);
    BUDGET_FREE(t->budget, t->threads, t->threads_cap);
    BUDGET_FREE(t->budget, t->list, t->cap);
    number_map_done(&t->singles);
}

int64_t tracks_add(struct tracks *t, enum track_kind kind, uint32_t name, uint32_t thread, uint32_t process)
{
    int r = BUDGET_RESERVE(t->budget, t->list, t->cap, t->n + 1);

    if (r < 0)
        return r;
    if (t->n == TRACK_NONE)
        return -E2BIG;
    t->list[t->n] = (struct track){.kind = (uint8_t)kind, .name = name, .thread = thread, .process = process};
    return (int64_t)t->n++;
}

static struct merge_thread_tracks *tracks_of_thread(struct tracks *t, uint32_t thread)
{
    if (thread >= t->threads_cap &&
        BUDGET_RESERVE(t->budget, t->threads, t->threads_cap, (size_t)thread + 1) < 0)
        return NULL;
    return &t->threads[thread];
}

int64_t tracks_thread(struct tracks *t, uint32_t thread, uint32_t process)
{
    struct merge_thread_tracks *own = tracks_of_thread(t, thread);

    if (!own)
        return -ENOMEM;
    if (own->own == 0) {
        int64_t r = tracks_add(t, TRACK_THREAD, 0, thread, process);

        if (r < 0)
            return r;
        own->own = (uint32_t)r + 1;
    }
    return own->own - 1;
}

/* Returns 1, 0, or an error, like nest_close(). A blocking slice stays there until it has ended: most of
 * many tracks are skipped by their last result. */
static int tracks_is_free(struct overflow_track *o, struct nest *nest, int64_t ts, int64_t dur)
{
    if (ts < o->end && sum_of(ts, dur) > o->end)
        return 0;
    int r = nest_close(nest, o->track, ts, dur);
    const struct open_slice *top = nest_top(nest, o->track);
    o->end = r == 0 && top ? sum_of(top->ts, top->dur) : INT64_MIN;
    return r;
}

int64_t tracks_overflow(struct tracks *t, struct nest *nest, uint32_t thread, uint32_t process, int64_t ts,
                        int64_t dur)
{
    struct merge_thread_tracks *own = tracks_of_thread(t, thread);
    int64_t r;

    if (!own)
        return -ENOMEM;
    for (size_t i = 0; i < own->n_overflow; i++) {
        r = tracks_is_free(&own->overflow[i], nest, ts, dur);
        if (r != 0)
            return r < 0 ? r : own->overflow[i].track;
    }
    if (own->n_overflow == OVERFLOW_TRACKS_MAX)
        return -E2BIG;
    r = BUDGET_RESERVE(t->budget, own->overflow, own->overflow_cap, own->n_overflow + 1);
    if (r == 0)
        r = tracks_add(t, TRACK_OVERFLOW, 0, thread, process);
    if (r >= 0)
        own->overflow[own->n_overflow++] = (struct overflow_track){INT64_MIN, (uint32_t)r};
    return r;
}

int64_t tracks_single(struct tracks *t, enum track_kind kind, uint32_t name, uint32_t process)
{
    uint32_t *known = number_map_put(&t->singles, (uint64_t)process << 32 | name, kind, TRACK_NONE);
    int64_t r;

    if (!known)
        return -ENOMEM;
    if (*known != TRACK_NONE)
        return *known;
    r = tracks_add(t, kind, name, TRACK_NONE, process);
    if (r >= 0)
        *known = (uint32_t)r;
    return r;
}

static int64_t tracks_row_or_null(uint32_t number)
{
    return number == TRACK_NONE ? COLUMN_NULL : number;
}

void tracks_write(const struct tracks *t, struct columns_writer *w)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct track *k = &t->list[i];

        columns_put(w, COL_track_kind, k->kind);
        columns_put(w, COL_track_name, k->name == 0 ? COLUMN_NULL : k->name);
        columns_put(w, COL_track_thread, tracks_row_or_null(k->thread));
        columns_put(w, COL_track_process, tracks_row_or_null(k->process));
        columns_put(w, COL_track_first, k->slices > 0 ? k->first : COLUMN_NULL);
        columns_put(w, COL_track_count, k->slices);
    }
}

/* -- Tracks of asynchronous events ---------------------------------------------------------------------- */

#define ASYNC_ROW_NONE UINT32_MAX

/* Key of the map: the number of the scope follows the ids. */
enum {
    ASYNC_KEY_SCOPE, /* process and category */
    ASYNC_KEY_SET,   /* process and name */
    ASYNC_KEY_IDS,
};

void async_done(struct async *a)
{
    BUDGET_FREE(a->numbers.budget, a->sets, a->sets_cap);
    BUDGET_FREE(a->numbers.budget, a->ids, a->ids_cap);
    BUDGET_FREE(a->numbers.budget, a->rows, a->rows_cap);
    number_map_done(&a->numbers);
}

static struct async_id *async_find_id(struct async *a, uint32_t process, uint16_t category, int64_t id,
                                      uint32_t name)
{
    struct budget *b = a->numbers.budget;
    uint32_t *scope, *set, *number, set_number;

    scope = number_map_put(&a->numbers, (uint64_t)process << 16 | category, ASYNC_KEY_SCOPE, a->n_scopes);
    if (!scope || a->n_scopes == NUMBER_MAP_SUB_MAX - ASYNC_KEY_IDS)
        return NULL;
    a->n_scopes += *scope == a->n_scopes;
    number = number_map_put(&a->numbers, (uint64_t)id, ASYNC_KEY_IDS + *scope, (uint32_t)a->n_ids);
    if (!number || *number < a->n_ids)
        return number ? &a->ids[*number] : NULL;

    if (BUDGET_RESERVE(b, a->ids, a->ids_cap, a->n_ids + 1) < 0 ||
        BUDGET_RESERVE(b, a->sets, a->sets_cap, a->n_sets + 1) < 0)
        return NULL;
    set = number_map_put(&a->numbers, (uint64_t)process << 32 | name, ASYNC_KEY_SET, (uint32_t)a->n_sets);
    if (!set)
        return NULL;
    set_number = *set;
    a->n_sets += set_number == a->n_sets;
    a->ids[a->n_ids] = (struct async_id){set_number, ASYNC_ROW_NONE};
    return &a->ids[a->n_ids++];
}

static struct async_row *async_take_free(struct async *a, struct async_set *set)
{
    while (set->free != 0) {
        struct async_row *l = &a->rows[set->free - 1];

        set->free = l->next_free;
        l->listed = false;
        if (l->open == 0)
            return l;
    }
    return NULL;
}

static struct async_row *async_row_of(struct async *a, struct async_id *id)
{
    uint32_t owner = (uint32_t)(id - a->ids);

    if (id->row != ASYNC_ROW_NONE && a->rows[id->row].owner == owner)
        return &a->rows[id->row];
    struct async_row *l = async_take_free(a, &a->sets[id->set]);
    if (!l) {
        if (BUDGET_RESERVE(a->numbers.budget, a->rows, a->rows_cap, a->n_rows + 1) < 0)
            return NULL;
        l = &a->rows[a->n_rows++];
        l->track = TRACK_NONE;
    }
    l->owner = owner;
    id->row = (uint32_t)(l - a->rows);
    return l;
}

int64_t async_track(struct async *a, enum event_phase phase, uint32_t process, uint16_t category, int64_t id,
                    uint32_t name)
{
    struct async_id *i = async_find_id(a, process, category, id, name);
    struct async_row *l = i ? async_row_of(a, i) : NULL;

    if (!l)
        return -ENOMEM;
    if (phase == EVENT_ASYNC_BEGIN)
        l->open++;
    else if (phase == EVENT_ASYNC_END && l->open > 0)
        l->open--;
    if (l->open == 0 && !l->listed) {
        l->next_free = a->sets[i->set].free;
        a->sets[i->set].free = (uint32_t)(l - a->rows) + 1;
        l->listed = true;
    }
    if (l->track == TRACK_NONE) {
        int64_t r;

        if (phase == EVENT_ASYNC_END)
            return -ENOENT;
        r = tracks_add(a->tracks, TRACK_ASYNC, name, TRACK_NONE, process);
        if (r < 0)
            return r;
        l->track = (uint32_t)r;
    }
    return l->track;
}
