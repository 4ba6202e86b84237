/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/series.h"

#include <math.h>

void series_add(struct series *s, int64_t value)
{
    if (value < 0)
        return;
    if (s->n++ == 0)
        s->baseline = s->low = s->peak = value;
    s->low = MIN(s->low, value);
    s->peak = MAX(s->peak, value);
    s->end = value;
    s->sum += (double)value;
    double distance = (double)value - s->mean;
    s->mean += distance / (double)s->n;
    s->squares += distance * ((double)value - s->mean);
}

json_t *series_json(const struct series *s)
{
    if (s->n == 0)
        return json_null();
    return json_pack("{s: I, s: I, s: I, s: I, s: I, s: f, s: f, s: I}", "n", (json_int_t)s->n, "baseline",
                     (json_int_t)s->baseline, "peak", (json_int_t)s->peak, "difference",
                     (json_int_t)(s->peak - s->baseline), "low", (json_int_t)s->low, "mean",
                     s->sum / (double)s->n, "std", sqrt(s->squares / (double)s->n), "end",
                     (json_int_t)s->end);
}
