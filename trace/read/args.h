/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of arguments on their way into the columns. Those that follow one another in a run are taken over
 * column by column, as late as possible: cursors must live until args_finish().
 */
#pragma once

#include "trace/read/link.h"
#include "trace/read/run.h"
#include "trace/read/sheet.h"

/* Rows of a piece that are still to be taken over. */
struct arg_stretch {
    const struct run_cursor *cursor;
    const struct packed_rows *rows;
    const uint32_t *strings; /* what the piece's strings are in the columns; NULL: the same */
    size_t first, n;
};

struct args {
    struct links *links;
    struct sheet sheets[ARG_GROUPS];
    struct arg_stretch stretches[ARG_GROUPS];
    uint32_t with_text[ARG_GROUPS]; /* a bit for each column that holds strings */
};

int args_init(struct args *a, struct links *links, struct columns_writer *w);
void args_done(struct args *a);
/* The arguments of the cursor's event, which became the slice `row`. */
int args_put(struct args *a, struct run_cursor *cursor, const uint32_t *strings, uint32_t row);
int args_finish(struct args *a);
