/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/server_side.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/url.h"
#include "daemon/load/server_metrics.h"
#include <errno.h>

#define LOOK_TIMEOUT_NS (5 * NS_PER_S)
#define LOOK_MAX        (4u << 20)
#define WATCH_PERIOD_NS (5 * NS_PER_S)

/* One worker's. */
struct side {
    struct server_side *owner;
    char *url, *metrics_url;
    bool has_before, has_after, busy; /* busy: a look in passing is under way */
    struct server_metrics before, after;
};

struct server_side {
    struct caller *caller;
    const struct credentials *credentials;
    struct event *period;
    struct side *sides;
    size_t n, waits_for;
    void (*done)(void *arg);
    void *arg;
};

static void look(struct side *k, void (*fn)(const struct call_result *r, void *arg))
{
    call_start(k->owner->caller,
               &(struct call_request){.method = "GET",
                                      .url = k->metrics_url,
                                      .credentials = k->owner->credentials,
                                      .deadline_ns = mono_ns() + LOOK_TIMEOUT_NS,
                                      .answer_max = LOOK_MAX},
               fn, k);
}

static bool has_metrics(const struct call_result *r)
{
    return r->err == 0 && r->status == 200 && r->body_size > 0;
}

static void one_answered(struct server_side *s)
{
    if (--s->waits_for == 0)
        s->done(s->arg);
}

static void on_before(const struct call_result *r, void *arg)
{
    struct side *k = arg;

    k->has_before = has_metrics(r);
    if (k->has_before)
        k->before = server_metrics_parse(r->body, r->body_size);
    k->after = k->before;
    one_answered(k->owner);
}

static void on_after(const struct call_result *r, void *arg)
{
    struct side *k = arg;
    double peak = k->after.kv_cache_peak;

    k->has_after = has_metrics(r);
    if (k->has_after) {
        k->after = server_metrics_parse(r->body, r->body_size);
        if (!(k->after.kv_cache_peak >= peak))
            k->after.kv_cache_peak = peak;
    }
    one_answered(k->owner);
}

static void on_passing(const struct call_result *r, void *arg)
{
    struct side *k = arg;

    k->busy = false;
    if (has_metrics(r))
        server_metrics_see_cache(&k->after, r->body, r->body_size);
}

static void on_period(evutil_socket_t fd, short what, void *arg)
{
    struct server_side *s = arg;

    for (size_t i = 0; i < s->n; i++) {
        if (!s->sides[i].has_before || s->sides[i].busy)
            continue;
        s->sides[i].busy = true;
        look(&s->sides[i], on_passing);
    }
}

int server_side_new(struct event_base *base, struct caller *caller, const struct order *order,
                    struct server_side **ret)
{
    struct server_side *s = xcalloc(1, sizeof(*s));

    *s = (struct server_side){.caller = caller, .credentials = &order->credentials};
    s->n = MIN(order->n_watched, (size_t)SERVER_SIDE_WORKERS_MAX);
    s->sides = xcalloc(s->n, sizeof(*s->sides));
    s->period = event_new(base, -1, EV_PERSIST, on_period, s);
    for (size_t i = 0; i < s->n; i++)
        s->sides[i] = (struct side){.owner = s,
                                    .url = xstrdup(order->watched[i].url),
                                    .metrics_url = url_join(order->watched[i].url, "/metrics")};
    if (!s->period) {
        server_side_free(s);
        return -ENOMEM;
    }
    *ret = s;
    return 0;
}

struct server_side *server_side_free(struct server_side *s)
{
    if (!s)
        return NULL;
    for (size_t i = 0; i < s->n; i++) {
        free(s->sides[i].url);
        free(s->sides[i].metrics_url);
    }
    if (s->period)
        event_free(s->period);
    free(s->sides);
    free(s);
    return NULL;
}

static void look_at_all(struct server_side *s, void (*fn)(const struct call_result *r, void *arg),
                        void (*done)(void *arg), void *arg)
{
    s->done = done;
    s->arg = arg;
    s->waits_for = s->n;
    for (size_t i = 0; i < s->n; i++)
        look(&s->sides[i], fn);
}

void server_side_before(struct server_side *s, void (*done)(void *arg), void *arg)
{
    look_at_all(s, on_before, done, arg);
}

void server_side_watch(struct server_side *s)
{
    struct timeval period = timeval_of(WATCH_PERIOD_NS);
    event_add(s->period, &period);
}

void server_side_after(struct server_side *s, void (*done)(void *arg), void *arg)
{
    event_del(s->period);
    look_at_all(s, on_after, done, arg);
}

json_t *server_side_result(const struct server_side *s)
{
    json_t *workers = json_array();

    for (size_t i = 0; i < s->n; i++) {
        const struct side *k = &s->sides[i];
        json_t *said =
            k->has_before && k->has_after ? server_metrics_difference(&k->before, &k->after) : NULL;
        if (!said)
            continue;
        json_put_str(said, "url", k->url);
        json_array_append_new(workers, said);
    }
    if (json_array_size(workers) > 0)
        return json_pack("{so}", "workers", workers);
    json_decref(workers);
    return NULL;
}
