/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/server_watch.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/server_metrics.h"
#include "daemon/fleet/url.h"
#include <errno.h>

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
