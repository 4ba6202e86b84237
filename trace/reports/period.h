/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects repetitions in a sequence of names: steps in a run, layers in a step. A pure function of the
 * sequence.
 *
 * If a sequence repeats n times, some names occur n times, one of each in every repetition. A number that
 * at least PERIOD_NAMES_MIN names share, each of them once in every repetition, is therefore a candidate;
 * repetitions must contain nearly all of the sequence and be similar. They may differ in length and
 * content.
 */
#pragma once

#include "base/util.h"

#define PERIOD_NAMES_MIN 3
/* Of a stretch, what the next one has too (counted as often as it occurs), in the median. */
#define PERIOD_ALIKE_MIN 0.8
/* Of the sequence, what lies in stretches. */
#define PERIOD_PART_MIN 0.8

enum period_goal {
    PERIOD_LONGEST, /* the fewest stretches: a step rather than its layers */
    PERIOD_FULLEST, /* those that hold the most of it */
};

struct period {
    size_t *starts; /* positions in the sequence, ascending */
    size_t n;
    size_t until; /* after the last stretch, which is assumed to be as long as the median one */
};

/* names: below n_names. pauses: NULL, or what lies before each position: a stretch begins where the longest one
 * is (in the median) among the PERIOD_LEAD_MAX positions ahead of the first name that recurs. n is 0 where
 * nothing does. -ENOMEM. */
#define PERIOD_LEAD_MAX 32
int period_find(const uint32_t *names, const int64_t *pauses, size_t n, uint32_t n_names,
                enum period_goal goal, struct period *ret);
void period_done(struct period *p);
