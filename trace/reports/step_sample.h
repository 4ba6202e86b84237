/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of engine instances as a sample (base/estimate.h). Ranks of one instance run a step together, so
 * that a step is one value, the mean over its ranks, however many they are.
 */
#pragma once

#include "base/estimate.h"
#include "trace/reports/analysis.h"

/* Steps next to each other are alike: their spread is estimated between this number of blocks of neighbours.
 */
#define STEP_BLOCKS 5
_Static_assert(STEP_BLOCKS <= ESTIMATE_BLOCKS_MAX, "estimates take as many blocks");

/* Of a step, or of the time until the next one begins. */
enum step_time {
    STEP_TIME_DUR,  /* of the step */
    STEP_TIME_SPAN, /* until the next one begins */
    STEP_TIME_IDLE, /* of the span */
    STEP_TIME_BUSY,
    STEP_TIME_COMPUTE,
    STEP_TIME_COMMUNICATION,
    STEP_TIME_EXPOSED,
    STEP_TIME_MEMORY,
    _STEP_TIME_MAX
};

struct sampled_step {
    double ns[_STEP_TIME_MAX]; /* the mean over ranks */
    unsigned block;
    size_t n_ranks;
    enum step_phase phase;
    bool is_outlier; /* step_outliers.h */
};

struct step_sample {
    struct sampled_step *steps; /* of one instance after the other, in order of time */
    size_t n, cap, n_outliers;
    double rank_steps[STEP_BLOCKS]; /* steps of each rank, by block */
    double rank_outliers;           /* those of them that are outliers */
    size_t *first;                  /* private: position of the first step of each rank */
};

/* The steps within the view. -ENOMEM. */
int step_sample_read(struct analysis *a, struct step_sample *ret);
void step_sample_done(struct step_sample *sample);

/* Of the steps of a rank, within the view or not: the block of each, STEP_NONE outside of the view. The
 * caller's. -ENOMEM. */
int step_blocks_of_rank(struct analysis *a, size_t rank, uint32_t **ret);

/* Whether each of the same steps is an outlier. The caller's. -ENOMEM. */
int step_sample_outliers_of_rank(const struct step_sample *sample, struct analysis *a, size_t rank,
                                 const uint32_t *blocks, bool **ret);
/* The mean of one of the times over the steps that are no outliers, in ns; NAN of none. */
double step_sample_mean_without_outliers(const struct step_sample *sample, enum step_time time);

/* The percentile at `fraction`, or the mean (FRACTION_MEAN), of one of the times, in ns. -ENOMEM. */
int step_sample_estimate(const struct step_sample *sample, enum step_time time, double fraction,
                         struct estimate *ret);
