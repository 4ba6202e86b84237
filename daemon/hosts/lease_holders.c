/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds a worker of this host: a lease until its starts have left, then its session. Asked for new leases, for sessions of
 * this host, and by other hosts that list workers.
 */
#include "daemon/hosts/lease_internal.h"

#include "base/alloc.h"
#include "base/clock.h"

static bool lease_ports_equal(const char *a, const char *b)
{
    const char *port = strrchr(a, ':'), *other = strrchr(b, ':');
    return port && other && streq(port, other);
}

/* Under one URL, or under two addresses of this host. */
static bool lease_workers_equal(const struct worker *a, const struct worker *b)
{
    return streq(a->url, b->url) || (a->same_as && streq(a->same_as, b->url)) ||
           (b->same_as && streq(b->same_as, a->url)) ||
           (a->local && b->local && a->pid > 0 && a->pid == b->pid && lease_ports_equal(a->url, b->url));
}

static bool lease_has_worker(const struct lease *lease, const struct worker *w)
{
    for (size_t i = 0; i < lease->n_urls; i++)
        if (streq(lease->urls[i], w->url))
            return true;
    for (size_t i = 0; lease->fleet && i < lease->fleet->n_workers; i++)
        if (lease_workers_equal(&lease->fleet->workers[i], w))
            return true;
    return false;
}

static int64_t lease_until_at(const struct lease *lease)
{
    return wall_ns() + MAX(lease->record.deadline_boot_ns - boot_ns(), INT64_C(0));
}

/* From its starts on the session of the lease holds the worker, and sessions_holder() finds that. */
const char *leases_holder_text(const struct worker *w, const struct session *asking, int64_t *ret_until_at,
                               void *arg)
{
    struct leases *l = arg;
    const struct lease *lease;

    *ret_until_at = RECORD_NONE;
    TAILQ_FOREACH(lease, &l->list, next) {
        if ((asking && asking->record.lease_id == lease->record.lease_id) ||
            lease_state_now(lease) > LEASE_WAITING || !lease_has_worker(lease, w))
            continue;
        *ret_until_at = lease_until_at(lease);
        free(l->holder_text);
        l->holder_text =
            xasprintf("the session of %s on %s", lease->record.actor, lease->record.coordinator_name);
        return l->holder_text;
    }
    return NULL;
}

bool leases_find_holder(struct leases *l, const struct worker *w, struct lease_holder *ret)
{
    const struct lease *lease;

    TAILQ_FOREACH(lease, &l->list, next) {
        enum lease_state state = lease_state_now(lease);
        if (state <= LEASE_STOPPING && lease_has_worker(lease, w)) {
            *ret = (struct lease_holder){.session = lease->record.session_uuid,
                                         .host = lease->record.coordinator_name,
                                         .until_at =
                                             state <= LEASE_RECORDING ? lease_until_at(lease) : RECORD_NONE};
            return true;
        }
    }
    const struct session *s = sessions_holder(l->modules.sessions, w, NULL);
    if (!s)
        return false;
    const struct session_record *r = &s->record;
    /* How long a worker takes to write its traces nobody knows. */
    int64_t end = r->stop_at != RECORD_NONE ? r->stop_at : r->hard_stop_at;
    *ret = (struct lease_holder){.session = r->uuid,
                                 .host = r->coordinator_name ? r->coordinator_name
                                                             : catalog_host(l->modules.catalog),
                                 .until_at = r->state <= STATE_RECORDING ? end : RECORD_NONE};
    return true;
}

const struct worker *leases_find_held(struct leases *l, const struct fleet *fleet, struct lease_holder *ret)
{
    for (size_t i = 0; i < fleet->n_workers; i++)
        if (leases_find_holder(l, &fleet->workers[i], ret))
            return &fleet->workers[i];
    return NULL;
}
