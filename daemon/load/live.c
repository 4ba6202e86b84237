/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/live.h"

#include "base/clock.h"

void live_add(struct live *l, const struct request_record *r)
{
    l->done++;
    l->errors += r->outcome == OUTCOME_ERROR;
    l->output_tokens += r->output_tokens > 0 ? r->output_tokens : 0;
    if (r->outcome != OUTCOME_SUCCESS)
        return;
    l->ttft_ns[l->n % LIVE_REQUESTS] = r->first_ns - r->intended_ns;
    l->e2e_ns[l->n % LIVE_REQUESTS] = r->end_ns - r->intended_ns;
    l->n++;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void put_percentiles(json_t *line, const int64_t *values, size_t n, const char *p50, const char *p99)
{
    int64_t sorted[LIVE_REQUESTS];

    if (n == 0)
        return;
    memcpy(sorted, values, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_value);
    size_t middle = (n - 1) / 2, late = (n - 1) * 99 / 100;
    json_object_set_new(line, p50, json_real((double)sorted[middle] / (double)NS_PER_MS));
    json_object_set_new(line, p99, json_real((double)sorted[late] / (double)NS_PER_MS));
}

json_t *live_line(struct live *l, int64_t elapsed_ns)
{
    double since_s = (double)MAX(elapsed_ns - l->told_ns, INT64_C(1)) / (double)NS_PER_S;
    json_t *line = json_object();
    size_t n = MIN(l->n, (size_t)LIVE_REQUESTS);

    json_put_str(line, "t", "live");
    json_put_int(line, "elapsed_ns", elapsed_ns);
    json_put_int(line, "done", l->done);
    json_put_int(line, "errors", l->errors);
    json_object_set_new(line, "output_tokens_per_s", json_real((double)l->output_tokens / since_s));
    put_percentiles(line, l->ttft_ns, n, "ttft_p50_ms", "ttft_p99_ms");
    put_percentiles(line, l->e2e_ns, n, "e2e_p50_ms", "e2e_p99_ms");
    l->output_tokens = 0;
    l->told_ns = elapsed_ns;
    return line;
}
