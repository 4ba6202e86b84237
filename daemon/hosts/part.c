/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One part: its record, its life as an object, and what follows from an event (part_machine.h). Owns the effects of the
 * machine on targets and calls; it sends nothing by itself (part_calls.c) and asks nothing (part_poll.c).
 */
#include "daemon/hosts/part_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

/* A call without an answer for longer is shown. */
#define SILENCE_NS (3 * NS_PER_S)

/* Problems of calls name their host. What follows it; NULL: the text names no host. */
static const char *part_text_after_host(const struct part *part, const char *text)
{
    const size_t n = strlen(part->host);

    return starts_with(text, part->host) && starts_with(text + n, ": ") ? text + n + 2 : NULL;
}

const char *part_text_of(const struct part *part, const struct problem *p, const char *otherwise)
{
    const char *text = p && p->what ? p->what : otherwise, *rest = part_text_after_host(part, text);

    return rest ? rest : text;
}

void part_explain(struct part *part, const char *remedy, const char *format, ...)
{
    va_list ap;

    if (part->why)
        return;
    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap);
    va_end(ap);
    part->why = part_text_after_host(part, text) ? TAKE_PTR(text) : xasprintf("%s: %s", part->host, text);
    part->remedy = xstrdup(remedy);
}

static void on_part_look(evutil_socket_t fd, short what, void *arg)
{
    part_look(arg);
}

struct part *part_alloc(struct parts *all, const char *host, const char *session_uuid)
{
    struct part *part = xcalloc(1, sizeof(*part));

    part->all = all;
    part_record_init(&part->record);
    part->record.open = true;
    part->host = xstrdup(host);
    snprintf(part->session_uuid, sizeof(part->session_uuid), "%s", session_uuid ? session_uuid : "");
    part->answered_ns = mono_ns();
    part->n_traces = -1;
    part->look = event_new(all->base, -1, 0, on_part_look, part);
    return part;
}

void part_note_answer(struct part *part)
{
    part->answered_ns = mono_ns();
    part->record.answered_at = wall_ns();
    replace_str(&part->silence, NULL);
}

void part_note_silence(struct part *part, const struct problem *p)
{
    replace_str(&part->silence,
                p && p->what ? p->what : "it is no peer any more, or another profd answers there");
}

const char *part_silence(const struct part *part)
{
    if (part->silence)
        return part->silence;
    bool is_late = part->call && mono_ns() - part->call_sent_ns > SILENCE_NS;
    return is_late ? part_call_text(part) : NULL;
}

int64_t part_waits_until_ns(const struct part *part)
{
    const struct session_parts *of = part->of;
    bool is_left_alone = part->state == PART_RECORDING && !part_is_stopping(part);

    if (of && of->step == PARTS_PREPARE && part->pending)
        return of->prepared_by_ns;
    return of && part->state >= PART_STARTING && !is_left_alone && !part_is_final(part->state)
               ? part->answered_ns + part->all->settings->unreachable_ns
               : 0;
}

static void part_target_done(struct part_target *pt)
{
    free(pt->url);
    free(pt->failure);
    free(pt->remedy);
}

void part_free(struct part *part)
{
    part_calls_end(part);
    part_poll_end(part);
    clock_measuring_cancel(part->measuring);
    event_free(part->look);
    for (size_t i = 0; i < part->n_targets; i++)
        part_target_done(&part->targets[i]);
    free(part->targets);
    delivery_done(&part->report);
    part_record_done(&part->record);
    free(part->silence);
    free(part->host);
    free(part->why);
    free(part->remedy);
    free(part->holder);
    free(part);
}

void part_drop(struct part *part)
{
    struct parts *all = part->all;
    struct timeval at_once = {0};

    if (part->dropped)
        return;
    TAILQ_REMOVE(part->of ? &part->of->parts : &all->late, part, next);
    TAILQ_INSERT_TAIL(&all->dropped, part, next);
    part->of = NULL;
    part->dropped = true;
    part_calls_end(part);
    part_poll_end(part);
    clock_measuring_cancel(TAKE_PTR(part->measuring));
    event_del(part->look);
    event_add(all->sweep, &at_once);
}

void parts_on_sweep(evutil_socket_t fd, short what, void *arg)
{
    struct parts *all = arg;
    struct part *part, *next;

    for (part = TAILQ_FIRST(&all->dropped); part; part = next) {
        next = TAILQ_NEXT(part, next);
        if (part->storing)
            continue; /* a commit calls back with it, and sweeps then */
        TAILQ_REMOVE(&all->dropped, part, next);
        part_free(part);
    }
}

/* The row of an earlier round or an earlier profd is used again. */
static int part_take_id(const struct part_record *r, void *arg)
{
    struct part *part = arg;

    if (streq(r->host_uuid, part->record.host_uuid))
        part->record.part_id = r->part_id;
    return 0;
}

void part_save(struct part *part)
{
    if (part->record.lease_id == RECORD_NONE)
        return; /* no host has promised anything */
    replace_str(&part->record.state, part_state_name(part->state));
    if (part->record.part_id == 0)
        catalog_each_part(part->all->catalog, part->record.session_id, part_take_id, part);
    int r = catalog_save_part(part->all->catalog, &part->record);
    if (r < 0)
        log_struct(LOG_ERR, LOG_FIELDS(.session_id = part->record.session_id),
                   "session s%" PRId64 ": the catalog cannot take what %s answered: %s",
                   part->record.session_id, part->host, strerror(-r));
}

void part_look_later(struct part *part)
{
    struct timeval at_once = {0};

    if (!part->dropped)
        event_add(part->look, &at_once);
}

const struct peer *part_peer(const struct part *part)
{
    return peers_find_at(part->all->peers, part->record.host_uuid, part->record.url);
}

bool part_is_open_ended(const struct part *part)
{
    const struct session *s = part->of && !part->of->over ? part->of->session : NULL;

    return s &&
           (s->request.recording.duration_ns == 0 || s->request.recording.steps > 0 || s->request.stagger);
}

bool part_is_overdue(const struct part *part)
{
    return mono_ns() - part->answered_ns > part->all->settings->unreachable_ns;
}

bool part_is_stuck(const struct part *part)
{
    int64_t limit = part->all->session_settings->stop_timeout_ns + part->all->settings->unreachable_ns;
    int64_t before = mono_ns() - limit;

    if (!part->of)
        return false;
    if (part->state == PART_DELIVERING)
        return part->delivering_ns > 0 && part->delivering_ns < before;
    for (size_t i = 0; i < part->n_targets; i++) {
        const struct part_target *pt = &part->targets[i];
        if (pt->target && pt->target->record.state == STATE_STOPPING && pt->stop_asked_ns > 0 &&
            pt->stop_asked_ns < before)
            return true;
    }
    return false;
}

bool part_is_stopping(const struct part *part)
{
    for (size_t i = 0; i < part->n_targets; i++)
        if (part->targets[i].target && part->targets[i].stop_asked)
            return true;
    return false;
}

bool part_is_left(const struct part *part)
{
    return part->of && part->state == PART_DELIVERING && part->record.deadline_at != RECORD_NONE;
}

void part_await(struct part *part)
{
    part->pending = true;
    part->of->n_pending++;
}

void part_arrive(struct part *part)
{
    struct session_parts *of = part->of;
    struct timeval at_once = {0};

    if (!of || !part->pending)
        return;
    part->pending = false;
    if (--of->n_pending == 0 && of->step != PARTS_START)
        event_add(of->timer, &at_once);
}

/* -- What follows from an event -- */

/* What the host did not report, and never will. */
void part_report_failed(struct part *part)
{
    for (size_t i = 0; i < part->n_targets; i++) {
        struct part_target *pt = &part->targets[i];
        if (pt->known && state_is_final(pt->reported))
            continue;
        pt->known = true;
        pt->reported = STATE_FAILED;
        replace_str(&pt->failure, part->why);
        replace_str(&pt->remedy, part->remedy);
    }
    part->drained = true;
    part_look_later(part);
}

/* Whether they record is not known; the host may report it yet. */
static void part_settle(struct part *part)
{
    for (size_t i = 0; i < part->n_targets; i++) {
        struct target *t = part->targets[i].target;
        if (t && t->record.state == STATE_STARTING)
            target_peer_failed(t, part->why, part->remedy, true);
    }
}

/* part_look() ends its targets as partial. */
static void part_leave_partial(struct part *part)
{
    part->record.deadline_at = wall_ns() + part->all->settings->delivery_ns;
    part_look_later(part);
}

static void part_send_stop(struct part *part)
{
    for (size_t i = 0; i < part->n_targets; i++)
        part->targets[i].stop_asked = part->targets[i].stop_sent = true;
    part_call(part, PART_CALL_STOP);
}

static void part_lose(struct part *part)
{
    part->all->metrics.lost++;
    log_struct(LOG_WARNING, LOG_FIELDS(.session_id = part->record.session_id), "session s%" PRId64 ": %s",
               part->record.session_id, part->why ? part->why : part->host);
}

void part_event(struct part *part, enum part_event event)
{
    unsigned effects;
    enum part_state before = part->state;

    if (part->dropped)
        return;
    part->state = part_next(before, event, &effects);
    if (part->state == PART_DELIVERING && part->delivering_ns == 0)
        part->delivering_ns = mono_ns();
    if (effects & PART_CLOSE)
        part->record.open = false;
    if (effects & (PART_FAIL_TARGETS | PART_SETTLE | PART_COLLECT))
        part_explain(part, "See profd's log on that host.", "its session ended without a result");
    if (part->state == PART_LOST && before != PART_LOST)
        part_lose(part);
    if (part->state != before || (effects & PART_LEAVE_PARTIAL)) {
        if (effects & PART_LEAVE_PARTIAL && part->record.deadline_at == RECORD_NONE)
            part_leave_partial(part);
        part_save(part);
    }
    if (part->dropped)
        return;
    if (effects & PART_SETTLE)
        part_settle(part);
    if (effects & (PART_FAIL_TARGETS | PART_COLLECT))
        part_report_failed(part);
    if (part->dropped)
        return;
    if (effects & PART_RELEASE)
        part_call(part, PART_CALL_RELEASE);
    if (effects & PART_SEND_STOP)
        part_send_stop(part);
    if (effects & PART_POLL)
        part_poll(part);
    if (effects & PART_ARRIVE || part_is_final(part->state))
        part_arrive(part);
    if (!part_is_final(part->state))
        return;
    part_poll_end(part);
    if (part->calling != PART_CALL_RELEASE)
        part_calls_end(part);
    if (!part->of && part->calling == PART_CALL_NONE)
        part_drop(part);
}
