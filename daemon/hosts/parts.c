/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts object: the operations of a session on targets of other hosts, in terms of parts. One part is part.c, those of
 * a session are session_parts.c, its start is parts_start.c. Calls to hosts are part_calls.c, what hosts report is
 * part_poll.c and part_delivery.c.
 */
#include "daemon/hosts/part_internal.h"

#include "base/alloc.h"
#include "base/clock.h"

/* -- Targets of other hosts -- */

static struct part_target *part_target_of(struct parts *all, const struct target *t, struct part **ret)
{
    struct session_parts *of = session_parts_find(all, t->session);

    *ret = of && t->record.host_uuid ? session_parts_find_part(of, t->record.host_uuid) : NULL;
    for (size_t i = 0; *ret && i < (*ret)->n_targets; i++)
        if ((*ret)->targets[i].target == t)
            return &(*ret)->targets[i];
    return NULL;
}

static void parts_stop(struct target *t, void *remote)
{
    struct part *part;
    struct part_target *pt = part_target_of(remote, t, &part);

    if (!pt)
        return;
    pt->stop_asked = true;
    if (pt->stop_asked_ns == 0)
        pt->stop_asked_ns = mono_ns();
    part_look_later(part);
}

static void parts_collect(struct target *t, void *remote)
{
    struct part *part;

    if (part_target_of(remote, t, &part))
        part_look_later(part);
}

static void parts_give_back(struct session *s, void *remote)
{
    struct session_parts *of = session_parts_find(remote, s);
    struct part *part, *next;

    if (!of)
        return;
    peers_refresh_cancel(TAKE_PTR(of->refreshing));
    for (part = TAILQ_FIRST(&of->parts); part; part = next) {
        next = TAILQ_NEXT(part, next);
        part_event(part, PART_STOP);
        /* Of one that may know T: its host starts nothing before T any more, and stops what it started. */
        if (!part_is_final(part->state) && part->calling != PART_CALL_RELEASE)
            part_call(part, PART_CALL_RELEASE);
    }
    session_parts_clear(of);
}

static bool session_parts_has_targets(const struct session_parts *of)
{
    const struct part *part;

    TAILQ_FOREACH(part, &of->parts, next)
        for (size_t i = 0; i < part->n_targets; i++)
            if (part->targets[i].target)
                return true;
    return false;
}

static void parts_forget(struct target *t, void *remote)
{
    struct part *part;
    struct part_target *pt = part_target_of(remote, t, &part);
    struct session_parts *of = session_parts_find(remote, t->session);
    bool any = false;

    if (pt) {
        pt->target = NULL;
        for (size_t i = 0; i < part->n_targets; i++)
            any = any || part->targets[i].target;
        if (!any && part->state < PART_STARTING)
            part_event(part, PART_STOP);
        else if (!any && part->state < PART_DELIVERING)
            part_event(part, PART_STOPPED);
    }
    if (of && !of->over && !session_parts_has_targets(of)) {
        of->over = true;
        if (of->step == PARTS_IDLE || of->step == PARTS_START) {
            struct timeval at_once = {0};
            of->step = PARTS_IDLE;
            event_add(of->timer, &at_once);
        }
    }
}

static int64_t parts_bytes_seen(const struct target *t, void *remote)
{
    struct part *part;
    const struct part_target *pt = part_target_of(remote, t, &part);

    return pt ? pt->bytes_seen : 0;
}

static const char *parts_silence(const struct target *t, int64_t *ret_since, int64_t *ret_until, void *remote)
{
    int64_t wall_minus_mono = wall_ns() - mono_ns();
    struct part *part;
    const char *why = part_target_of(remote, t, &part) ? part_silence(part) : NULL;

    if (!why)
        return NULL;
    int64_t until = part_waits_until_ns(part);
    *ret_since = wall_minus_mono + part->answered_ns;
    *ret_until = until > 0 ? wall_minus_mono + until : RECORD_NONE;
    return why;
}

/* -- The object -- */

static const struct remote_ops parts_remote_ops = {
    .lease = parts_lease,
    .prepare = parts_prepare,
    .agree = parts_agree,
    .stop = parts_stop,
    .collect = parts_collect,
    .give_back = parts_give_back,
    .forget = parts_forget,
    .bytes_seen = parts_bytes_seen,
    .silence = parts_silence,
    .resume = parts_resume,
};

int parts_new(struct event_base *base, struct peers *peers, struct sessions *sessions,
              struct catalog *catalog, const struct hosts_settings *settings,
              const struct session_settings *session_settings, struct parts **ret)
{
    struct parts *all = xcalloc(1, sizeof(*all));

    *all = (struct parts){.base = base,
                          .peers = peers,
                          .sessions = sessions,
                          .catalog = catalog,
                          .settings = settings,
                          .session_settings = session_settings};
    TAILQ_INIT(&all->sessions_parts);
    TAILQ_INIT(&all->late);
    TAILQ_INIT(&all->dropped);
    all->sweep = event_new(base, -1, 0, parts_on_sweep, all);
    sessions_set_remote(sessions, &parts_remote_ops, all);
    *ret = all;
    return 0;
}

static void part_list_free(struct part_list *list)
{
    struct part *part;

    while ((part = TAILQ_FIRST(list))) {
        TAILQ_REMOVE(list, part, next);
        part_free(part);
    }
}

struct parts *parts_free(struct parts *all)
{
    struct session_parts *of;

    if (!all)
        return NULL;
    sessions_set_remote(all->sessions, NULL, NULL);
    while ((of = TAILQ_FIRST(&all->sessions_parts))) {
        TAILQ_REMOVE(&all->sessions_parts, of, next);
        part_list_free(&of->parts);
        peers_refresh_cancel(of->refreshing);
        event_free(of->timer);
        free(of);
    }
    part_list_free(&all->late);
    part_list_free(&all->dropped);
    event_free(all->sweep);
    free(all);
    return NULL;
}

void parts_metrics(const struct parts *all, struct parts_metrics *ret)
{
    const struct session_parts *of;
    const struct part *part;

    *ret = all->metrics;
    TAILQ_FOREACH(of, &all->sessions_parts, next)
        TAILQ_FOREACH(part, &of->parts, next)
            ret->open += part->record.open;
    TAILQ_FOREACH(part, &all->late, next) {
        ret->open += part->record.open;
        ret->late += part->record.open;
    }
}
