/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/load.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/load/live.h"
#include <errno.h>

/* A server that refuses at once is asked again a hundred times a second and place, not ten thousand. */
#define ERROR_REST_NS (10 * NS_PER_MS)

enum state {
    WAITING,
    LOADING,
    DRAINING,
    ENDED,
};

struct load {
    struct load_setup setup;
    const struct workload *workload;
    enum state state;
    struct schedule schedule; /* of an open loop */
    int64_t *places;          /* of a closed one: a ring of when each free place became free */
    size_t n_places, first_place;
    int64_t planned, in_flight_max; /* planned: 0 unknown */
    int64_t sent, in_flight;
    int64_t started_ns, ended_ns;
    size_t next_target;
    struct event *due, *over, *drain, *ended;
    struct records records;
    struct live live;
};

static void pump(struct load *l);

static bool is_closed(const struct load *l)
{
    return l->places != NULL;
}

static void set_timer(struct event *timer, int64_t deadline_ns)
{
    struct timeval tv = timeval_until(deadline_ns);
    event_add(timer, &tv);
}

/* -- The end ------------------------------------------------------------------------------------------ */

static void end_when_empty(struct load *l)
{
    if (l->state != DRAINING || l->in_flight > 0)
        return;
    l->state = ENDED;
    l->ended_ns = mono_ns();
    event_del(l->drain);
    event_active(l->ended, EV_TIMEOUT, 0);
}

static void on_ended(evutil_socket_t fd, short what, void *arg)
{
    struct load *l = arg;
    l->setup.ended(l->setup.arg);
}

static void begin_drain(struct load *l, bool bounded)
{
    if (l->state != LOADING)
        return;
    l->state = DRAINING;
    event_del(l->due);
    event_del(l->over);
    if (bounded)
        set_timer(l->drain, mono_ns() + l->workload->drain_ns);
    end_when_empty(l);
}

static void on_drain(evutil_socket_t fd, short what, void *arg)
{
    struct load *l = arg;
    wires_cut(l->setup.wires, "cut by the end of the run");
}

static void on_over(evutil_socket_t fd, short what, void *arg)
{
    begin_drain(arg, true);
}

void load_stop(struct load *l)
{
    if (l->state == DRAINING) /* of a run that had no deadline */
        set_timer(l->drain, mono_ns() + l->workload->drain_ns);
    begin_drain(l, true);
}

/* -- What is due -------------------------------------------------------------------------------------- */

static void free_place(struct load *l, int64_t at_ns)
{
    if (!is_closed(l))
        return;
    l->places[(l->first_place + l->n_places) % (size_t)l->in_flight_max] = at_ns;
    l->n_places++;
}

/* False: nothing until something ends. */
static bool next_due(const struct load *l, int64_t *ret_ns)
{
    if (l->in_flight >= l->in_flight_max)
        return false;
    if (!is_closed(l))
        *ret_ns = l->started_ns + l->schedule.at_ns[l->sent];
    else if (l->n_places > 0)
        *ret_ns = l->places[l->first_place];
    return !is_closed(l) || l->n_places > 0;
}

static void take_due(struct load *l)
{
    if (is_closed(l)) {
        l->first_place = (l->first_place + 1) % (size_t)l->in_flight_max;
        l->n_places--;
    }
    l->sent++;
}

/* In turn, without those that rest; NULL with when the first of them does no longer. */
static struct target *next_target(struct load *l, int64_t now_ns, int64_t *ret_ns)
{
    size_t n = l->setup.n_targets;

    *ret_ns = DEADLINE_NEVER;
    for (size_t i = 0; i < n; i++) {
        struct target *t = &l->setup.targets[(l->next_target + i) % n];
        if (t->rest_until_ns <= now_ns) {
            l->next_target = (l->next_target + i + 1) % n;
            return t;
        }
        *ret_ns = MIN(*ret_ns, t->rest_until_ns);
    }
    return NULL;
}

/* -- Sending ------------------------------------------------------------------------------------------ */

static void take_end(struct load *l, struct request *r)
{
    bool failed = r->record.outcome == OUTCOME_ERROR;
    int64_t end_ns = r->record.end_ns;

    l->in_flight--;
    if (r->retry_after_ns > 0)
        r->target->rest_until_ns = end_ns + r->retry_after_ns;
    live_add(&l->live, &r->record, answer_tokens_seen(&r->answer));
    records_add(&l->records, r, l->started_ns);
    request_free(r);
    records_tell(&l->records, l->setup.emit, l->setup.targets);
    free_place(l, failed ? end_ns + ERROR_REST_NS : end_ns);
}

static void on_done(struct request *r, void *arg)
{
    struct load *l = arg;

    take_end(l, r);
    pump(l);
    end_when_empty(l);
}

/* What could not even begin is a request that failed, too. */
static void fail_request(struct load *l, const struct request_order *o, int err)
{
    struct request *r = xcalloc(1, sizeof(*r));

    r->target = o->target;
    r->record = (struct request_record){.index = o->index,
                                        .prompt = prompts_of_request(o->prompts, o->index),
                                        .target = (int32_t)(o->target - l->setup.targets),
                                        .intended_ns = o->intended_ns,
                                        .sent_ns = -1,
                                        .first_ns = -1,
                                        .last_ns = -1,
                                        .end_ns = mono_ns(),
                                        .input_tokens = -1,
                                        .output_tokens = -1,
                                        .outcome = OUTCOME_ERROR,
                                        .error = strerror(-err)};
    take_end(l, r);
}

static void send_next(struct load *l, struct target *t, int64_t intended_ns)
{
    struct request_order o = {.target = t,
                              .target_index = (int32_t)(t - l->setup.targets),
                              .prompts = l->setup.prompts,
                              .model = l->setup.model,
                              .index = l->sent,
                              .intended_ns = intended_ns,
                              .tokens_seen = &l->live.tokens_seen,
                              .done = on_done,
                              .arg = l};

    take_due(l);
    l->in_flight++;
    int r = request_send(l->setup.wires, &o);
    t->is_known = true;
    if (r < 0)
        fail_request(l, &o, r);
}

static void pump(struct load *l)
{
    int64_t now_ns = mono_ns(), due_ns, rested_ns;

    while (l->state == LOADING) {
        if ((l->planned > 0 || !is_closed(l)) && l->sent >= l->planned) {
            begin_drain(l, l->workload->duration_ns > 0);
            return;
        }
        if (records_full(&l->records)) {
            emit_note(l->setup.emit, "the records of the requests fill 4 GiB: nothing more is sent",
                      "make the run shorter, or split it into several");
            begin_drain(l, true);
            return;
        }
        if (!next_due(l, &due_ns))
            return;
        if (due_ns > now_ns) {
            set_timer(l->due, due_ns);
            return;
        }
        struct target *t = next_target(l, now_ns, &rested_ns);
        if (!t) {
            set_timer(l->due, rested_ns);
            return;
        }
        send_next(l, t, due_ns);
    }
}

static void on_due(evutil_socket_t fd, short what, void *arg)
{
    pump(arg);
}

void load_start(struct load *l)
{
    const struct workload *w = l->workload;

    if (l->state != WAITING)
        return;
    l->state = LOADING;
    l->started_ns = mono_ns();
    if (is_closed(l))
        for (int64_t i = 0; i < l->in_flight_max; i++)
            free_place(l, l->started_ns);
    if (w->duration_ns > 0)
        set_timer(l->over, l->started_ns + w->duration_ns);
    pump(l);
}

/* -- Its life ----------------------------------------------------------------------------------------- */

static int plan(struct load *l)
{
    const struct workload *w = l->workload;

    l->in_flight_max =
        w->concurrency > 0 ? MIN(w->concurrency, l->setup.in_flight_max) : l->setup.in_flight_max;
    l->planned = w->requests;
    if (w->arrival == ARRIVAL_CLOSED) {
        l->places = xcalloc((size_t)l->in_flight_max, sizeof(*l->places));
        return 0;
    }
    int r = schedule_make(w, &l->schedule);
    l->planned = (int64_t)l->schedule.n;
    return r;
}

int load_new(const struct load_setup *setup, struct load **ret)
{
    struct load *l = xcalloc(1, sizeof(*l));

    l->setup = *setup;
    l->workload = setup->prompts->workload;
    l->due = evtimer_new(setup->base, on_due, l);
    l->over = evtimer_new(setup->base, on_over, l);
    l->drain = evtimer_new(setup->base, on_drain, l);
    l->ended = evtimer_new(setup->base, on_ended, l);
    int r = l->due && l->over && l->drain && l->ended ? plan(l) : -ENOMEM;
    if (r < 0) {
        load_free(l);
        return r;
    }
    *ret = l;
    return 0;
}

struct load *load_free(struct load *l)
{
    if (!l)
        return NULL;
    struct event *const timers[] = {l->due, l->over, l->drain, l->ended};
    for (size_t i = 0; i < ARRAY_SIZE(timers); i++)
        if (timers[i])
            event_free(timers[i]);
    schedule_done(&l->schedule);
    free(l->places);
    records_done(&l->records);
    free(l);
    return NULL;
}

struct records *load_records(struct load *l)
{
    return &l->records;
}

int64_t load_started_ns(const struct load *l)
{
    return l->started_ns;
}

int64_t load_ended_ns(const struct load *l)
{
    return l->ended_ns;
}

json_t *load_live(struct load *l)
{
    json_t *line = live_line(&l->live, mono_ns() - l->started_ns);

    json_put_int(line, "sent", l->sent);
    json_put_int(line, "in_flight", l->in_flight);
    json_put_int(line, "planned", l->planned);
    return line;
}
