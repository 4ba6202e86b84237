/* SPDX-License-Identifier: Apache-2.0 */
/* Parts after a restart of profd: those of sessions that go on, and those whose sessions are over. */
#include "daemon/hosts/part_internal.h"

#include "base/alloc.h"
#include "base/clock.h"

static void part_take_row(struct part *part, const struct part_record *r)
{
    int state = part_state_from_name(r->state);

    part->record.part_id = r->part_id;
    part->record.session_id = r->session_id;
    replace_str(&part->record.host_uuid, r->host_uuid);
    replace_str(&part->record.peer, r->peer);
    replace_str(&part->record.url, r->url);
    part->record.lease_id = r->lease_id;
    part->record.delivered = r->delivered;
    part->record.answered_at = r->answered_at;
    part->record.deadline_at = r->deadline_at;
    part->record.open = r->open;
    part->state = state < 0 ? PART_DELIVERING : (enum part_state)state;
}

static int resume_part(const struct part_record *r, void *arg)
{
    struct session_parts *of = arg;
    struct part *part = session_parts_find_part(of, r->host_uuid);

    if (part)
        part_take_row(part, r);
    return 0;
}

void parts_resume(struct session *s, void *remote)
{
    struct parts *all = remote;
    struct session_parts *of = session_parts_get(all, s);
    struct part *part, *next;

    for (size_t i = 0; i < s->n_targets; i++)
        if (target_is_remote(&s->targets[i]) && !state_is_final(s->targets[i].record.state))
            session_parts_put_target(of, &s->targets[i]);
    catalog_each_part(all->catalog, s->record.session_id, resume_part, of);
    for (part = TAILQ_FIRST(&of->parts); part; part = next) {
        next = TAILQ_NEXT(part, next);
        if (part->record.lease_id == RECORD_NONE && s->record.state != STATE_REQUESTED) {
            part_explain(part, "Start it again.", "profd was restarted before it had a lease");
            part->state = PART_LOST;
            part_report_failed(part);
        } else if (part->record.lease_id != RECORD_NONE) {
            part_event(part, PART_RESTART);
            if (part->state >= PART_STARTING && !part_is_final(part->state))
                part_measure_clock(part); /* for the moments that its host will report */
        }
    }
    if (s->record.state == STATE_REQUESTED)
        session_parts_clear(of);
}

static int late_target(const struct target_record *r, void *arg)
{
    struct part *part = arg;

    if (!streq(r->host_uuid, part->record.host_uuid))
        return 0;
    if (r->host)
        replace_str(&part->host, r->host);
    part->targets = xrealloc(part->targets, part->n_targets + 1, sizeof(*part->targets));
    part->targets[part->n_targets++] =
        (struct part_target){.target_id = r->target_id, .url = xstrdup(r->worker_url)};
    return 0;
}

static int recover_part(const struct part_record *r, void *arg)
{
    struct parts *all = arg;
    _cleanup_(session_record_done) struct session_record s;

    session_record_init(&s);
    const struct session *live = sessions_find(all->sessions, r->session_id);
    struct session_parts *of = live ? session_parts_find(all, live) : NULL;

    /* Of a session that goes on, what it does not wait for any more is late, too. */
    if ((of && session_parts_find_part(of, r->host_uuid)) ||
        catalog_get_session(all->catalog, r->session_id, &s) < 0)
        return 0;
    struct part *part = part_alloc(all, r->peer ? r->peer : r->host_uuid, s.uuid);
    part_take_row(part, r);
    catalog_each_target(all->catalog, r->session_id, late_target, part);
    TAILQ_INSERT_TAIL(&all->late, part, next);
    if (part->record.deadline_at == RECORD_NONE)
        part->record.deadline_at = wall_ns() + all->settings->delivery_ns;
    part_event(part, PART_RESTART);
    return 0;
}

int parts_recover(struct parts *all)
{
    return catalog_each_open_part(all->catalog, recover_part, all);
}
