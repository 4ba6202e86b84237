/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slices on their way into the columns: gives each its row, its place among the open ones of its track, its
 * group and its rows of arguments.
 */
#pragma once

#include "trace/read/args.h"
#include "trace/read/flow.h"
#include "trace/read/names.h"
#include "trace/read/tracks.h"
#include "trace/read/unify.h"

struct slices {
    const struct intake *intake;
    struct rows rows;
    struct nest nest;
    struct names names;
    struct links links;
    struct tracks tracks;
    struct sheet out;
    struct args args;
    bool *gpu_categories;
    uint64_t n_gpu;
    int64_t first_ns, last_ns;
};

/* intake: the one that all others went into; it outlives the slices. */
int slices_init(struct slices *s, const struct intake *intake, struct spool *spool, struct budget *budget,
                struct columns_writer *w);
void slices_done(struct slices *s);

/*
 * A slice on a track that nest_close() made way on; e is numbered as the intake is, the cursor's strings as
 * from says. 1; 0 where it lies too deep.
 */
int slices_put(struct slices *s, const struct event *e, uint32_t track, int64_t dur, unsigned flags,
               struct run_cursor *cursor, const struct numbers *from);
/* When there are no more, while the cursors are still there: everything about slices that is not in the
 * columns yet. */
int slices_finish(struct slices *s, struct columns_writer *w);

static inline int64_t category_string(const struct intake *in, uint16_t category)
{
    return category == CATEGORY_NONE ? COLUMN_NULL : in->categories[category];
}
