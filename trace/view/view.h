/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace as a timeline shows it: which tracks there are, what each pixel of a lane shows, and everything about one slice,
 * a name, or a part. Each answer is computed out of the columns alone; nothing here knows processes or HTTP.
 *
 * Times of questions and answers are nanoseconds after the first slice; those of the columns are absolute. Columns are
 * not trusted: numbers out of range read as absent, sums saturate, and whatever follows rows has a limit.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include "trace/columns/lane_table.h"
#include "trace/sql/traces.h"

/* Strings of one block of names. */
#define VIEW_NAMES_BLOCK 1024
/* Bytes of a name in an answer: longer ones are cut. */
#define VIEW_NAME_MAX 8192
/* Pixels of a tile, and lanes. */
#define VIEW_TILE_PIXELS    1024
#define VIEW_TILE_LANES_MAX 1024
#define VIEW_TILE_LEVEL_MAX 62
/* Counted up when tiles or names change for the same columns: clients keep them for ever. */
#define VIEW_FORMAT  1
#define VIEW_SUM_MAX 16

enum view_track_kind {
    VIEW_GPU,
    VIEW_THREAD,
    VIEW_PYTHON,
    VIEW_ASYNC,
    VIEW_INSTANT,
    _VIEW_TRACK_KIND_MAX,
};

/* A track with slices. */
struct view_track {
    uint64_t track; /* its row */
    uint64_t
        owner; /* the track below which it is shown: its own row, or that of the track that it overflows from */
    enum view_track_kind kind;
    bool is_overflow;
    bool is_of_profiler;    /* the span of the recording, which is busy all the time */
    uint64_t lane, n_lanes; /* which follow each other */
    uint64_t n_slices;
    int64_t busy;           /* of its first lane */
    int64_t device, stream; /* COLUMN_NULL where unknown */
};

/* Not to be changed from outside. */
struct trace_view {
    struct columns *c;
    struct lane_table lanes;
    struct heads heads; /* of the original, if there is one */
    int64_t first_ns, last_ns;
    char sum[VIEW_SUM_MAX];
    uint32_t n_texts;
    /* Rows of table `name` by their text: the first of each, and for each row the next one; COLUMN_NO_CODE ends. */
    uint32_t *groups, *next_group;
    int64_t *group_categories; /* by row of table name */
    uint64_t n_groups;
    uint8_t *classes;          /* of each text: VIEW_CLASS_... or enum kernel_class + VIEW_CLASS_KNOWN */
    struct view_track *tracks; /* in the order of the picture */
    size_t n_tracks;
    uint32_t *track_at;     /* by row of table track: its position in tracks; COLUMN_NO_CODE */
    char *timeline, *steps; /* the answers, once they were made */
    struct tile_cache *tiles;
};

/* Closes source_fd, -1 for none, with the view; columns_fd stays the caller's. -EBADMSG with a reason (to be freed) for
 * columns that cannot be used. */
int trace_view_open(int columns_fd, int take_source_fd, struct trace_view **ret, char **ret_reason);
struct trace_view *trace_view_free(struct trace_view *v);
DEFINE_CLEANUP(struct trace_view *, trace_view_free)

/* tracks.c: fills tracks. -ENOMEM. */
int view_read_tracks(struct trace_view *v);
/* Titles for people. The caller drops them. */
json_t *view_track_title(const struct trace_view *v, const struct view_track *t);
json_t *view_process_title(const struct trace_view *v, int64_t track);
const char *view_track_kind_name(enum view_track_kind kind);

/* -- What all answers use -- */

/* Untrusted times saturate. */
int64_t view_since(const struct trace_view *v, int64_t ns);
int64_t view_absolute(const struct trace_view *v, int64_t since);
int64_t view_add(int64_t a, int64_t b);
/* What a slice lasts, an unfinished one until the end of the trace. */
int64_t view_shown_dur(const struct trace_view *v, int64_t ts, int64_t dur);

/* A string of the columns as JSON, at most VIEW_NAME_MAX bytes of it. */
json_t *view_text(const struct trace_view *v, int64_t number);
/* The word for the kernel class of a string, "" where it names nothing that a GPU did. */
const char *view_class(const struct trace_view *v, int64_t name);
/* The lane of a depth of a track, or of a slice; or COLUMN_NULL. */
int64_t view_lane_at(const struct trace_view *v, int64_t track, int64_t depth);
int64_t view_lane_of(const struct trace_view *v, uint64_t slice);
/* {slice, name, begin, dur, lane} */
json_t *view_ref(const struct trace_view *v, uint64_t slice);

/* Rows [first, end) of by_name: slices of one name and category, in order of time. */
struct view_group {
    int64_t category;
    uint64_t first, end;
};
struct view_group view_group_rows(const struct trace_view *v, uint32_t group);
/* The group of a name and category, COLUMN_NO_CODE where there is none. */
uint32_t view_group_of(const struct trace_view *v, int64_t name, int64_t category);
/* The first row of [first, end) of by_name with a slice from `slice` on. */
uint64_t view_group_find(const struct trace_view *v, uint64_t first, uint64_t end, uint64_t slice);

/* The part [from, to) of a question, as absolute times; the complete trace by default. -EINVAL. */
struct view_part {
    int64_t from, to;
};
int view_read_part(const struct trace_view *v, const json_t *request, struct view_part *ret,
                   struct problem *p);
/* An integer of a request. -EINVAL. */
int view_read_number(const json_t *request, const char *name, int64_t min, int64_t max, int64_t *ret,
                     struct problem *p);
/* "A-B" of lanes: [first, end). All by default; -EINVAL, -ENOENT. */
int view_read_lanes(const struct trace_view *v, const json_t *request, uint64_t *ret_first, uint64_t *ret_end,
                    struct problem *p);

/* -- Answers (answer.c) -- */

struct view_answer {
    bool is_json; /* else bytes */
    bool is_gzip;
    char *bytes; /* the caller frees them */
    size_t size;
};

/* Answers one request, a JSON object: {"ask": what, "gzip"?: whether the answer may be compressed, ...}. A negative errno
 * value with a problem. */
int view_answer(struct trace_view *v, const char *request, size_t size, struct view_answer *ret,
                struct problem *p);

/* Each is given the request, and returns an answer or a negative errno value with a problem. */
int view_answer_timeline(struct trace_view *v, const json_t *request, FILE *out, struct problem *p);
int view_answer_steps(struct trace_view *v, const json_t *request, FILE *out, struct problem *p);
int view_answer_names(struct trace_view *v, const json_t *request, FILE *out, struct problem *p);
int view_answer_tile(struct trace_view *v, const json_t *request, FILE *out, struct problem *p);
int view_answer_counters(struct trace_view *v, const json_t *request, FILE *out, struct problem *p);
int view_answer_slice(struct trace_view *v, const json_t *request, FILE *out, struct problem *p);
int view_answer_search(struct trace_view *v, const json_t *request, FILE *out, struct problem *p);
int view_answer_selection(struct trace_view *v, const json_t *request, FILE *out, struct problem *p);
/* Writes and drops the body. -ENOMEM with a problem. */
int view_write_json(FILE *out, json_t *take_body, struct problem *p);
