/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/live.h"

#include "base/clock.h"
#include "base/estimate.h"

static void put_value(struct live_values *v, int64_t ns)
{
    v->ns[v->n++ % LIVE_REQUESTS] = ns;
}

void live_add(struct live *l, const struct request_record *r, int64_t tokens_seen)
{
    l->done++;
    l->errors += r->outcome == OUTCOME_ERROR;
    if (r->output_tokens > 0)
        l->tokens_seen += r->output_tokens - tokens_seen;
    if (r->outcome != OUTCOME_SUCCESS)
        return;
    if (r->first_ns >= 0)
        put_value(&l->ttft, r->first_ns - r->intended_ns);
    put_value(&l->e2e, r->end_ns - r->intended_ns);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void put_percentiles(json_t *line, const struct live_values *v, const char *p50, const char *p99)
{
    int64_t sorted[LIVE_REQUESTS];
    size_t n = MIN(v->n, (size_t)LIVE_REQUESTS);

    if (n == 0)
        return;
    memcpy(sorted, v->ns, n * sizeof(*sorted));
    qsort(sorted, n, sizeof(*sorted), by_value);
    size_t middle = (n - 1) / 2, late = (n - 1) * 99 / 100;
    json_object_set_new(line, p50, json_real((double)sorted[middle] / (double)NS_PER_MS));
    if (percentile_is_supported(0.99, n))
        json_object_set_new(line, p99, json_real((double)sorted[late] / (double)NS_PER_MS));
}

/* Since the line LIVE_LINES ago; since the run's start, of which all is 0, where there were not so many. */
static double tokens_per_s(struct live *l, int64_t elapsed_ns)
{
    size_t place = l->n_told++ % LIVE_LINES;
    int64_t tokens = MAX(l->tokens_seen - l->told[place].tokens, INT64_C(0));
    int64_t since_ns = MAX(elapsed_ns - l->told[place].elapsed_ns, INT64_C(1));

    l->told[place].elapsed_ns = elapsed_ns;
    l->told[place].tokens = l->tokens_seen;
    return (double)tokens * NS_PER_S / (double)since_ns;
}

json_t *live_line(struct live *l, int64_t elapsed_ns)
{
    json_t *line = json_object();

    json_put_str(line, "t", "live");
    json_put_int(line, "elapsed_ns", elapsed_ns);
    json_put_int(line, "done", l->done);
    json_put_int(line, "errors", l->errors);
    json_object_set_new(line, "output_tokens_per_s", json_real(tokens_per_s(l, elapsed_ns)));
    put_percentiles(line, &l->ttft, "ttft_p50_ms", "ttft_p99_ms");
    put_percentiles(line, &l->e2e, "e2e_p50_ms", "e2e_p99_ms");
    return line;
}
