/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The selected part of a trace, as the formats need it: slices, their arguments, the arrows between them, labels of
 * processes, threads and tracks, and numbers for the strings that a format refers to.
 */
#pragma once

#include "trace/columns/columns.h"
#include "trace/read/sum.h"

struct selection {
    const struct columns *c;
    int64_t from, to; /* timestamps of the trace */
    uint64_t end;     /* the first row that begins too late */
    int64_t last;     /* end of unfinished slices */
    bool everything;  /* of every category */
    int64_t *categories;
    size_t n_categories;
};

int selection_init(struct selection *s, const struct columns *c, int64_t from, int64_t to, const char *only);
void selection_done(struct selection *s);

/* Whether every slice is selected; faster to ask than for each. */
static inline bool selection_has_all(const struct selection *s)
{
    return s->everything && s->from == INT64_MIN;
}
bool selection_has(const struct selection *s, uint64_t row);
bool selection_has_time(const struct selection *s, int64_t ts);
/* The end of a slice; an unfinished one ends with the trace. */
int64_t selection_slice_end(const struct selection *s, uint64_t row);

/* A bound of a time, moved; INT64_MIN and INT64_MAX stay. */
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
    uint64_t rows[ARG_GROUPS]; /* the row of the slice, if has[] */
    bool has[ARG_GROUPS];
    size_t next; /* in column_args[] */
};

/* The struct is zeroed except for c. */
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
/* The ends at a slice. */
const struct arrow_end *arrows_at(const struct arrows *a, uint64_t slice, size_t *ret_n);

/* The caller frees them. */
char *label_process(const struct columns *c, int64_t process);
char *label_thread(const struct columns *c, int64_t thread);
/* "process / thread", the same for all tracks of a thread. */
char *label_track(const struct columns *c, uint64_t track);

struct numbering {
    uint32_t texts;  /* number of strings of the trace; one more is for no string */
    uint32_t *given; /* of each string, its number + 1; 0: no number */
    uint32_t n;
};

/* A zeroed struct may be given to numbering_done(). */
int numbering_init(struct numbering *n, const struct columns *c);
void numbering_done(struct numbering *n);
/* The same for the same string. */
uint32_t numbering_of(struct numbering *n, int64_t text);
/* The strings in the order of their numbers; the caller frees. NULL without memory. */
int64_t *numbering_list(const struct numbering *n);
