/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks hosts what they have to report: one long question at a time for each part, whose answer is checked (delivery.h), stored,
 * and then acted on (part_delivery.c). Rows and the number up to which they were taken are of one commit; an answer that is
 * repeated changes nothing, because a trace has its UUID.
 */
#include "daemon/hosts/part_internal.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include <errno.h>
#include <inttypes.h>

#define POLL_WAIT_S    25
#define POLL_ANSWER_NS (10 * NS_PER_S) /* in addition to the wait */
/* A host answers when something changed. One whose answers come faster than this, this often in a row, is asked after a
 * pause. */
#define POLL_QUICK_NS      (100 * NS_PER_MS)
#define POLL_QUICK_MAX     8
#define POLL_PAUSE_NS      (250 * NS_PER_MS)
#define LATE_POLL_PAUSE_NS (30 * NS_PER_S)

static const struct backoff poll_retry = {.first_ns = NS_PER_S,
                                          .max_ns = 30 * NS_PER_S,
                                          .random_percent = 25},
                            /* A host of a session that is over: nobody waits for it. */
    late_poll_retry = {.first_ns = NS_PER_S, .max_ns = 300 * NS_PER_S, .random_percent = 25};

/* -- Answers -- */

static void part_poll_later(struct part *part);
static void part_poll_next(struct part *part);

static void part_apply(struct part *part)
{
    struct delivery d = part->report;
    bool is_armed = d.armed && !part->host_armed;

    part->report = (struct delivery){0};
    part->poll_tries = 0;
    part->drained = d.n_traces < DELIVERY_TRACES_MAX || d.over;
    part->host_armed = part->host_armed || d.armed;
    part_take_report(part, &d);
    if (is_armed && part->state == PART_PREPARING && part->measured)
        part_event(part, PART_OK);
    if (!part->dropped)
        part_look(part);
    if (d.over && !part->dropped) {
        part_explain(part, d.remedy, "%s", d.reason ? d.reason : "its session ended");
        part_event(part, PART_OVER);
    }
    delivery_done(&d);
    if (!part->dropped && part_is_stuck(part))
        part_event(part, PART_OVERDUE);
    if (!part->dropped && !part_is_final(part->state))
        part_poll_next(part);
}

static void on_report_stored(int err, void *arg)
{
    struct part *part = arg;

    part->storing = false;
    if (part->dropped) {
        struct timeval at_once = {0};
        event_add(part->all->sweep, &at_once);
        return;
    }
    if (err < 0) {
        part->record.delivered = part->delivered_before;
        delivery_done(&part->report);
        part_poll_later(part);
        return;
    }
    part->all->metrics.delivered += part->report.n_traces;
    part->facts_bytes += delivery_facts_bytes(&part->report);
    part_apply(part);
}

/* The rows first: a crash between them and what follows repeats the question. */
static void part_store(struct part *part)
{
    int r = part_take_traces(part, &part->report);

    part->delivered_before = part->record.delivered;
    if (r == -EDQUOT || r == -EFBIG) {
        delivery_done(&part->report);
        if (r == -EDQUOT)
            part_explain(part, "Is it another program that answers at its address?",
                         "it delivered more than %d traces of one session", PART_TRACES_MAX);
        else
            part_explain(part, "Is it another program that answers at its address?",
                         "it delivered more than %" PRId64 " MiB about the traces of one session",
                         PART_FACTS_BYTES_MAX >> 20);
        part_event(part, PART_GONE);
        return;
    }
    if (r < 0) {
        log_struct(LOG_WARNING, LOG_FIELDS(.session_id = part->record.session_id),
                   "session s%" PRId64 ": the catalog cannot take the traces of %s: %s",
                   part->record.session_id, part->host, strerror(-r));
        delivery_done(&part->report);
        part_poll_later(part);
        return;
    }
    part->record.delivered = MAX(part->record.delivered, part->report.next);
    if (part->record.delivered != part->delivered_before)
        part_save(part);
    part->storing = true;
    catalog_then(part->all->catalog, false, on_report_stored, part);
}

/* -- The question -- */

static void on_poll_again(evutil_socket_t fd, short what, void *arg)
{
    part_poll(arg);
}

static void part_poll_in(struct part *part, int64_t pause_ns)
{
    struct timeval tv = timeval_of(pause_ns);

    if (!part->poll_again)
        part->poll_again = event_new(part->all->base, -1, 0, on_poll_again, part);
    event_add(part->poll_again, &tv);
}

/* After an answer: at once, unless the host answers without waiting for a change. */
static void part_poll_next(struct part *part)
{
    bool is_quick = mono_ns() - part->poll_sent_ns < POLL_QUICK_NS;

    part->poll_quick = is_quick ? part->poll_quick + 1 : 0;
    if (part->poll_quick <= POLL_QUICK_MAX)
        part_poll(part);
    else
        part_poll_in(part, part->of ? POLL_PAUSE_NS : LATE_POLL_PAUSE_NS);
}

static void part_poll_later(struct part *part)
{
    part_poll_in(part,
                 backoff_ns(part->of ? &poll_retry : &late_poll_retry, ++part->poll_tries, backoff_random()));
}

static void part_give_up_delivery(struct part *part)
{
    part_explain(part, "Raise [hosts] delivery= in profd.conf where hosts are away for longer.",
                 "has not delivered everything in time: its traces are not waited for any more");
    part_event(part, PART_GONE);
}

static void part_on_no_report(struct part *part)
{
    bool waits = part->state != PART_RECORDING || part_is_stopping(part);

    if (part->of && waits && (part_is_overdue(part) || part_is_stuck(part)))
        part_event(part, PART_OVERDUE);
    if (!part->dropped && !part_is_final(part->state) && !part->poll)
        part_poll_later(part);
}

/* Its session was deleted here: what its host still delivers is of nothing. */
static bool part_is_orphan(const struct part *part)
{
    struct session_record session;

    if (part->of)
        return false;
    session_record_init(&session);
    int r = catalog_get_session(part->all->catalog, part->record.session_id, &session);
    session_record_done(&session);
    return r == -ENOENT;
}

static void part_on_report(int status, const json_t *body, const struct problem *p, void *arg)
{
    struct part *part = arg;
    const char *reason;

    part->poll = NULL;
    if (part_is_orphan(part)) {
        part_drop(part);
        return;
    }
    if (status == 410 || status == 404) {
        part_explain(part, "Its catalog was restored or emptied; its store still has the files.",
                     "it has no such lease any more: %s", part_text_of(part, p, "gone"));
        part_event(part, PART_GONE);
        return;
    }
    if (status / 100 != 2) {
        part_note_silence(part, p);
        part_on_no_report(part);
        return;
    }
    if (delivery_parse(body, &part->report, &reason) < 0) {
        log_struct(LOG_WARNING, LOG_FIELDS(.session_id = part->record.session_id),
                   "session s%" PRId64 ": %s sent an invalid answer about its lease: %s",
                   part->record.session_id, part->host, reason);
        delivery_done(&part->report);
        part_on_no_report(part);
        return;
    }
    part_note_answer(part);
    part_store(part);
}

void part_poll(struct part *part)
{
    if (part->poll_again)
        event_del(part->poll_again);
    if (part->poll || part->storing || part->dropped)
        return;
    if (!part->of && part->record.deadline_at != RECORD_NONE && wall_ns() >= part->record.deadline_at) {
        part_give_up_delivery(part);
        return;
    }
    const struct peer *peer = part_peer(part);
    if (!peer) {
        part_note_silence(part, NULL);
        part_poll_later(part);
        return;
    }
    _cleanup_(freep) char *path =
        xasprintf("/v1/leases/%" PRId64 "?session=%s&after=%" PRId64 "&wait=%d", part->record.lease_id,
                  part->session_uuid, part->record.delivered, POLL_WAIT_S);
    part->poll_sent_ns = mono_ns();
    part->poll =
        peer_get(part->all->peers, peer, path, POLL_WAIT_S * NS_PER_S + POLL_ANSWER_NS, part_on_report, part);
}

void part_poll_end(struct part *part)
{
    if (part->poll)
        peer_query_cancel(TAKE_PTR(part->poll));
    if (part->poll_again)
        event_free(TAKE_PTR(part->poll_again));
}
