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

bool metrics_has_prefix(const char *text, size_t size, const char *prefix)
{
    const char *end = text + size;
    size_t n = strlen(prefix);

    for (const char *line = text; line < end;) {
        const char *eol = memchr(line, '\n', (size_t)(end - line));
        if (!eol)
            eol = end;
        if ((size_t)(eol - line) >= n && memcmp(line, prefix, n) == 0)
            return true;
        line = eol + 1;
    }
    return false;
}
