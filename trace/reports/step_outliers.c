/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/step_outliers.h"

#include "base/statistics.h"
#include "base/util.h"
#include <errno.h>
#include <stdlib.h>

/* Steps that are more frequent than one in this number are no outliers but another kind of step. */
#define OUTLIER_PART 3

static void mark_phase(struct timed_step *steps, size_t n, enum step_phase phase, int64_t *durs)
{
    size_t n_durs = 0, marked = 0;

    for (size_t i = 0; i < n; i++)
        if (steps[i].phase == phase)
            durs[n_durs++] = steps[i].dur;
    sort_ns(durs, n_durs);
    struct spread usual = spread_of(durs, n_durs);
    for (size_t i = 0; i < n; i++) {
        /* Further from the median than the median itself: more than twice as long. */
        if (steps[i].phase != phase || !is_outlier(&usual, steps[i].dur, usual.median))
            continue;
        steps[i].median = MAX(usual.median, INT64_C(1));
        marked++;
    }
    for (size_t i = 0; i < n && marked > n_durs / OUTLIER_PART; i++)
        if (steps[i].phase == phase)
            steps[i].median = 0;
}

int step_outliers_mark(struct timed_step *steps, size_t n)
{
    _cleanup_(freep) int64_t *durs = calloc(n + 1, sizeof(*durs));

    if (!durs)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        steps[i].median = 0;
    for (enum step_phase phase = 0; phase < _STEP_PHASE_MAX; phase++)
        if (phase != PHASE_PREFILL && phase != PHASE_MIXED)
            mark_phase(steps, n, phase, durs);
    return 0;
}
