/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/server_metrics.h"

#include "base/prometheus.h"

#include <math.h>

#define MS_PER_S       1000
#define BOUND_TEXT_MAX 64
#define NAMES_MAX      3
#define PART_MAX       128

/* One figure under the names that engines and their versions have for it; the first that a text has counts.
 */
struct named {
    const char *name;
    const char *metrics[NAMES_MAX];
};

static const struct named histogram_names[SERVER_HISTOGRAMS] = {
    {"ttft_ms", {"vllm:time_to_first_token_seconds", "sglang:time_to_first_token_seconds"}},
    /* vLLM's older name for gaps, which it calls time per output token. */
    {"itl_ms",
     {"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds",
      "sglang:inter_token_latency_seconds"}},
    {"tpot_ms", {"vllm:request_time_per_output_token_seconds", "sglang:time_per_output_token_seconds"}},
    {"e2e_ms", {"vllm:e2e_request_latency_seconds", "sglang:e2e_request_latency_seconds"}},
    {"queue_ms", {"vllm:request_queue_time_seconds", "sglang:queue_time_seconds"}},
};

static const struct named counter_names[SERVER_COUNTERS] = {
    {"prompt_tokens", {"vllm:prompt_tokens_total", "sglang:prompt_tokens_total"}},
    {"generation_tokens", {"vllm:generation_tokens_total", "sglang:generation_tokens_total"}},
    {"preemptions", {"vllm:num_preemptions_total"}},
    {"prefix_cache_queries", {"vllm:prefix_cache_queries_total"}},
    {"prefix_cache_hits", {"vllm:prefix_cache_hits_total"}},
};

static const char *const cache_names[] = {"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc",
                                          "sglang:token_usage"};

static double bound_of(const struct prometheus_sample *sample)
{
    char text[BOUND_TEXT_MAX];
    const char *label;
    size_t n;

    if (!prometheus_label(sample, "le", &label, &n) || n >= sizeof(text))
        return NAN;
    memcpy(text, label, n);
    text[n] = '\0';
    char *end;
    double bound = strtod(text, &end);
    return end == text || *end ? NAN : bound;
}

/* In order of bounds; equal ones are one. Beyond SERVER_BUCKETS_MAX nothing is added. */
static void add_bucket(struct server_histogram *h, double bound, double count)
{
    size_t at = h->n;

    while (at > 0 && h->buckets[at - 1].bound > bound)
        at--;
    if (at > 0 && h->buckets[at - 1].bound == bound) {
        h->buckets[at - 1].count += count;
        return;
    }
    if (h->n == SERVER_BUCKETS_MAX)
        return;
    memmove(&h->buckets[at + 1], &h->buckets[at], (h->n - at) * sizeof(h->buckets[0]));
    h->buckets[at] = (struct server_bucket){bound, count};
    h->n++;
}

static void add_sample(struct server_histogram *h, const struct prometheus_sample *sample, const char *part)
{
    double bound;

    if (streq(part, "_sum")) {
        h->sum += sample->value;
    } else if (streq(part, "_count")) {
        h->count += sample->value;
        h->is_known = true;
    } else if (streq(part, "_bucket") && sample->value >= 0) {
        bound = bound_of(sample);
        if (!isnan(bound))
            add_bucket(h, bound, sample->value);
    }
}

/* Series of different bounds, added up, may fall where they must rise; Prometheus mends that so, too. */
static void make_rising(struct server_histogram *h)
{
    for (size_t i = 1; i < h->n; i++)
        h->buckets[i].count = fmax(h->buckets[i].count, h->buckets[i - 1].count);
}

static struct server_histogram read_histogram(struct prometheus_text text, const char *metric)
{
    struct server_histogram h = {0};
    struct prometheus_sample sample;
    size_t n = strlen(metric);

    while (prometheus_next(&text, &sample)) {
        char part[PART_MAX];
        if (sample.name_len <= n || sample.name_len - n >= sizeof(part) ||
            memcmp(sample.name, metric, n) != 0)
            continue;
        memcpy(part, sample.name + n, sample.name_len - n);
        part[sample.name_len - n] = '\0';
        add_sample(&h, &sample, part);
    }
    make_rising(&h);
    return h;
}

static double plus(double sum, double value)
{
    return isnan(sum) ? value : sum + value;
}

static double larger(double highest, double value)
{
    return fmax(highest, value);
}

/* All samples of a metric as one; NAN where there are none. */
static double read_samples(struct prometheus_text text, const char *metric,
                           double (*fold)(double so_far, double value))
{
    struct prometheus_sample sample;
    double all = NAN;

    while (prometheus_next(&text, &sample))
        if (prometheus_is(&sample, metric))
            all = fold(all, sample.value);
    return all;
}

static double read_cache(struct prometheus_text text)
{
    double use = NAN;

    for (size_t i = 0; i < ARRAY_SIZE(cache_names) && isnan(use); i++)
        use = read_samples(text, cache_names[i], larger);
    return use;
}

struct server_metrics server_metrics_parse(const char *text, size_t size)
{
    struct prometheus_text samples = prometheus_text(text, size);
    struct server_metrics m = {.kv_cache_use = read_cache(samples)};

    m.kv_cache_peak = m.kv_cache_use;
    for (size_t i = 0; i < SERVER_HISTOGRAMS; i++)
        for (size_t k = 0; k < NAMES_MAX && histogram_names[i].metrics[k] && !m.histograms[i].is_known; k++)
            m.histograms[i] = read_histogram(samples, histogram_names[i].metrics[k]);
    for (size_t i = 0; i < SERVER_COUNTERS; i++) {
        m.counters[i] = NAN;
        for (size_t k = 0; k < NAMES_MAX && counter_names[i].metrics[k] && isnan(m.counters[i]); k++)
            m.counters[i] = read_samples(samples, counter_names[i].metrics[k], plus);
    }
    return m;
}

void server_metrics_see_cache(struct server_metrics *m, const char *text, size_t size)
{
    m->kv_cache_peak = fmax(m->kv_cache_peak, read_cache(prometheus_text(text, size)));
}

/* False where the worker has no such histogram, changed its bounds, or counts less than before. */
static bool subtract(const struct server_histogram *before, const struct server_histogram *after,
                     struct server_histogram *ret)
{
    *ret = *after;
    if (!after->is_known)
        return false;
    /* A worker that had answered nothing may have shown no series. */
    if (!before->is_known)
        return true;
    if (before->n != after->n)
        return false;
    for (size_t i = 0; i < ret->n; i++) {
        ret->buckets[i].count -= before->buckets[i].count;
        if (before->buckets[i].bound != after->buckets[i].bound || ret->buckets[i].count < 0)
            return false;
    }
    ret->sum -= before->sum;
    ret->count -= before->count;
    make_rising(ret);
    return ret->count >= 0;
}

/* Linear within the bucket, from 0 in the first; of the one without a bound, the highest bound. */
static double quantile(const struct server_histogram *h, double q)
{
    double total = h->n > 0 ? h->buckets[h->n - 1].count : 0, rank = q * total;
    size_t i = 0;

    if (h->n < 2 || total <= 0)
        return NAN;
    while (i < h->n - 1 && h->buckets[i].count < rank)
        i++;
    if (isinf(h->buckets[i].bound))
        return h->buckets[h->n - 2].bound;
    if (i == 0 && h->buckets[0].bound <= 0)
        return h->buckets[0].bound;
    double low = i > 0 ? h->buckets[i - 1].bound : 0, below = i > 0 ? h->buckets[i - 1].count : 0,
           within = h->buckets[i].count - below;
    return within > 0 ? low + (h->buckets[i].bound - low) * (rank - below) / within : low;
}

static json_t *histogram_json(const struct server_histogram *before, const struct server_histogram *after)
{
    struct server_histogram h;

    if (!subtract(before, after, &h) || h.count <= 0)
        return json_null();
    return json_pack("{s: o, s: o, s: o, s: o}", "mean", json_number(MS_PER_S * h.sum / h.count), "p50",
                     json_number(MS_PER_S * quantile(&h, 0.50)), "p99",
                     json_number(MS_PER_S * quantile(&h, 0.99)), "count", json_number(h.count));
}

static bool began_anew(const struct server_metrics *before, const struct server_metrics *after)
{
    for (size_t i = 0; i < SERVER_COUNTERS; i++)
        if (after->counters[i] < before->counters[i])
            return true;
    for (size_t i = 0; i < SERVER_HISTOGRAMS; i++)
        if (after->histograms[i].count < before->histograms[i].count)
            return true;
    return false;
}

static bool says_anything(const struct server_metrics *m)
{
    bool any = !isnan(m->kv_cache_use);

    for (size_t i = 0; i < SERVER_HISTOGRAMS; i++)
        any = any || m->histograms[i].is_known;
    for (size_t i = 0; i < SERVER_COUNTERS; i++)
        any = any || !isnan(m->counters[i]);
    return any;
}

json_t *server_metrics_difference(const struct server_metrics *before, const struct server_metrics *after)
{
    if (!says_anything(after) || began_anew(before, after))
        return NULL;
    json_t *j = json_object();
    for (size_t i = 0; i < SERVER_HISTOGRAMS; i++)
        json_object_set_new(j, histogram_names[i].name,
                            histogram_json(&before->histograms[i], &after->histograms[i]));
    for (size_t i = 0; i < SERVER_COUNTERS; i++)
        json_object_set_new(
            j, counter_names[i].name,
            json_number(after->counters[i] - (isnan(before->counters[i]) ? 0 : before->counters[i])));
    json_object_set_new(j, "kv_cache_use",
                        isnan(after->kv_cache_use)
                            ? json_null()
                            : json_pack("{s: o, s: o, s: o}", "before", json_number(before->kv_cache_use),
                                        "after", json_number(after->kv_cache_use), "peak",
                                        json_number(fmax(before->kv_cache_peak, after->kv_cache_peak))));
    return j;
}
