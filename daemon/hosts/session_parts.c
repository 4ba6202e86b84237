/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of one session that is not over: found by the session, one part for each other host of its targets. When the
 * session ends, a part of which its host has something left to deliver goes to the list of late ones.
 */
#include "daemon/hosts/part_internal.h"

#include "base/alloc.h"
#include "base/clock.h"

struct session_parts *session_parts_find(const struct parts *all, const struct session *s)
{
    struct session_parts *of;

    TAILQ_FOREACH(of, &all->sessions_parts, next)
        if (of->session == s && of->session_id == s->record.session_id)
            return of;
    return NULL;
}

/* Sessions that ended without a target on another host. */
static void parts_purge(struct parts *all)
{
    struct session_parts *of, *next;

    for (of = TAILQ_FIRST(&all->sessions_parts); of; of = next) {
        next = TAILQ_NEXT(of, next);
        if (!sessions_find(all->sessions, of->session_id))
            session_parts_free(of);
    }
}

struct session_parts *session_parts_get(struct parts *all, struct session *s)
{
    struct session_parts *of = session_parts_find(all, s);

    if (of)
        return of;
    parts_purge(all);
    of = xcalloc(1, sizeof(*of));
    of->all = all;
    of->session = s;
    of->session_id = s->record.session_id;
    TAILQ_INIT(&of->parts);
    of->timer = event_new(all->base, -1, 0, session_parts_on_timer, of);
    TAILQ_INSERT_TAIL(&all->sessions_parts, of, next);
    return of;
}

/* Its session is over: what hosts have not delivered yet comes late. */
void session_parts_free(struct session_parts *of)
{
    struct part *part, *next;

    for (part = TAILQ_FIRST(&of->parts); part; part = next) {
        next = TAILQ_NEXT(part, next);
        if (part_is_final(part->state) && part->calling == PART_CALL_NONE) {
            part_drop(part);
            continue;
        }
        TAILQ_REMOVE(&of->parts, part, next);
        part->of = NULL;
        TAILQ_INSERT_TAIL(&part->all->late, part, next);
        if (part->record.deadline_at == RECORD_NONE) {
            part->record.deadline_at = wall_ns() + part->all->settings->delivery_ns;
            part_save(part);
        }
    }
    peers_refresh_cancel(of->refreshing);
    event_free(of->timer);
    TAILQ_REMOVE(&of->all->sessions_parts, of, next);
    free(of);
}

struct part *session_parts_find_part(struct session_parts *of, const char *host_uuid)
{
    struct part *part;

    TAILQ_FOREACH(part, &of->parts, next)
        if (streq(part->record.host_uuid, host_uuid))
            return part;
    return NULL;
}

static void part_add_target(struct part *part, struct target *t)
{
    part->targets = xrealloc(part->targets, part->n_targets + 1, sizeof(*part->targets));
    part->targets[part->n_targets++] =
        (struct part_target){.target = t, .target_id = t->record.target_id, .url = xstrdup(t->worker.url)};
}

/* The part of a target's host, which is made where it is missing. */
struct part *session_parts_put_target(struct session_parts *of, struct target *t)
{
    struct part *part = session_parts_find_part(of, t->record.host_uuid);

    if (!part) {
        part = part_alloc(of->all, t->record.host ? t->record.host : t->record.host_uuid,
                          of->session->record.uuid);
        part->of = of;
        part->record.session_id = of->session->record.session_id;
        part->record.host_uuid = xstrdup(t->record.host_uuid);
        TAILQ_INSERT_TAIL(&of->parts, part, next);
    }
    part_add_target(part, t);
    return part;
}

void session_parts_clear(struct session_parts *of)
{
    struct part *part;

    while ((part = TAILQ_FIRST(&of->parts))) {
        if (part->calling != PART_CALL_RELEASE) {
            part_drop(part);
            continue;
        }
        /* Its workers are given back in the background. */
        TAILQ_REMOVE(&of->parts, part, next);
        part->of = NULL;
        for (size_t i = 0; i < part->n_targets; i++)
            part->targets[i].target = NULL;
        TAILQ_INSERT_TAIL(&of->all->late, part, next);
    }
    of->step = PARTS_IDLE;
    of->n_pending = 0;
    event_del(of->timer);
}
