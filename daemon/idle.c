/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/idle.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/catalog/catalog.h"
#include "daemon/ingest/ingest.h"

#define LOOKS_IN_IT 8 /* so much later than asked for does it end at most */
#define LOOK_MAX    (30 * NS_PER_S)

struct idle {
    struct idle_modules modules;
    int64_t duration_ns, since_ns; /* monotonic: when something went on last */
    uint64_t n_done;               /* of requests and files, at the last look */
    struct event *look;
    void (*done)(void *arg);
    void *arg;
};

static bool something_goes_on(struct idle *idle)
{
    const struct idle_modules *modules = &idle->modules;
    struct api_traffic traffic;
    struct ingest_metrics files;

    api_traffic(modules->api, &traffic);
    ingest_metrics(modules->ingest, &files);
    uint64_t n_done = traffic.requests + files.read + files.failed + files.killed;
    bool was_done = n_done != idle->n_done;
    idle->n_done = n_done;
    return was_done || traffic.connections > 0 || files.running > 0 || files.waiting > 0 ||
           sessions_count(modules->sessions) > 0 || runs_count(modules->runs) > 0 ||
           catalog_broken_reason(modules->catalog);
}

static void look_later(struct idle *idle)
{
    struct timeval tv = timeval_of(MIN(idle->duration_ns / LOOKS_IN_IT, LOOK_MAX));
    event_add(idle->look, &tv);
}

static void on_look(evutil_socket_t fd, short what, void *arg)
{
    struct idle *idle = arg;
    int64_t now = mono_ns();

    if (something_goes_on(idle))
        idle->since_ns = now;
    if (now - idle->since_ns >= idle->duration_ns)
        idle->done(idle->arg);
    else
        look_later(idle);
}

struct idle *idle_new(const struct idle_modules *modules, int64_t duration_ns, void (*done)(void *arg),
                      void *arg)
{
    struct idle *idle = xcalloc(1, sizeof(*idle));

    *idle = (struct idle){
        .modules = *modules, .duration_ns = duration_ns, .since_ns = mono_ns(), .done = done, .arg = arg};
    idle->look = evtimer_new(modules->base, on_look, idle);
    look_later(idle);
    return idle;
}

struct idle *idle_free(struct idle *idle)
{
    if (!idle)
        return NULL;
    event_free(idle->look);
    free(idle);
    return NULL;
}
