/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of slices with the same category and name, and their sums. */
#pragma once

#include "trace/columns/writer.h"
#include "trace/read/budget.h"
#include "trace/read/flow.h"
#include "trace/read/table_builder.h"
#include "trace/read/tracks.h"

struct name_group {
    int64_t category; /* string, COLUMN_NULL without one */
    uint32_t name;
    uint32_t count;
    uint32_t first; /* of its part of by_name, set at the end */
    int64_t sum, min, max;
};

struct names {
    struct number_map numbers;
    struct name_group *groups;
    size_t n, cap;
};

void names_init(struct names *n, struct budget *budget);
void names_done(struct names *n);
/* Returns the number of the group, or -ENOMEM. category: a number for category_string. */
int64_t names_group(struct names *n, uint16_t category, uint32_t name, int64_t category_string);
void names_add(struct names *n, uint32_t group, int64_t dur);
/* Writes the tables name and by_name after all slices were added. */
int names_write(struct names *n, struct rows *rows, struct columns_writer *w);

/*
 * Writes slices into the columns: gives each its row, its position among the open slices of its track, its
 * group and its rows of arguments.
 */

/* Maps the numbers of an intake to those of the first one; NULL if they are the same. */
struct numbers {
    uint32_t *strings, *threads, *processes;
    uint16_t *categories;
    size_t n_strings, n_threads, n_processes, n_categories;
};

struct slices {
    const struct intake *intake;
    struct rows rows;
    struct nest nest;
    struct names names;
    struct links links;
    struct tracks tracks;
    struct table_builder out;
    struct args args;
    bool *gpu_categories;
    uint64_t n_gpu;
    int64_t first_ns, last_ns;
};

/* intake: the one that all others were merged into; it outlives the slices. */
int slices_init(struct slices *s, const struct intake *intake, struct spill *spill, struct budget *budget,
                struct columns_writer *w);
void slices_done(struct slices *s);

/*
 * Adds a slice to a track on which nest_close() made way; e is numbered like the intake, and the cursor's
 * strings are numbered as described by `from`. Returns 1; 0 if the slice lies too deep.
 */
int slices_put(struct slices *s, const struct event *e, uint32_t track, int64_t dur, unsigned flags,
               struct run_cursor *cursor, const struct numbers *from);
/* Called after the last slice, while the cursors still exist: writes all data of slices that is not in the
 * columns yet. */
int slices_finish(struct slices *s, struct columns_writer *w);

static inline int64_t category_string(const struct intake *in, uint16_t category)
{
    return category == CATEGORY_NONE ? COLUMN_NULL : in->categories[category];
}
