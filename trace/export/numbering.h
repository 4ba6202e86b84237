/* SPDX-License-Identifier: Apache-2.0 */
/*
 * New numbers, from 0 and without gaps, for those strings of a trace that a format refers to.
 */
#pragma once

#include "trace/columns/columns.h"

struct numbering {
    uint32_t texts;  /* of the trace; the one behind them stands for no string */
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
