/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/collect/store.h"
#include "daemon/health.h"
#include "daemon/session/sessions.h"
#include "daemon/status.h"
#include <inttypes.h>
#include <systemd/sd-daemon.h>

#define REFRESH_NS NS_PER_S
/* Routers and workers that discovery has not seen for longer are not counted. */
#define SEEN_WITHIN_NS (INT64_C(86400) * NS_PER_S)
/* A loop that was late proves after this part of the interval that it turns again. */
#define RECHECK_DIVISOR 4

struct notifier {
    struct notifier_modules modules;
    bool listened; /* there is someone to tell */
    bool closed;
    char *sent;            /* the status as of now */
    char *remark;          /* NULL */
    struct event *refresh; /* pending while an event is not in the status */

    struct event *tick; /* NULL: no watchdog */
    int64_t interval_ns, due_ns;
    int64_t catalog_asked_ns, threads_asked_ns; /* 0: it has answered */
    bool starving;                              /* the watchdog was told nothing last time */
};

/* -- Status ------------------------------------------------------------------------------------------- */

static char *make_status(struct notifier *n)
{
    const struct notifier_modules *modules = &n->modules;
    struct store_usage usage = {0};
    int64_t routers = 0;
    struct status s = {.sessions = sessions_count(modules->sessions),
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
static bool renew_status(struct notifier *n)
{
    char *line = make_status(n);

    if (streq(line, n->sent)) {
        free(line);
        return false;
    }
    free(n->sent);
    n->sent = line;
    return true;
}

static void on_refresh(evutil_socket_t fd, short what, void *arg)
{
    struct notifier *n = arg;
    if (!n->closed && renew_status(n))
        sd_notifyf(0, "STATUS=%s", n->sent);
}

static void on_event(const json_t *event, void *arg)
{
    struct notifier *n = arg;
    struct timeval tv = timeval_of(REFRESH_NS);

    if (!n->closed && !evtimer_pending(n->refresh, NULL))
        event_add(n->refresh, &tv);
}

/* -- Watchdog ----------------------------------------------------------------------------------------- */

static void on_committed(int err, void *arg)
{
    ((struct notifier *)arg)->catalog_asked_ns = 0; /* an error is an answer, too */
}

static void answer(void *arg)
{
    (void)arg;
}

static void on_answered(void *arg)
{
    ((struct notifier *)arg)->threads_asked_ns = 0;
}

static void ask_modules(struct notifier *n, int64_t now)
{
    if (n->catalog_asked_ns == 0) {
        n->catalog_asked_ns = now;
        catalog_then(n->modules.catalog, false, on_committed, n);
    }
    if (n->threads_asked_ns == 0) {
        n->threads_asked_ns = now;
        offload_run(n->modules.offload, answer, on_answered, n);
    }
}

static void feed(struct notifier *n, const char *trouble)
{
    if (!trouble)
        sd_notify(0, "WATCHDOG=1");
    if (trouble && !n->starving)
        log_error("%s: the watchdog is not told that profd is well", trouble);
    n->starving = trouble;
}

static void tick_at(struct notifier *n, int64_t due_ns)
{
    struct timeval tv = timeval_until(due_ns);

    n->due_ns = due_ns;
    event_add(n->tick, &tv);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
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
    feed(n, health_trouble(&pulse));
    ask_modules(n, now);
    tick_at(n, now + (n->starving ? n->interval_ns / RECHECK_DIVISOR : n->interval_ns));
    on_refresh(-1, 0, n);
}

static void begin_watchdog(struct notifier *n)
{
    uint64_t usec = 0;

    if (sd_watchdog_enabled(1, &usec) <= 0)
        return;
    n->interval_ns = (int64_t)usec * NS_PER_US / 2;
    n->tick = evtimer_new(n->modules.base, on_tick, n);
    tick_at(n, mono_ns() + n->interval_ns);
}

/* -- Life --------------------------------------------------------------------------------------------- */

struct notifier *notifier_new(const struct notifier_modules *modules)
{
    struct notifier *n = xcalloc(1, sizeof(*n));

    *n = (struct notifier){.modules = *modules, .listened = getenv("NOTIFY_SOCKET")};
    n->refresh = evtimer_new(modules->base, on_refresh, n);
    if (!n->listened)
        return n;
    catalog_on_event(modules->catalog, on_event, n);
    begin_watchdog(n);
    return n;
}

void notifier_ready(struct notifier *n)
{
    if (!n->listened)
        return;
    renew_status(n);
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
               sessions_count(n->modules.sessions) ? " the profilers of running sessions" : "",
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
