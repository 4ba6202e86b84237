/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/tracks.h"

#include "trace/read/sum.h"

void tracks_init(struct tracks *t, struct budget *budget)
{
    *t = (struct tracks){.budget = budget, .singles.budget = budget};
}

void tracks_done(struct tracks *t)
{
    if (!t->budget)
        return;
    for (size_t i = 0; i < t->threads_cap; i++)
        budget_free(t->budget, t->threads[i].overflow, t->threads[i].overflow_cap,
                    sizeof(*t->threads[i].overflow));
    budget_free(t->budget, t->threads, t->threads_cap, sizeof(*t->threads));
    budget_free(t->budget, t->list, t->cap, sizeof(*t->list));
    map_done(&t->singles);
    *t = (struct tracks){0};
}

int64_t tracks_add(struct tracks *t, enum track_kind kind, uint32_t name, uint32_t thread, uint32_t process)
{
    int r = budget_grow(t->budget, &t->list, &t->cap, t->n + 1, sizeof(*t->list));

    if (r < 0)
        return r;
    if (t->n == TRACK_NONE)
        return -E2BIG;
    t->list[t->n] = (struct track){.kind = (uint8_t)kind, .name = name, .thread = thread, .process = process};
    return (int64_t)t->n++;
}

static struct thread_tracks *thread_tracks(struct tracks *t, uint32_t thread)
{
    if (thread >= t->threads_cap &&
        budget_grow(t->budget, &t->threads, &t->threads_cap, (size_t)thread + 1, sizeof(*t->threads)) < 0)
        return NULL;
    return &t->threads[thread];
}

int64_t tracks_thread(struct tracks *t, uint32_t thread, uint32_t process)
{
    struct thread_tracks *own = thread_tracks(t, thread);

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

/* 1, 0, or an error, as nest_close(). What is in the way stays there until it has ended: most of many tracks
 * are left alone by their last answer. */
static int is_free(struct overflow_track *o, struct nest *nest, int64_t ts, int64_t dur)
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
    struct thread_tracks *own = thread_tracks(t, thread);
    int64_t r;

    if (!own)
        return -ENOMEM;
    for (size_t i = 0; i < own->n_overflow; i++) {
        r = is_free(&own->overflow[i], nest, ts, dur);
        if (r != 0)
            return r < 0 ? r : own->overflow[i].track;
    }
    if (own->n_overflow == OVERFLOW_TRACKS_MAX)
        return -E2BIG;
    r = budget_grow(t->budget, &own->overflow, &own->overflow_cap, own->n_overflow + 1,
                    sizeof(*own->overflow));
    if (r == 0)
        r = tracks_add(t, TRACK_OVERFLOW, 0, thread, process);
    if (r >= 0)
        own->overflow[own->n_overflow++] = (struct overflow_track){INT64_MIN, (uint32_t)r};
    return r;
}

/* The one track of its kind with this name and process. */
static int64_t single(struct tracks *t, enum track_kind kind, uint32_t name, uint32_t process)
{
    uint32_t *known = map_put(&t->singles, (uint64_t)process << 32 | name, kind, TRACK_NONE);
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

int64_t tracks_counter(struct tracks *t, uint32_t name, uint32_t process)
{
    return single(t, TRACK_COUNTER, name, process);
}

int64_t tracks_process_instants(struct tracks *t, uint32_t process)
{
    return single(t, TRACK_PROCESS_INSTANTS, 0, process);
}

int64_t tracks_global_instants(struct tracks *t)
{
    return single(t, TRACK_GLOBAL_INSTANTS, 0, TRACK_NONE);
}

static int64_t row_or_null(uint32_t number)
{
    return number == TRACK_NONE ? COLUMN_NULL : number;
}

void tracks_write(const struct tracks *t, struct columns_writer *w)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct track *k = &t->list[i];

        columns_put(w, COL_track_kind, k->kind);
        columns_put(w, COL_track_name, k->name == 0 ? COLUMN_NULL : k->name);
        columns_put(w, COL_track_thread, row_or_null(k->thread));
        columns_put(w, COL_track_process, row_or_null(k->process));
        columns_put(w, COL_track_first, k->slices > 0 ? k->first : COLUMN_NULL);
        columns_put(w, COL_track_count, k->slices);
    }
}
