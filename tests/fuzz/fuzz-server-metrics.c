/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's /metrics before and after, apart by a NUL. What is said of them is JSON without holes. */
#include "daemon/fleet/server_metrics.h"
#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct server_metrics *m)
{
    for (size_t i = 0; i < SERVER_HISTOGRAMS; i++)
        for (size_t b = 1; b < m->histograms[i].n; b++)
            if (!(m->histograms[i].buckets[b].bound > m->histograms[i].buckets[b - 1].bound) ||
                m->histograms[i].buckets[b].count < m->histograms[i].buckets[b - 1].count)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *border = size > 0 ? memchr(text, '\0', size) : NULL;
    size_t n = border ? (size_t)(border - text) : size;
    struct server_metrics before = server_metrics_parse(text, n),
                          after = border ? server_metrics_parse(border + 1, size - n - 1) : before;

    check(&before);
    check(&after);
    _cleanup_json_ j = server_metrics_difference(&before, &after);
    char *dumped = j ? json_dumps(j, 0) : NULL;
    if (j && !dumped)
        abort();
    free(dumped);
    return 0;
}
