/* SPDX-License-Identifier: Apache-2.0 */
/* Which runtime call launched which GPU work: the last one with the same correlation. */
#pragma once

#include "trace/read/map.h"
#include "trace/read/packed.h"

struct columns_writer;

struct links {
    struct map calls; /* correlation to row */
    struct tape gpu;  /* row and correlation, in order of rows */
};

int links_init(struct links *l, struct spool *spool, struct budget *budget);
void links_done(struct links *l);
int links_call(struct links *l, uint32_t row, int64_t correlation);
int links_gpu(struct links *l, uint32_t row, int64_t correlation);
/* When all are there. */
int links_write(struct links *l, struct columns_writer *w);
