/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data of every slice until all of them are read: the input of its later sort orders, and the columns that
 * can change while it is open.
 */
#pragma once

#include "trace/columns/writer.h"
#include "trace/read/budget.h"
#include "trace/read/intake.h"
#include "trace/read/spill.h"

enum {
    ROW_TS,
    ROW_TRACK,
    ROW_GROUP, /* of its category and name */
    _ROW_FIXED,
    ROW_DUR = _ROW_FIXED,
    ROW_CHILD,
    _ROW_MAX,
};

#define ROWS_MAX ((uint64_t)UINT32_MAX - 1)
#define ROW_NONE UINT32_MAX

struct open_page;

struct rows {
    struct spill *spill;
    struct budget *budget;
    struct spill_log fixed;
    /* dur and child: for each block of rows its page, while one of its slices is open, and then its offset in
     * the spill. */
    struct open_page **pages;
    uint64_t *offsets;
    size_t pages_cap, offsets_cap;
    struct open_page *spare;
};

int rows_init(struct rows *r, struct spill *spill, struct budget *budget);
void rows_done(struct rows *r);

/* Adds a row; its number is the count of earlier rows. -E2BIG if there are more than ROWS_MAX. */
int rows_add(struct rows *r, int64_t ts, uint32_t track, uint32_t group);
/* Called once for each row, when its values are final. */
int rows_finish(struct rows *r, uint32_t row, int64_t dur, int64_t child);

/* Called when every row is finished; then rows_read() returns _ROW_MAX columns, like spill_log_read(). */
int rows_flush(struct rows *r);
int rows_read(struct rows *r, uint64_t first, int64_t *ret_columns, size_t *ret_n);

static inline uint64_t rows_count(const struct rows *r)
{
    return r->fixed.n;
}

/*
 * The open slices of each track, as in trace_processor's slice tracker: the parent of a slice, the B that
 * an E ends, and slices that do not nest.
 */

#define NEST_DEPTH_MAX 4096
#define UNFINISHED     (-1) /* the duration of a B without its E */

struct open_slice {
    int64_t ts, dur, child;
    uint32_t row, name;
    uint16_t category;
};

struct nest_track {
    struct open_slice *open; /* the outermost first */
    size_t n, cap;
    size_t unfinished;
    /* An inner slice may end after the surrounding slice; otherwise, without unfinished slices, none does. */
    bool irregular;
};

struct nest {
    struct budget *budget;
    struct rows *rows;
    struct nest_track *tracks;
    size_t cap;
    uint64_t
        n_cut; /* B that ended with the surrounding complete slice, counted once for each of these slices */
};

void nest_init(struct nest *n, struct budget *budget, struct rows *rows);
void nest_done(struct nest *n);

/*
 * Makes way for a slice or an E: finishes slices that ended before it. Returns 1; 0: the slice would
 * overlap an open one; < 0: an error.
 */
int nest_close(struct nest *n, uint32_t track, int64_t ts, int64_t dur);
/* After nest_close(), and after its row was added. */
int nest_push(struct nest *n, uint32_t track, const struct open_slice *s);
/* Also after nest_close(): ends the innermost unfinished slice that matches; name 0 and CATEGORY_NONE
 * match every one. Returns 1, or 0 without a match. */
int nest_end(struct nest *n, uint32_t track, int64_t ts, uint16_t category, uint32_t name);
/* Finishes all rows. */
int nest_finish(struct nest *n);

static inline const struct open_slice *nest_top(const struct nest *n, uint32_t track)
{
    const struct nest_track *t = track < n->cap ? &n->tracks[track] : NULL;

    return t && t->n > 0 ? &t->open[t->n - 1] : NULL;
}

static inline size_t nest_depth(const struct nest *n, uint32_t track)
{
    return track < n->cap ? n->tracks[track].n : 0;
}

/*
 * The track of an event. A track is created with its first slice or sample; tracks are numbered in that
 * order.
 */

#define TRACK_NONE UINT32_MAX
/* Maximum tracks of one thread for slices that do not nest. */
#define OVERFLOW_TRACKS_MAX 4096

struct track {
    uint8_t kind;
    uint32_t name;            /* string, 0 without one */
    uint32_t thread, process; /* TRACK_NONE without one */
    uint32_t slices;
    uint32_t first; /* of its part of by_track, set at the end */
};

struct overflow_track {
    int64_t end; /* of the slice that blocked the last one; INT64_MIN for none */
    uint32_t track;
};

struct thread_tracks {
    uint32_t own; /* + 1, 0 for none */
    struct overflow_track *overflow;
    size_t n_overflow, overflow_cap;
};

struct tracks {
    struct budget *budget;
    struct track *list;
    size_t n, cap;
    struct thread_tracks *threads;
    size_t threads_cap;
    struct number_map singles; /* counters, and instants of processes and of all */
};

void tracks_init(struct tracks *t, struct budget *budget);
void tracks_done(struct tracks *t);

/* Each returns the track's number, or an error. process is the thread's. */
int64_t tracks_add(struct tracks *t, enum track_kind kind, uint32_t name, uint32_t thread, uint32_t process);
int64_t tracks_thread(struct tracks *t, uint32_t thread, uint32_t process);
/* Returns the track on which a slice that overlaps others of its thread nests; -E2BIG at the limit of
 * tracks. */
int64_t tracks_overflow(struct tracks *t, struct nest *nest, uint32_t thread, uint32_t process, int64_t ts,
                        int64_t dur);
int64_t tracks_counter(struct tracks *t, uint32_t name, uint32_t process);
int64_t tracks_process_instants(struct tracks *t, uint32_t process);
int64_t tracks_global_instants(struct tracks *t);

/* For a thread that may have no track; TRACK_NONE then. */
static inline uint32_t tracks_known(const struct tracks *t, uint32_t thread)
{
    return thread < t->threads_cap ? t->threads[thread].own - 1 : TRACK_NONE;
}

void tracks_write(const struct tracks *t, struct columns_writer *w);

/*
 * The tracks of asynchronous events (b, n, e), as trace_processor's track compressor creates them: events
 * with the same process, category and id share a track, and ids whose first event had the same name reuse
 * each other's track when nothing is open on it.
 */

struct async_lane {
    uint32_t track; /* TRACK_NONE until a slice lies on it */
    uint32_t owner; /* the id that uses it */
    uint32_t open;
    uint32_t next_free; /* + 1 */
    bool listed;        /* in the list of free lanes; it may have been taken since */
};

struct async_set {
    uint32_t free; /* lane + 1 */
};

struct async_id {
    uint32_t set;
    uint32_t lane; /* its owner may be another id by now */
};

struct async {
    struct tracks *tracks;
    struct number_map numbers; /* of (process, category), of sets, of ids */
    uint32_t n_scopes;
    struct async_set *sets;
    struct async_id *ids;
    struct async_lane *lanes;
    size_t n_sets, n_ids, n_lanes, sets_cap, ids_cap, lanes_cap;
};

void async_init(struct async *a, struct tracks *tracks);
void async_done(struct async *a);
/* Returns the track of an event, or an error; -ENOENT for an end on a track without slices. */
int64_t async_track(struct async *a, enum event_phase phase, uint32_t process, uint16_t category, int64_t id,
                    uint32_t name);
