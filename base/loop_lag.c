/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop_lag.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/process_info.h"
#include <errno.h>
#include <event2/event.h>
#include <malloc.h>

/* -- Freed memory ------------------------------------------------------------------------------ */

static int64_t heap_slack_bytes(void)
{
    const struct mallinfo2 m = mallinfo2();

    struct process_own_memory own = {0};

    process_own_memory(&own);
    return MAX(own.resident - own.shared - (int64_t)m.uordblks - (int64_t)m.hblkhd, INT64_C(0));
}

void heap_trim(struct heap_keeper *k, bool at_rest)
{
    int64_t at_ns = mono_ns();

    if (!at_rest && at_ns - k->looked_ns < HEAP_INTERVAL_NS)
        return;
    k->looked_ns = at_ns;
    int64_t slack = heap_slack_bytes();
    k->kept = MIN(k->kept, slack);
    if (slack - k->kept <= HEAP_SLACK_MAX)
        return;
    malloc_trim(0);
    k->kept = heap_slack_bytes();
}

/* -- Lag of the loop ------------------------------------------------------------------------------------ */

/* A longer delay of the loop is always detected; its reported length is at most this much too short. */
#define PROBE_NS (100 * NS_PER_MS)

struct loop_lag {
    struct event_base *base;
    struct event *probe;
    int64_t due_ns, worst_ns;
    bool is_set;  /* the probe is pending */
    bool is_busy; /* another iteration of the loop ran since the probe was set */
    bool rang;    /* the probe fired in this iteration */
    void (*on_probe)(bool at_rest, void *arg);
    void *arg;
};

static void loop_lag_set_probe(struct loop_lag *l)
{
    const struct timeval tv = timeval_of(PROBE_NS);

    l->is_set = true;
    l->is_busy = false;
    l->due_ns = mono_ns() + PROBE_NS;
    event_add(l->probe, &tv);
}

static void loop_lag_probe_fired(evutil_socket_t fd, short what, void *arg)
{
    struct loop_lag *l = arg;

    l->worst_ns = MAX(l->worst_ns, mono_ns() - l->due_ns);
    l->rang = true;
    l->is_set = false;
    if (l->on_probe)
        l->on_probe(!l->is_busy, l->arg);
    if (l->is_busy)
        loop_lag_set_probe(l);
}

int loop_lag_dispatch(struct loop_lag *l)
{
    do {
        l->rang = false;
        int r = event_base_loop(l->base, EVLOOP_ONCE);
        if (r != 0)
            return r < 0 ? -EIO : 0;
        if (l->rang)
            continue;
        l->is_busy = true;
        if (!l->is_set)
            loop_lag_set_probe(l);
    } while (!event_base_got_break(l->base));
    return 0;
}

void loop_lag_on_probe(struct loop_lag *l, void (*fn)(bool at_rest, void *arg), void *arg)
{
    l->on_probe = fn;
    l->arg = arg;
}

int64_t loop_lag_take(struct loop_lag *l)
{
    int64_t worst_ns = l->worst_ns;

    l->worst_ns = 0;
    return worst_ns;
}

int loop_lag_new(struct event_base *base, struct loop_lag **ret)
{
    _cleanup_(loop_lag_freep) struct loop_lag *l = xcalloc(1, sizeof(*l));

    l->base = base;
    l->probe = evtimer_new(base, loop_lag_probe_fired, l);
    if (!l->probe)
        return -ENOMEM;
    *ret = TAKE_PTR(l);
    return 0;
}

struct loop_lag *loop_lag_free(struct loop_lag *l)
{
    if (!l)
        return NULL;
    if (l->probe)
        event_free(l->probe);
    free(l);
    return NULL;
}
