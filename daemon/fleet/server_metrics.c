/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/server_metrics.h"

#include "base/alloc.h"
#include "base/metrics.h"
#include <math.h>

#define MS_PER_S       1000
#define BOUND_TEXT_MAX 64

/* The text of a metrics page, and its kind of server; source NULL: unknown server. */
struct server_page {
    struct prometheus_text text;
    const struct server_source *source;
};

static double server_bucket_bound(const struct prometheus_sample *sample)
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

/* Sorted by bound; equal bounds share a bucket. Beyond SERVER_BUCKETS_MAX nothing is added. */
static void server_histogram_add_bucket(struct server_histogram *h, double bound, double count)
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

/* The sum of series with different bounds may decrease; Prometheus corrects it in the same way. */
static void server_histogram_make_monotonic(struct server_histogram *h)
{
    for (size_t i = 1; i < h->n; i++)
        h->buckets[i].count = fmax(h->buckets[i].count, h->buckets[i - 1].count);
}

/* Of all samples of a metric; NAN without samples. */
struct server_samples {
    double sum, max;
};

/* What a page has of each name that its server may use: pages are long, so they are read once. */
struct server_scan {
    struct server_histogram histograms[SERVER_HISTOGRAMS][SERVER_NAMES_MAX];
    struct server_samples counters[SERVER_COUNTERS][SERVER_NAMES_MAX],
        gauges[SERVER_GAUGES][SERVER_NAMES_MAX], cache[SERVER_NAMES_MAX];
};

/* A name without its server's prefix: a part of a histogram, or complete. */
struct server_sample_name {
    const char *start;
    size_t size, base_size; /* with, and without the part */
    enum server_part { SERVER_PART_NONE, SERVER_PART_SUM, SERVER_PART_COUNT, SERVER_PART_BUCKET } part;
};

static bool server_name_is(const char *name, const char *start, size_t size)
{
    return strlen(name) == size && memcmp(name, start, size) == 0;
}

static bool server_sample_name(const struct server_page *page, const struct prometheus_sample *s,
                               struct server_sample_name *ret)
{
    static const struct {
        const char *suffix;
        enum server_part part;
    } suffixes[] = {
        {"_bucket", SERVER_PART_BUCKET}, {"_sum", SERVER_PART_SUM}, {"_count", SERVER_PART_COUNT}};
    size_t prefix = strlen(page->source->prefix);

    if (s->name_len <= prefix || memcmp(s->name, page->source->prefix, prefix) != 0)
        return false;
    *ret = (struct server_sample_name){.start = s->name + prefix, .size = s->name_len - prefix};
    ret->base_size = ret->size;
    for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
        size_t n = strlen(suffixes[i].suffix);
        if (ret->size > n && memcmp(ret->start + ret->size - n, suffixes[i].suffix, n) == 0) {
            ret->base_size -= n;
            ret->part = suffixes[i].part;
            break;
        }
    }
    return true;
}

static void server_histogram_add(struct server_histogram *h, enum server_part part,
                                 const struct prometheus_sample *sample)
{
    if (part == SERVER_PART_SUM) {
        h->sum += sample->value;
    } else if (part == SERVER_PART_COUNT) {
        h->count += sample->value;
        h->is_known = true;
    } else if (sample->value >= 0) {
        double bound = server_bucket_bound(sample);
        if (!isnan(bound))
            server_histogram_add_bucket(h, bound, sample->value);
    }
}

static void server_samples_add(const char *const *names, struct server_samples *all,
                               const struct server_sample_name *name, double value)
{
    for (size_t k = 0; k < SERVER_NAMES_MAX && names[k]; k++)
        if (server_name_is(names[k], name->start, name->size)) {
            all[k].sum = isnan(all[k].sum) ? value : all[k].sum + value;
            all[k].max = fmax(all[k].max, value);
        }
}

static void server_scan_add(struct server_scan *scan, const struct server_names *names,
                            const struct server_sample_name *name, const struct prometheus_sample *sample)
{
    for (size_t i = 0; i < SERVER_HISTOGRAMS && name->part != SERVER_PART_NONE; i++)
        for (size_t k = 0; k < SERVER_NAMES_MAX && names->histograms[i][k]; k++)
            if (server_name_is(names->histograms[i][k], name->start, name->base_size))
                server_histogram_add(&scan->histograms[i][k], name->part, sample);
    for (size_t i = 0; i < SERVER_COUNTERS; i++)
        server_samples_add(names->counters[i], scan->counters[i], name, sample->value);
    for (size_t i = 0; i < SERVER_GAUGES; i++)
        server_samples_add(names->gauges[i], scan->gauges[i], name, sample->value);
    server_samples_add(names->cache, scan->cache, name, sample->value);
}

static void server_samples_init(struct server_samples *all, size_t n)
{
    for (size_t i = 0; i < n; i++)
        all[i] = (struct server_samples){NAN, NAN};
}

static void server_scan_read(const struct server_page *page, struct server_scan *ret)
{
    struct prometheus_text text = page->text;
    struct prometheus_sample sample;
    struct server_sample_name name;

    *ret = (struct server_scan){0};
    server_samples_init(&ret->counters[0][0], sizeof(ret->counters) / sizeof(ret->counters[0][0]));
    server_samples_init(&ret->gauges[0][0], sizeof(ret->gauges) / sizeof(ret->gauges[0][0]));
    server_samples_init(ret->cache, ARRAY_SIZE(ret->cache));
    while (prometheus_next(&text, &sample))
        if (server_sample_name(page, &sample, &name))
            server_scan_add(ret, page->source->names, &name, &sample);
}

/* Of several names, the first that the page has. */
static const struct server_samples *server_samples_first(const struct server_samples *all)
{
    size_t k = 0;

    while (k < SERVER_NAMES_MAX - 1 && isnan(all[k].sum))
        k++;
    return &all[k];
}

static const struct server_histogram *server_histogram_first(const struct server_histogram *all)
{
    size_t k = 0;

    while (k < SERVER_NAMES_MAX - 1 && !all[k].is_known)
        k++;
    return all[k].is_known ? &all[k] : &all[0];
}

static struct server_page server_page_of(const char *text, size_t size)
{
    struct prometheus_text samples = prometheus_text(text, size);
    return (struct server_page){.text = samples, .source = server_source_of(samples)};
}

struct server_metrics server_metrics_parse(const char *text, size_t size)
{
    const struct server_page page = server_page_of(text, size);
    struct server_metrics m = {.source = page.source, .kv_cache_use = NAN, .kv_cache_peak = NAN};
    struct server_scan scan;

    for (size_t i = 0; i < SERVER_COUNTERS; i++)
        m.counters[i] = NAN;
    for (size_t i = 0; i < SERVER_GAUGES; i++)
        m.gauges[i] = NAN;
    if (!page.source)
        return m;
    server_scan_read(&page, &scan);
    m.kv_cache_use = m.kv_cache_peak = server_samples_first(scan.cache)->max;
    for (size_t i = 0; i < SERVER_HISTOGRAMS; i++) {
        m.histograms[i] = *server_histogram_first(scan.histograms[i]);
        server_histogram_make_monotonic(&m.histograms[i]);
    }
    for (size_t i = 0; i < SERVER_COUNTERS; i++)
        m.counters[i] = server_samples_first(scan.counters[i])->sum;
    for (size_t i = 0; i < SERVER_GAUGES; i++)
        m.gauges[i] = server_samples_first(scan.gauges[i])->sum;
    return m;
}

void server_metrics_see_cache(struct server_metrics *m, const char *text, size_t size)
{
    const struct server_metrics seen = server_metrics_parse(text, size);

    m->kv_cache_peak = fmax(m->kv_cache_peak, seen.kv_cache_use);
}

/* False where the worker has no such histogram, its bounds changed, or its counts decreased. */
static bool server_histogram_subtract(const struct server_histogram *before,
                                      const struct server_histogram *after, struct server_histogram *ret)
{
    *ret = *after;
    if (!after->is_known)
        return false;
    /* A worker without requests may have no series. */
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
    server_histogram_make_monotonic(ret);
    return ret->count >= 0;
}

/* Linear within the bucket, from 0 in the first; in the infinite one, the highest bound. */
static double server_histogram_quantile(const struct server_histogram *h, double q)
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

double server_histogram_quantile_of(const struct server_histogram *before,
                                    const struct server_histogram *after, double q)
{
    struct server_histogram h;

    if (!server_histogram_subtract(before, after, &h) || h.count <= 0)
        return NAN;
    return server_histogram_quantile(&h, q);
}

static json_t *server_histogram_json(const struct server_histogram *before,
                                     const struct server_histogram *after)
{
    struct server_histogram h;

    if (!server_histogram_subtract(before, after, &h) || h.count <= 0)
        return json_null();
    return json_pack("{s: o, s: o, s: o, s: o}", "mean", json_number(MS_PER_S * h.sum / h.count), "p50",
                     json_number(MS_PER_S * server_histogram_quantile(&h, 0.50)), "p99",
                     json_number(MS_PER_S * server_histogram_quantile(&h, 0.99)), "count",
                     json_number(h.count));
}

static bool server_metrics_restarted(const struct server_metrics *before, const struct server_metrics *after)
{
    for (size_t i = 0; i < SERVER_COUNTERS; i++)
        if (after->counters[i] < before->counters[i])
            return true;
    for (size_t i = 0; i < SERVER_HISTOGRAMS; i++)
        if (after->histograms[i].count < before->histograms[i].count)
            return true;
    return false;
}

static bool server_has_metrics(const struct server_metrics *m)
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
    if (!server_has_metrics(after) || server_metrics_restarted(before, after))
        return NULL;
    json_t *j = json_object();
    json_put_str(j, "source", after->source->name);
    for (size_t i = 0; i < SERVER_HISTOGRAMS; i++)
        json_object_set_new(j, server_histogram_keys[i],
                            server_histogram_json(&before->histograms[i], &after->histograms[i]));
    for (size_t i = 0; i < SERVER_COUNTERS; i++)
        json_object_set_new(
            j, server_counter_keys[i],
            json_number(after->counters[i] - (isnan(before->counters[i]) ? 0 : before->counters[i])));
    json_object_set_new(j, "kv_cache_use",
                        isnan(after->kv_cache_use)
                            ? json_null()
                            : json_pack("{s: o, s: o, s: o}", "before", json_number(before->kv_cache_use),
                                        "after", json_number(after->kv_cache_use), "peak",
                                        json_number(fmax(before->kv_cache_peak, after->kv_cache_peak))));
    return j;
}
