/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of merging share: rows, open slices, tracks, lanes, flows, and slices.
 * merge.c uses them for each event in order of time.
 */
#pragma once

#include "trace/read/merge_output.h"

/* -- Rows, open slices and tracks (tracks.c) */

/*
 * Data of every slice until all of them are read: the input of its later sort orders, and the columns that
 * can change while it is open.
 */

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

struct open_page;

struct rows {
    struct spill *spill;
    struct budget *budget;
    uint64_t n;
    /* ts, track and group: the offset of each block in the spill. The writer's thread's. */
    uint64_t *fixed;
    size_t n_fixed, fixed_cap;
    /* dur and child: for each block of rows its page, while one of its slices is open, and then its offset in
     * the spill. */
    struct open_page **pages;
    uint64_t *offsets;
    size_t pages_cap, offsets_cap;
    struct open_page *unused;
};

void rows_done(struct rows *r);

/* Adds a row; its number is the count of earlier rows. -E2BIG if there are more than ROWS_MAX. */
int rows_add(struct rows *r);
/* Adds the fixed columns of the next block of rows: _ROW_FIXED arrays of BLOCK_ROWS values, of which the first n count;
 * fewer than BLOCK_ROWS only in the last. May be called in another thread than the others. */
int rows_put_fixed(struct rows *r, const int64_t *columns, size_t n);
/* Called once for each row, when its values are final. */
int rows_finish(struct rows *r, uint32_t row, int64_t dur, int64_t child);

/* Called when every row is finished and all fixed columns are there; then rows_read() returns _ROW_MAX columns, like
 * spill_log_read(). */
int rows_flush(struct rows *r);
int rows_read(struct rows *r, uint64_t first, int64_t *ret_columns, size_t *ret_n);

static inline uint64_t rows_count(const struct rows *r)
{
    return r->n;
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

/* -- Lanes (lanes.c) */

/*
 * Lanes: the slices of a track at one depth, which end in the order in which they began. Each lane keeps its
 * slices as they end, all but the last ones in the spill.
 */

struct lane {
    uint64_t n;
    struct lane_slice *last; /* those that are not in the spill */
    uint64_t *offsets;       /* in the spill, of BLOCK_ROWS slices each */
    size_t last_cap, offsets_cap;
};

/* The lanes of a track by their depth. */
struct track_lanes {
    struct lane *lanes;
    size_t cap;
};

struct lanes {
    struct handover blocks;
    struct lane_block *block; /* being filled */
    /* Only for the writer's thread until lanes_write(). */
    struct budget *budget;
    struct spill *spill;
    struct track_lanes *tracks;
    size_t cap;
    int error;
};

int lanes_init(struct lanes *l, struct spill *spill, struct budget *budget, struct columns_writer *w);
void lanes_done(struct lanes *l);
/* Adds a slice that ended; depth is at most NEST_DEPTH_MAX. lanes_write() returns the error, if there is one. */
void lanes_add(struct lanes *l, size_t track, size_t depth, const struct open_slice *s);
/* Writes the tables lane, by_lane and lanemip after all slices were added. last_ns: the end of unfinished
 * slices. */
int lanes_write(struct lanes *l, int64_t last_ns, struct columns_writer *w);

/* Zeroed, but for budget, rows and lanes, it is empty; the same with most structs below. */
struct nest {
    struct budget *budget;
    struct rows *rows;
    struct lanes *lanes;
    struct nest_track *tracks;
    size_t cap;
    uint64_t
        n_cut; /* B that ended with the surrounding complete slice, counted once for each of these slices */
};

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

struct merge_thread_tracks {
    uint32_t own; /* + 1, 0 for none */
    struct overflow_track *overflow;
    size_t n_overflow, overflow_cap;
};

struct tracks {
    struct budget *budget;
    struct track *list;
    size_t n, cap;
    struct merge_thread_tracks *threads;
    size_t threads_cap;
    struct number_map singles; /* counters, and instants of processes and of all */
};

void tracks_done(struct tracks *t);

/* Each returns the track's number, or an error. process is the thread's. */
int64_t tracks_add(struct tracks *t, enum track_kind kind, uint32_t name, uint32_t thread, uint32_t process);
int64_t tracks_thread(struct tracks *t, uint32_t thread, uint32_t process);
/* Returns the track on which a slice that overlaps others of its thread nests; -E2BIG at the limit of
 * tracks. */
int64_t tracks_overflow(struct tracks *t, struct nest *nest, uint32_t thread, uint32_t process, int64_t ts,
                        int64_t dur);
/* Returns the only track of its kind with this name and process. */
int64_t tracks_single(struct tracks *t, enum track_kind kind, uint32_t name, uint32_t process);

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

struct async_row {
    uint32_t track; /* TRACK_NONE until a slice lies on it */
    uint32_t owner; /* the id that uses it */
    uint32_t open;
    uint32_t next_free; /* + 1 */
    bool listed;        /* in the list of free rows; it may have been taken since */
};

struct async_set {
    uint32_t free; /* row + 1 */
};

struct async_id {
    uint32_t set;
    uint32_t row; /* its owner may be another id by now */
};

struct async {
    struct tracks *tracks;
    struct number_map numbers; /* of (process, category), of sets, of ids */
    uint32_t n_scopes;
    struct async_set *sets;
    struct async_id *ids;
    struct async_row *rows;
    size_t n_sets, n_ids, n_rows, sets_cap, ids_cap, rows_cap;
};

void async_done(struct async *a);
/* Returns the track of an event, or an error; -ENOENT for an end on a track without slices. */
int64_t async_track(struct async *a, enum event_phase phase, uint32_t process, uint16_t category, int64_t id,
                    uint32_t name);

/* -- Flows (flow.c) */

/*
 * Flows (arrows) between slices, bound in the same way as by trace_processor's flow tracker. A flow is
 * identified by its id, name and category.
 */

struct flow_kind {
    int64_t category; /* string; COLUMN_NULL if absent */
    uint32_t name;
};

/* Start of a flow that was seen before. */
struct flow_start {
    int64_t ts;
    uint32_t row;
};

/* A flow end that waits for the next slice of its thread. */
struct flow_end {
    int64_t id;
    uint64_t offset;
    uint32_t kind;
    uint32_t next; /* of the thread, the first one after the last */
};

struct flows {
    struct columns_writer *writer;
    struct budget *budget;
    struct defects *defects;
    struct number_map kind_numbers;
    struct flow_kind *kinds;
    struct flow_end *ends;
    uint32_t *waiting; /* for each thread: its last end + 1 */
    size_t n_kinds, n_ends;
    size_t kinds_cap, ends_cap, waiting_cap;
    uint32_t free_end; /* the last one + 1, in a ring as well */
    struct handover blocks;
    struct flow_block *block; /* being filled */
    size_t end;               /* the call of flows_finish() */
    /* Only for the writer's thread until flows_wait(). */
    struct number_map start_numbers; /* of id and kind */
    struct flow_start *starts;
    size_t n_starts, starts_cap;
    struct table_builder out;
    struct defects late_defects;
    int error;
};

int flows_init(struct flows *f, struct budget *budget, struct columns_writer *w, struct defects *defects);
void flows_done(struct flows *f);
/* category: the string of the event's category. top: the innermost open slice at the event, or NULL. */
int flows_event(struct flows *f, const struct event *e, int64_t category, const struct open_slice *top);
/* Called when a slice begins on the thread's own track. */
void flows_arrive(struct flows *f, uint32_t thread, const struct open_slice *s);
/* Called when there are no more events; flows_wait() returns when all is in the columns and defects are counted, with 0
 * or the first error. */
void flows_finish(struct flows *f);
int flows_wait(struct flows *f);

static inline bool flows_awaited(const struct flows *f, uint32_t thread)
{
    return thread < f->waiting_cap && f->waiting[thread] != 0;
}

/* -- Slices (slices.c) */

/* The groups of slices with the same category and name, and their sums. */

struct name_group {
    int64_t category; /* string, COLUMN_NULL without one */
    uint32_t name;
    uint32_t count;
    uint32_t first; /* of its part of by_name, set at the end */
    int64_t sum, min, max;
};

/* The category and the group of the latest slice of a name. */
struct latest_group {
    uint32_t group; /* + 1, 0 for none */
    uint16_t category;
};

struct name_groups {
    struct number_map numbers;
    struct name_group *groups;
    size_t n, cap;
    struct latest_group *latest; /* by name */
    size_t latest_cap;
};

/*
 * Writes slices into the columns: gives each its row, its position among the open slices of its track, its
 * group and its rows of arguments.
 */

/* Maps the numbers of an intake to those of the first one; NULL if they are the same. */
struct renumbering {
    uint32_t *strings, *threads, *processes;
    uint16_t *categories;
    size_t n_strings, n_threads, n_processes, n_categories;
};

/* Columns of a block of slices: those of the file, then what rows_put_fixed() takes too. */
enum {
    SLICE_NAME,
    SLICE_CATEGORY,
    SLICE_DEPTH,
    SLICE_PARENT,
    SLICE_OFFSET,
    SLICE_FLAGS,
    SLICE_TS,
    SLICE_TRACK,
    SLICE_GROUP,
    _SLICE_MAX,
    SLICE_FIXED = SLICE_TS,
};
_Static_assert(_SLICE_MAX - SLICE_FIXED == _ROW_FIXED, "the fixed columns are the last");

struct slice_block {
    struct slices *owner;
    size_t n;
    int64_t columns[_SLICE_MAX][BLOCK_ROWS];
};

struct slices {
    const struct intake *intake;
    struct columns_writer *writer;
    struct rows rows;
    struct nest nest;
    struct name_groups names;
    struct tracks tracks;
    struct lanes lanes;
    struct handover blocks;
    struct slice_block *block; /* being filled */
    int block_error;           /* the writer's thread's */
    struct args args;
    bool *gpu_categories;
    uint64_t n_gpu;
    int64_t first_ns, last_ns;
};

/* intake: the one that all others were merged into; it outlives the slices. */
int slices_init(struct slices *s, const struct intake *intake, struct spill *spill, struct budget *budget,
                struct columns_writer *w);
void slices_done(struct slices *s);

/* Adds a slice to a track on which nest_close() made way; e is numbered like the intake. Returns 1; 0 if the slice lies
 * too deep. */
int slices_put(struct slices *s, const struct event *e, uint32_t track, int64_t dur, unsigned flags);
/* Called after the last slice, while the cursors still exist: writes all data of slices that is not in the
 * columns yet. */
int slices_finish(struct slices *s, struct columns_writer *w);

static inline int64_t category_string(const struct intake *in, uint16_t category)
{
    return category == CATEGORY_NONE ? COLUMN_NULL : in->categories[category];
}
