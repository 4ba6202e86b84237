/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One intake out of several: strings, threads, processes, categories, defects and meta of the others go into
 * the first one.
 */
#pragma once

#include "trace/read/budget.h"
#include "trace/read/merge.h"

/* What the numbers of an intake are in the first one; NULL where they are the same. */
struct numbers {
    uint32_t *strings, *threads, *processes;
    uint16_t *categories;
    size_t n_strings, n_threads, n_processes, n_categories;
};

/* ret: n_inputs of them, zeroed; the caller frees each with numbers_done(), after an error as well. */
int unify_intakes(const struct merge_input *inputs, size_t n_inputs, struct budget *budget,
                  struct numbers *ret);
void numbers_done(struct numbers *n, struct budget *budget);

static inline uint32_t number_of(const uint32_t *numbers, uint32_t number)
{
    return numbers ? numbers[number] : number;
}
