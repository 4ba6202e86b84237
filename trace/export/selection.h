/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a trace that is exported, as the formats need it: which slices, their arguments, the arrows
 * between them, labels of processes, threads and tracks, and numbers for the strings that a format refers to.
 */
#pragma once

#include "trace/columns/columns.h"
#include "trace/read/sum.h"

struct selection {
    const struct columns *c;
    int64_t from, to; /* of the trace's stamps */
    uint64_t end;     /* slices from this row on begin too late */
    int64_t last;     /* where slices that never ended end */
    bool everything;  /* of every category */
    int64_t *categories;
    size_t n_categories;
};

int selection_init(struct selection *s, const struct columns *c, int64_t from, int64_t to, const char *only);
void selection_done(struct selection *s);

bool selection_has(const struct selection *s, uint64_t row);
bool selection_has_time(const struct selection *s, int64_t ts);
/* Where a slice ends, be it that of the trace. */
int64_t selection_slice_end(const struct selection *s, uint64_t row);

/* A bound of a time, moved; one that is none stays so. */
static inline int64_t selection_bound(int64_t bound, int64_t by)
{
    return bound == INT64_MIN || bound == INT64_MAX ? bound : sum_of(bound, by);
}

#define ARG_ARRAY_MAX 3

struct slice_arg {
    const char *key;
    enum column column; /* of its first element */
    enum column_kind kind;
    bool is_array;
    unsigned n;
    int64_t values[ARG_ARRAY_MAX]; /* COLUMN_NULL only within an array */
};

struct slice_args {
    const struct columns *c;
    uint64_t rows[ARG_GROUPS]; /* where the slice's row is, if it has one */
    bool has[ARG_GROUPS];
    size_t next; /* in column_args[] */
};

/* A struct that is zero but for c is ready. */
void args_seek(struct slice_args *a, uint64_t slice);
bool args_next(struct slice_args *a, struct slice_arg *ret);

struct arrow_end {
    uint64_t slice;
    uint64_t flow; /* row */
    bool arrives;
};

struct arrows {
    struct arrow_end *ends;
    size_t n;
};

/* A zeroed struct may be given to arrows_done(). */
int arrows_init(struct arrows *a, const struct selection *s);
void arrows_done(struct arrows *a);
/* Those at a slice. */
const struct arrow_end *arrows_at(const struct arrows *a, uint64_t slice, size_t *ret_n);

/* The caller frees them. */
char *label_process(const struct columns *c, int64_t process);
char *label_thread(const struct columns *c, int64_t thread);
/* "process / thread", the same for all tracks of a thread. */
char *label_track(const struct columns *c, uint64_t track);

struct numbering {
    uint32_t texts;  /* of the trace; the one after them is no string */
    uint32_t *given; /* of each string, its number + 1; 0 for none */
    uint32_t n;
};

/* A zeroed struct may be given to numbering_done(). */
int numbering_init(struct numbering *n, const struct columns *c);
void numbering_done(struct numbering *n);
/* The same for the same string. */
uint32_t numbering_of(struct numbering *n, int64_t text);
/* The strings that have numbers, in their order, to be freed; NULL where there is no memory. */
int64_t *numbering_list(const struct numbering *n);
