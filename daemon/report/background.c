/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/report/background.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>
#include <inttypes.h>

/* Between tries of one result. */
static const struct backoff background_backoff = {30 * NS_PER_S, 3600 * NS_PER_S, 50};
/* The longest sleep: the wall clock may be set meanwhile. */
#define SLEEP_MAX_NS (600 * NS_PER_S)
/* Failures of one result, some hours of them, after which it is given up. */
#define TRIES_MAX 10
/* The same where a child was ended by its limits, or by a signal. */
#define LARGE_TRIES_MAX 2
/* While the catalog cannot be written to. */
#define UNSAVED_NS (10 * NS_PER_S)

struct background {
    struct catalog *catalog;
    const struct background_ops *ops;
    void *arg;
    struct event *due;
    struct background_record now; /* what is computed */
    bool is_running, is_closed;
};

static void background_arm(struct background *b, int64_t wait_ns)
{
    struct timeval tv = timeval_of(MAX(wait_ns, INT64_C(0)));
    event_add(b->due, &tv);
}

void background_wake(struct background *b)
{
    if (!b->is_closed && !b->is_running)
        event_active(b->due, EV_TIMEOUT, 0);
}

static int64_t background_retry_at(const struct background_record *b)
{
    return wall_ns() + backoff_ns(&background_backoff, (unsigned)b->tries + 1, backoff_random());
}

/* Its row goes where it is computed, or where a further try would end as this one did. */
static int background_settle(struct background *b, int err, const char *why)
{
    int tries_max = err == -E2BIG ? LARGE_TRIES_MAX : TRIES_MAX;
    bool is_final = err == 0 || err == -ENOENT || b->now.tries + 1 >= tries_max;

    if (err < 0 && err != -ENOENT)
        log_warning("no %s%" PRId64 "%s: %s", b->ops->what, b->now.id,
                    is_final ? "" : ", which is tried again", why ? why : strerror(-err));
    return is_final ? catalog_end_background(b->catalog, b->now.background_id)
                    : catalog_delay_background(b->catalog, &b->now, background_retry_at(&b->now));
}

void background_end(struct background *b, int err, const char *why)
{
    int r = background_settle(b, err, why);

    if (r >= 0)
        r = catalog_commit(b->catalog, false);
    b->is_running = false;
    if (r < 0 && !b->is_closed)
        background_arm(b, UNSAVED_NS);
    else
        background_wake(b);
}

/* Of a row that was not begun: in the batch of this iteration. */
static void background_skip(struct background *b, int err)
{
    b->is_running = false;
    if (background_settle(b, err, NULL) < 0)
        background_arm(b, UNSAVED_NS);
    else
        background_wake(b);
}

static void background_on_due(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    struct background *b = arg;
    int64_t now = wall_ns();

    if (b->is_closed || b->is_running)
        return;
    int r = catalog_next_background(b->catalog, b->ops->kind, now, &b->now);
    if (r < 0) {
        background_arm(b, UNSAVED_NS);
    } else if (r > 0) {
        b->is_running = true;
        r = b->ops->begin(b->now.id, b->arg);
        if (r < 0)
            background_skip(b, r);
    } else {
        int64_t next_at = catalog_next_background_at(b->catalog, b->ops->kind);
        if (next_at != RECORD_NONE)
            background_arm(b, MIN(MAX(next_at - now, NS_PER_S), SLEEP_MAX_NS));
    }
}

static void background_on_wanted(void *arg)
{
    background_wake(arg);
}

struct background *background_new(struct event_base *base, struct catalog *catalog,
                                  const struct background_ops *ops, void *arg)
{
    struct background *b = xcalloc(1, sizeof(*b));

    *b = (struct background){.catalog = catalog, .ops = ops, .arg = arg};
    b->due = evtimer_new(base, background_on_due, b);
    catalog_on_background(catalog, ops->kind, background_on_wanted, b);
    background_wake(b);
    return b;
}

void background_close(struct background *b)
{
    b->is_closed = true;
    event_del(b->due);
}

struct background *background_free(struct background *b)
{
    if (!b)
        return NULL;
    event_free(b->due);
    free(b);
    return NULL;
}
