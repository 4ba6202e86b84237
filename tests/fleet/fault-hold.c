/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a fault holds: an answer, or a trace, that comes when the fault is taken away. A test thereby decides when a worker
 * leaves a phase of a session, and waits for no clock.
 */
#include "base/alloc.h"
#include "tests/fleet/fault-fleet.h"

#define LOOK_S 0.02 /* how often it is looked whether the fault is still there */

struct held {
    enum fault fault;
    later_fn fn;
    void *arg;
    void (*drop)(void *arg);
};

static void held_free(void *arg)
{
    struct held *h = arg;
    if (h->drop)
        h->drop(h->arg);
    free(h);
}

static void held_look(struct worker *w, struct http_conn *c, void *arg)
{
    struct held *h = arg;
    if (worker_has(w, h->fault)) {
        later(w, c, LOOK_S, held_look, h, held_free);
        return;
    }
    struct held taken = *h;
    free(h);
    taken.fn(w, c, taken.arg);
}

void hold(struct worker *w, struct http_conn *c, enum fault fault, later_fn fn, void *arg,
          void (*drop)(void *arg))
{
    struct held *h = xcalloc(1, sizeof(*h));
    *h = (struct held){.fault = fault, .fn = fn, .arg = arg, .drop = drop};
    held_look(w, c, h);
}
