/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slices that are open on each track, as trace_processor's slice tracker keeps them: what a slice lies
 * in, which B an E ends, and what does not nest.
 */
#pragma once

#include "trace/read/rows.h"

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
    /* An inner slice may end behind the one around it; otherwise, without unfinished ones, none does. */
    bool irregular;
};

struct nest {
    struct budget *budget;
    struct rows *rows;
    struct nest_track *tracks;
    size_t cap;
    uint64_t n_cut; /* B that ended with the complete slice around them, counted once for each of those */
};

void nest_init(struct nest *n, struct budget *budget, struct rows *rows);
void nest_done(struct nest *n);

/*
 * Makes way for a slice or an E: finishes what ended before. 1; 0: the slice would overlap one that is open;
 * < 0: an error.
 */
int nest_close(struct nest *n, uint32_t track, int64_t ts, int64_t dur);
/* After nest_close(), and after its row was added. */
int nest_push(struct nest *n, uint32_t track, const struct open_slice *s);
/* After nest_close() too: ends the innermost unfinished slice that matches; name 0 and CATEGORY_NONE match
 * every one. 1, or 0 without one. */
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
