/* SPDX-License-Identifier: Apache-2.0 */
/* What makes profd a service: its status and watchdog for systemd, and its end when idle. */
#include "daemon/service.h"
#include "daemon/archive/archiver.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/catalog/background.h"
#include "daemon/catalog/records.h"
#include "daemon/collect/store.h"
#include "daemon/health.h"
#include "daemon/ingest/ingest.h"
#include "daemon/session/sessions.h"
#include <inttypes.h>
#if WITH_SYSTEMD
#include <systemd/sd-daemon.h>
#else
/* A profd that was built without systemd has no manager to notify. */
#define sd_notify(unset, state)          ((void)(state))
#define sd_notifyf(unset, ...)           ((void)0)
#define sd_watchdog_enabled(unset, usec) ((void)(usec), 0)
#endif

#define REFRESH_NS NS_PER_S
/* Routers and workers that discovery has not seen for longer are not counted. */
#define SEEN_WITHIN_NS (INT64_C(86400) * NS_PER_S)
/* A loop that was late is checked again after this part of the interval. */
#define RECHECK_DIVISOR 4

struct notifier {
    const struct api_modules *modules;
    bool listened; /* a service manager listens */
    bool closed;
    char *sent;            /* the status as of now */
    char *remark;          /* NULL */
    struct event *refresh; /* pending while an event is not in the status */

    struct event *tick; /* NULL: no watchdog */
    int64_t interval_ns, due_ns;
    int64_t catalog_asked_ns, threads_asked_ns; /* 0: it has answered */
    bool starving;                              /* the watchdog got no sign of life last time */
};

/* -- Status ------------------------------------------------------------------------------------------- */

static char *notifier_make_status(struct notifier *n)
{
    const struct api_modules *modules = n->modules;
    struct store_usage usage = {0};
    int64_t routers = 0;
    struct status s = {.sessions = jobs_count(sessions_jobs(modules->sessions)),
                       .broken = catalog_broken_reason(modules->catalog),
                       .remark = n->remark};

    catalog_count_fleet(modules->catalog, wall_ns() - SEEN_WITHIN_NS, &routers, &s.workers);
    s.fleets = routers + (int64_t)modules->fleet_settings->n_fleets;
    if (store_usage(modules->store, &usage) >= 0) {
        s.used = usage.bytes;
        s.budget = usage.max_use;
    }
    return status_line(&s);
}

/* Returns whether there is anything that was not sent before. */
static bool notifier_renew_status(struct notifier *n)
{
    char *line = notifier_make_status(n);

    if (streq(line, n->sent)) {
        free(line);
        return false;
    }
    free(n->sent);
    n->sent = line;
    return true;
}

static void notifier_on_refresh(evutil_socket_t fd, short what, void *arg)
{
    struct notifier *n = arg;
    if (!n->closed && notifier_renew_status(n))
        sd_notifyf(0, "STATUS=%s", n->sent);
}

static void notifier_on_event(const json_t *event, void *arg)
{
    struct notifier *n = arg;
    struct timeval tv = timeval_of(REFRESH_NS);

    if (!n->closed && !evtimer_pending(n->refresh, NULL))
        event_add(n->refresh, &tv);
}

/* -- Watchdog ----------------------------------------------------------------------------------------- */

static void watchdog_on_committed(int err, void *arg)
{
    ((struct notifier *)arg)->catalog_asked_ns = 0; /* an error is an watchdog_answer, too */
}

static void watchdog_answer(void *arg)
{
    (void)arg;
}

static void watchdog_on_answered(void *arg)
{
    ((struct notifier *)arg)->threads_asked_ns = 0;
}

static void watchdog_ask_modules(struct notifier *n, int64_t now)
{
    if (n->catalog_asked_ns == 0) {
        n->catalog_asked_ns = now;
        catalog_then(n->modules->catalog, false, watchdog_on_committed, n);
    }
    if (n->threads_asked_ns == 0) {
        n->threads_asked_ns = now;
        offload_run(n->modules->offload, watchdog_answer, watchdog_on_answered, n);
    }
}

static void watchdog_feed(struct notifier *n, const char *trouble)
{
    if (!trouble)
        sd_notify(0, "WATCHDOG=1");
    if (trouble && !n->starving)
        log_error("%s; the watchdog gets no sign of life", trouble);
    n->starving = trouble;
}

static void watchdog_tick_at(struct notifier *n, int64_t due_ns)
{
    struct timeval tv = timeval_until(due_ns);

    n->due_ns = due_ns;
    event_add(n->tick, &tv);
}

static void watchdog_on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct notifier *n = arg;
    int64_t now = mono_ns();
    const struct pulse pulse = {
        .lag_ns = now - n->due_ns,
        .catalog_waited_ns = n->catalog_asked_ns ? now - n->catalog_asked_ns : 0,
        .threads_waited_ns = n->threads_asked_ns ? now - n->threads_asked_ns : 0,
    };

    if (n->closed)
        return;
    watchdog_feed(n, health_trouble(&pulse));
    watchdog_ask_modules(n, now);
    watchdog_tick_at(n, now + (n->starving ? n->interval_ns / RECHECK_DIVISOR : n->interval_ns));
    notifier_on_refresh(-1, 0, n);
}

static void watchdog_begin(struct notifier *n)
{
    uint64_t usec = 0;

    if (sd_watchdog_enabled(1, &usec) <= 0)
        return;
    n->interval_ns = (int64_t)usec * NS_PER_US / 2;
    n->tick = evtimer_new(n->modules->base, watchdog_on_tick, n);
    watchdog_tick_at(n, mono_ns() + n->interval_ns);
}

/* -- Life --------------------------------------------------------------------------------------------- */

struct notifier *notifier_new(const struct api_modules *modules)
{
    struct notifier *n = xcalloc(1, sizeof(*n));

    *n = (struct notifier){.modules = modules, .listened = getenv("NOTIFY_SOCKET")};
    n->refresh = evtimer_new(modules->base, notifier_on_refresh, n);
    if (!n->listened)
        return n;
    catalog_on_event(modules->catalog, notifier_on_event, n);
    watchdog_begin(n);
    return n;
}

void notifier_ready(struct notifier *n)
{
    if (!n->listened)
        return;
    notifier_renew_status(n);
    sd_notifyf(0, "READY=1\nSTATUS=%s", n->sent);
}

void notifier_reloading(struct notifier *n)
{
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, mono_ns() / NS_PER_US);
}

void notifier_reloaded(struct notifier *n, const char *remark)
{
    replace_str(&n->remark, remark);
    notifier_ready(n);
}

void notifier_stopping(struct notifier *n, int64_t duration_ns)
{
    sd_notifyf(0, "STOPPING=1\nSTATUS=stopping%s\nEXTEND_TIMEOUT_USEC=%" PRId64,
               jobs_count(sessions_jobs(n->modules->sessions)) ? " the profilers of running sessions" : "",
               duration_ns / NS_PER_US);
}

void notifier_close(struct notifier *n)
{
    if (!n)
        return;
    n->closed = true;
    event_del(n->refresh);
    if (n->tick)
        event_del(n->tick);
}

struct notifier *notifier_free(struct notifier *n)
{
    if (!n)
        return NULL;
    event_free(n->refresh);
    if (n->tick)
        event_free(n->tick);
    free(n->sent);
    free(n->remark);
    free(n);
    return NULL;
}

/* -- End when idle ------------------------------------------------------------------------------------ */

#define IDLE_CHECKS       8 /* in the duration: profd ends at most this part of it too late */
#define IDLE_CHECK_MAX_NS (30 * NS_PER_S)
/* A profd that has nothing to show ends sooner: it was started for a request that was refused, or a listing. */
#define IDLE_EMPTY_DIVISOR 60
#define IDLE_EMPTY_MIN_NS  NS_PER_S

struct idle {
    const struct api_modules *modules;
    const struct api *api;
    int64_t duration_ns, empty_ns; /* the latter with an empty catalog */
    int64_t since_ns;              /* monotonic: of the last activity */
    uint64_t n_done;               /* requests and files done, at the last check */
    struct event *check;
    void (*done)(int64_t idle_ns, void *arg);
    void *arg;
};

static bool idle_is_active(struct idle *idle)
{
    const struct api_modules *modules = idle->modules;
    struct api_traffic traffic;
    struct ingest_metrics files;

    api_traffic(idle->api, &traffic);
    ingest_metrics(modules->ingest, &files);
    uint64_t n_done = traffic.requests + files.read + files.failed + files.killed;
    bool was_done = n_done != idle->n_done;
    idle->n_done = n_done;
    return was_done || traffic.connections > 0 || files.running > 0 || files.waiting > 0 ||
           archiver_is_busy(modules->archiver) || jobs_count(sessions_jobs(modules->sessions)) > 0 ||
           jobs_count(runs_jobs(modules->runs)) > 0 || catalog_broken_reason(modules->catalog) ||
           mirror_is_busy(modules->mirror) || !reports_are_idle(modules->reports) ||
           !viewers_are_idle(modules->viewers) || catalog_background_is_due(modules->catalog, wall_ns());
}

static void idle_check_later(struct idle *idle, int64_t limit_ns)
{
    struct timeval tv = timeval_of(MIN(limit_ns / IDLE_CHECKS, IDLE_CHECK_MAX_NS));
    event_add(idle->check, &tv);
}

static void idle_on_check(evutil_socket_t fd, short what, void *arg)
{
    struct idle *idle = arg;
    int64_t now = mono_ns();

    if (idle_is_active(idle))
        idle->since_ns = now;
    int64_t limit_ns = catalog_is_empty(idle->modules->catalog) ? idle->empty_ns : idle->duration_ns;
    if (now - idle->since_ns >= limit_ns)
        idle->done(limit_ns, idle->arg);
    else
        idle_check_later(idle, limit_ns);
}

struct idle *idle_new(const struct api_modules *modules, const struct api *api, int64_t duration_ns,
                      void (*done)(int64_t idle_ns, void *arg), void *arg)
{
    struct idle *idle = xcalloc(1, sizeof(*idle));

    *idle =
        (struct idle){.modules = modules,
                      .api = api,
                      .duration_ns = duration_ns,
                      .empty_ns = MIN(duration_ns, MAX(duration_ns / IDLE_EMPTY_DIVISOR, IDLE_EMPTY_MIN_NS)),
                      .since_ns = mono_ns(),
                      .done = done,
                      .arg = arg};
    idle->check = evtimer_new(modules->base, idle_on_check, idle);
    idle_check_later(idle, idle->empty_ns);
    return idle;
}

struct idle *idle_free(struct idle *idle)
{
    if (!idle)
        return NULL;
    event_free(idle->check);
    free(idle);
    return NULL;
}
