/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The columns of all slices, unpacked: reports look at slices in any order, by their launches, parents and threads,
 * and a value of a packed column takes ten times as long. 29 bytes a slice.
 *
 * Values are checked on their way out of the columns (columns.h), so that each number of a text, track, thread or
 * slice here is one of the trace. Slices that the table does not have read as COLUMN_NULL or SLICE_NONE.
 */
#pragma once

#include "trace/columns/columns.h"

#define SLICE_NONE UINT64_MAX

/* H(identifier, word for people) */
#define HOST_KINDS(H)                                                                                        \
    H(OTHER, "other")                                                                                        \
    H(OP, "operator")                                                                                        \
    H(ANNOTATION, "annotation")                                                                              \
    H(PYTHON, "python")                                                                                      \
    H(RUNTIME, "runtime")

enum host_kind {
#define H(identifier, word) HOST_##identifier,
    HOST_KINDS(H)
#undef H
        _HOST_KIND_MAX,
};

const char *host_kind_name(enum host_kind kind);
/* Of a category, by either of its names. */
enum host_kind host_kind_of(struct text category);

struct slice_table {
    uint64_t n;
    int64_t *ts, *dur;               /* ts ascends */
    uint32_t *name, *track, *parent; /* COLUMN_NO_CODE for COLUMN_NULL */
    uint8_t *kind;                   /* enum host_kind, of its category */
    uint64_t n_tracks, n_threads;
    uint32_t *thread_of; /* by track */
};

/* -ENOMEM. */
int slice_table_read(const struct columns *c, struct slice_table *ret);
void slice_table_done(struct slice_table *t);

static inline int64_t slice_ts(const struct slice_table *t, uint64_t slice)
{
    return slice < t->n ? t->ts[slice] : COLUMN_NULL;
}

static inline int64_t slice_dur(const struct slice_table *t, uint64_t slice)
{
    return slice < t->n ? t->dur[slice] : COLUMN_NULL;
}

static inline int64_t slice_table_number(const struct slice_table *t, const uint32_t *column, uint64_t slice)
{
    return slice < t->n && column[slice] != COLUMN_NO_CODE ? (int64_t)column[slice] : COLUMN_NULL;
}

static inline int64_t slice_name(const struct slice_table *t, uint64_t slice)
{
    return slice_table_number(t, t->name, slice);
}

static inline int64_t slice_track(const struct slice_table *t, uint64_t slice)
{
    return slice_table_number(t, t->track, slice);
}

static inline int64_t slice_thread(const struct slice_table *t, uint64_t slice)
{
    int64_t track = slice_track(t, slice);

    return track == COLUMN_NULL || t->thread_of[track] == COLUMN_NO_CODE ? COLUMN_NULL
                                                                         : (int64_t)t->thread_of[track];
}

static inline enum host_kind slice_kind(const struct slice_table *t, uint64_t slice)
{
    return slice < t->n ? (enum host_kind)t->kind[slice] : HOST_OTHER;
}

/* The slice around it. */
static inline uint64_t slice_parent(const struct slice_table *t, uint64_t slice)
{
    return slice < t->n && t->parent[slice] != COLUMN_NO_CODE ? t->parent[slice] : SLICE_NONE;
}
