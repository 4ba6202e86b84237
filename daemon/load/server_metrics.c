/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/server_metrics.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "daemon/fleet/url.h"
#include <errno.h>
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

/* Whether the sample's name is the prefix of the page's server, then the metric, then the part. */
static bool server_sample_is(const struct server_page *page, const struct prometheus_sample *s,
                             const char *metric, const char *part)
{
    const char *const pieces[] = {page->source->prefix, metric, part};
    const char *at = s->name, *end = s->name + s->name_len;

    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        size_t n = strlen(pieces[i]);
        if ((size_t)(end - at) < n || memcmp(at, pieces[i], n) != 0)
            return false;
        at += n;
    }
    return at == end;
}

static struct server_histogram server_histogram_read(const struct server_page *page, const char *metric)
{
    struct prometheus_text text = page->text;
    struct server_histogram h = {0};
    struct prometheus_sample sample;

    while (prometheus_next(&text, &sample)) {
        if (server_sample_is(page, &sample, metric, "_sum")) {
            h.sum += sample.value;
        } else if (server_sample_is(page, &sample, metric, "_count")) {
            h.count += sample.value;
            h.is_known = true;
        } else if (server_sample_is(page, &sample, metric, "_bucket") && sample.value >= 0) {
            double bound = server_bucket_bound(&sample);
            if (!isnan(bound))
                server_histogram_add_bucket(&h, bound, sample.value);
        }
    }
    server_histogram_make_monotonic(&h);
    return h;
}

/* Of all samples of a metric; NAN without samples. */
struct server_samples {
    double sum, max;
};

static struct server_samples server_samples_of(const struct server_page *page, const char *metric)
{
    struct server_samples all = {NAN, NAN};
    struct prometheus_text text = page->text;
    struct prometheus_sample sample;

    while (prometheus_next(&text, &sample))
        if (server_sample_is(page, &sample, metric, "")) {
            all.sum = isnan(all.sum) ? sample.value : all.sum + sample.value;
            all.max = fmax(all.max, sample.value);
        }
    return all;
}

static double server_cache_read(const struct server_page *page)
{
    const char *const *names = page->source->names->cache;
    double use = NAN;

    for (size_t i = 0; i < SERVER_NAMES_MAX && names[i] && isnan(use); i++)
        use = server_samples_of(page, names[i]).max;
    return use;
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

    for (size_t i = 0; i < SERVER_COUNTERS; i++)
        m.counters[i] = NAN;
    if (!page.source)
        return m;
    m.kv_cache_use = m.kv_cache_peak = server_cache_read(&page);
    for (size_t i = 0; i < SERVER_HISTOGRAMS; i++) {
        const char *const *names = page.source->names->histograms[i];
        for (size_t k = 0; k < SERVER_NAMES_MAX && names[k] && !m.histograms[i].is_known; k++)
            m.histograms[i] = server_histogram_read(&page, names[k]);
    }
    for (size_t i = 0; i < SERVER_COUNTERS; i++) {
        const char *const *names = page.source->names->counters[i];
        for (size_t k = 0; k < SERVER_NAMES_MAX && names[k] && isnan(m.counters[i]); k++)
            m.counters[i] = server_samples_of(&page, names[k]).sum;
    }
    return m;
}

void server_metrics_see_cache(struct server_metrics *m, const char *text, size_t size)
{
    const struct server_page page = server_page_of(text, size);

    if (page.source)
        m->kv_cache_peak = fmax(m->kv_cache_peak, server_cache_read(&page));
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

static bool server_restarted(const struct server_metrics *before, const struct server_metrics *after)
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
    if (!server_has_metrics(after) || server_restarted(before, after))
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

/* -- Asking the workers of a run ---------------------------------------------------------------------- */

#define SCRAPE_TIMEOUT_NS (5 * NS_PER_S)
#define SCRAPE_MAX        (4u << 20)
#define SCRAPE_PERIOD_NS  (5 * NS_PER_S)

struct scraped_worker {
    struct server_metrics_watch *owner;
    char *url, *metrics_url;
    bool has_before, has_after, busy; /* busy: a scrape during the run is in flight */
    struct server_metrics before, after;
};

struct server_metrics_watch {
    struct caller *caller;
    const struct call_credentials *credentials;
    struct event *period;
    struct scraped_worker *workers;
    size_t n, pending;
    void (*done)(void *arg);
    void *arg;
};

static void scraped_worker_scrape(struct scraped_worker *k,
                                  void (*fn)(const struct call_result *r, void *arg))
{
    call_start(k->owner->caller,
               &(struct call_request){.method = "GET",
                                      .url = k->metrics_url,
                                      .credentials = k->owner->credentials,
                                      .deadline_ns = mono_ns() + SCRAPE_TIMEOUT_NS,
                                      .answer_max = SCRAPE_MAX},
               fn, k);
}

static bool server_result_is_good(const struct call_result *r)
{
    return r->err == 0 && r->status == 200 && r->body_size > 0;
}

static void scraped_worker_responded(struct server_metrics_watch *s)
{
    if (--s->pending == 0)
        s->done(s->arg);
}

static void scraped_worker_on_before(const struct call_result *r, void *arg)
{
    struct scraped_worker *k = arg;

    k->has_before = server_result_is_good(r);
    if (k->has_before)
        k->before = server_metrics_parse(r->body, r->body_size);
    k->after = k->before;
    scraped_worker_responded(k->owner);
}

static void scraped_worker_on_after(const struct call_result *r, void *arg)
{
    struct scraped_worker *k = arg;
    double peak = k->after.kv_cache_peak;

    k->has_after = server_result_is_good(r);
    if (k->has_after) {
        k->after = server_metrics_parse(r->body, r->body_size);
        if (!(k->after.kv_cache_peak >= peak))
            k->after.kv_cache_peak = peak;
    }
    scraped_worker_responded(k->owner);
}

static void scraped_worker_on_during(const struct call_result *r, void *arg)
{
    struct scraped_worker *k = arg;

    k->busy = false;
    if (server_result_is_good(r))
        server_metrics_see_cache(&k->after, r->body, r->body_size);
}

static void server_metrics_on_period(evutil_socket_t fd, short what, void *arg)
{
    struct server_metrics_watch *s = arg;

    for (size_t i = 0; i < s->n; i++) {
        if (!s->workers[i].has_before || s->workers[i].busy)
            continue;
        s->workers[i].busy = true;
        scraped_worker_scrape(&s->workers[i], scraped_worker_on_during);
    }
}

int server_metrics_new(struct event_base *base, struct caller *caller, const struct load_spec *spec,
                       struct server_metrics_watch **ret)
{
    struct server_metrics_watch *s = xcalloc(1, sizeof(*s));

    *s = (struct server_metrics_watch){.caller = caller, .credentials = &spec->credentials};
    s->n = MIN(spec->watched.n, (size_t)SERVER_METRICS_WORKERS_MAX);
    s->workers = xcalloc(s->n, sizeof(*s->workers));
    s->period = event_new(base, -1, EV_PERSIST, server_metrics_on_period, s);
    for (size_t i = 0; i < s->n; i++)
        s->workers[i] = (struct scraped_worker){
            .owner = s,
            .url = xstrdup(spec->watched.items[i].url),
            .metrics_url =
                url_join(spec->watched.items[i].url, server_metrics_path(spec->watched.items[i].engine))};
    if (!s->period) {
        server_metrics_free(s);
        return -ENOMEM;
    }
    *ret = s;
    return 0;
}

struct server_metrics_watch *server_metrics_free(struct server_metrics_watch *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->n; i++) {
        free(s->workers[i].url);
        free(s->workers[i].metrics_url);
    }
    if (s->period)
        event_free(s->period);
    free(s->workers);
    free(s);
    return NULL;
}

static void server_metrics_scrape(struct server_metrics_watch *s,
                                  void (*fn)(const struct call_result *r, void *arg), void (*done)(void *arg),
                                  void *arg)
{
    s->done = done;
    s->arg = arg;
    s->pending = s->n;
    for (size_t i = 0; i < s->n; i++)
        scraped_worker_scrape(&s->workers[i], fn);
}

void server_metrics_before(struct server_metrics_watch *s, void (*done)(void *arg), void *arg)
{
    server_metrics_scrape(s, scraped_worker_on_before, done, arg);
}

void server_metrics_during(struct server_metrics_watch *s)
{
    struct timeval period = timeval_of(SCRAPE_PERIOD_NS);
    event_add(s->period, &period);
}

void server_metrics_after(struct server_metrics_watch *s, void (*done)(void *arg), void *arg)
{
    event_del(s->period);
    server_metrics_scrape(s, scraped_worker_on_after, done, arg);
}

json_t *server_metrics_result(const struct server_metrics_watch *s)
{
    json_t *list = json_array();

    for (size_t i = 0; i < s->n; i++) {
        const struct scraped_worker *k = &s->workers[i];
        json_t *difference =
            k->has_before && k->has_after ? server_metrics_difference(&k->before, &k->after) : NULL;
        if (!difference)
            continue;
        json_put_str(difference, "url", k->url);
        json_array_append_new(list, difference);
    }
    if (json_array_size(list) > 0)
        return json_pack("{so}", "workers", list);
    json_decref(list);
    return NULL;
}
