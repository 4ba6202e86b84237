/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus text, as far as a sum over one metric needs it. */
#include "base/prometheus.h"
#include "daemon/fleet/engine.h"

bool metrics_sum(const char *text, size_t size, const char *metric, double *ret)
{
    struct prometheus_text samples = prometheus_text(text, size);
    struct prometheus_sample sample;
    double sum = 0;
    bool found = false;

    while (prometheus_next(&samples, &sample)) {
        if (!prometheus_is(&sample, metric))
            continue;
        sum += sample.value;
        found = true;
    }
    if (found)
        *ret = sum;
    return found;
}
