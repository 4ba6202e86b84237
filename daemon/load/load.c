/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/load.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/load/messages.h"
#include <errno.h>

/* A server that refuses at once gets a hundred requests a second and slot, not ten thousand. */
#define ERROR_REST_NS (10 * NS_PER_MS)
/* Requests that are ready before they are due, and how many of them are made at a time once the load runs. */
#define READY_MAX       1024
#define READY_BYTES_MAX (INT64_C(16) << 20)
#define READY_STEP      2

/* -- Warm-up ------------------------------------------------------------------------------------------ */

struct warmup_worker {
    struct warmup *warmup;
    struct load_target *target;
    int64_t sent, failed, sum_ns;
};

static void warmup_send_next(struct warmup_worker *k);

/* The result of a worker. */
static void warmup_report(const struct warmup_worker *k)
{
    int64_t ok = k->sent - k->failed;
    json_t *line = json_object();

    json_put_str(line, "t", "warmed");
    json_put_str(line, "url", k->target->url);
    json_put_int(line, "sent", k->sent);
    json_put_int(line, "failed", k->failed);
    json_object_set_new(line, "mean_ms",
                        ok > 0 ? json_real((double)k->sum_ns / (double)ok / (double)NS_PER_MS) : json_null());
    if (ok == 0)
        json_put_str(line, "error", k->warmup->error);
    messages_send(k->warmup->setup.messages, line);
}

static void warmup_worker_end(struct warmup_worker *k)
{
    struct warmup *w = k->warmup;

    if (k->sent > 0)
        warmup_report(k);
    if (--w->busy == 0)
        w->setup.done(w->setup.arg);
}

static void warmup_on_done(struct request *r, void *arg)
{
    struct warmup_worker *k = arg;
    bool ok = r->record.outcome == OUTCOME_SUCCESS;

    k->failed += !ok;
    k->warmup->succeeded += ok;
    k->sum_ns += ok ? r->record.end_ns - r->record.sent_ns : 0;
    if (!ok)
        replace_str(&k->warmup->error, r->record.error);
    request_free(r);
    warmup_send_next(k);
}

static void warmup_send_next(struct warmup_worker *k)
{
    const struct load_setup *s = &k->warmup->setup;
    const struct workload *w = s->prompts->workload;
    int64_t of_worker = k - k->warmup->workers;

    if (k->sent >= w->warmup) {
        warmup_worker_end(k);
        return;
    }
    struct request *r = request_new(&(struct request_setup){.api = k->target->api,
                                                            .prompts = s->prompts,
                                                            .model = s->model,
                                                            .index = -1 - (of_worker * w->warmup + k->sent),
                                                            .done = warmup_on_done,
                                                            .arg = k});
    k->sent++;
    if (!request_send(r, s->pool, k->target, 0, mono_ns())) {
        k->failed++;
        replace_str(&k->warmup->error, r->record.error);
        request_free(r);
        warmup_worker_end(k);
    }
}

void warmup_start(struct warmup *w, const struct load_setup *setup)
{
    *w = (struct warmup){
        .setup = *setup, .workers = xcalloc(setup->n_targets, sizeof(*w->workers)), .busy = setup->n_targets};
    for (size_t i = 0; i < setup->n_targets; i++)
        w->workers[i] = (struct warmup_worker){.warmup = w, .target = &setup->targets[i]};
    for (size_t i = 0; i < setup->n_targets; i++)
        warmup_send_next(&w->workers[i]);
}

void warmup_done(struct warmup *w)
{
    free(w->workers);
    free(w->error);
    *w = (struct warmup){0};
}

/* -- The load ----------------------------------------------------------------------------------------- */

enum load_state {
    LOAD_WAITING,
    LOAD_SENDING,
    LOAD_DRAINING,
    LOAD_ENDED,
};

struct load {
    struct load_setup setup;
    const struct workload *workload;
    enum load_state state;
    struct schedule schedule; /* of an open loop */
    int64_t *slots;           /* of a closed one: a ring of the moments when free slots became free */
    size_t n_slots, first_slot;
    int64_t planned, in_flight_max; /* planned: 0 unknown */
    int64_t sent, in_flight;
    size_t next_target;
    struct request *ready[READY_MAX]; /* a ring of those that are sent next */
    size_t first_ready, n_ready;
    int64_t ready_bytes;
    const struct server_api *ready_api; /* of all targets; NULL: they differ, and nothing is made ready */
    struct event *due, *over, *drain, *ended;
    struct load_records *records;
    struct progress progress;
};

static void load_pump(struct load *l);
static void load_on_done(struct request *r, void *arg);

static bool load_is_closed(const struct load *l)
{
    return l->slots != NULL;
}

static void load_set_timer(struct event *timer, int64_t deadline_ns)
{
    struct timeval tv = timeval_until(deadline_ns);
    event_add(timer, &tv);
}

/* -- The end ------------------------------------------------------------------------------------------ */

static void load_end_when_empty(struct load *l)
{
    if (l->state != LOAD_DRAINING || l->in_flight > 0)
        return;
    l->state = LOAD_ENDED;
    l->records->ended_ns = mono_ns();
    event_del(l->drain);
    event_active(l->ended, EV_TIMEOUT, 0);
}

static void load_on_ended(evutil_socket_t fd, short what, void *arg)
{
    struct load *l = arg;
    l->setup.done(l->setup.arg);
}

static void load_drain(struct load *l, bool bounded)
{
    if (l->state != LOAD_SENDING)
        return;
    l->state = LOAD_DRAINING;
    event_del(l->due);
    event_del(l->over);
    if (bounded)
        load_set_timer(l->drain, mono_ns() + l->workload->drain_ns);
    load_end_when_empty(l);
}

static void load_on_drain(evutil_socket_t fd, short what, void *arg)
{
    struct load *l = arg;
    http_pool_cancel(l->setup.pool, "cut by the end of the run");
}

static void load_on_over(evutil_socket_t fd, short what, void *arg)
{
    load_drain(arg, true);
}

void load_stop(struct load *l)
{
    if (l->state == LOAD_DRAINING) /* of a run without a deadline */
        load_set_timer(l->drain, mono_ns() + l->workload->drain_ns);
    load_drain(l, true);
}

/* -- What is due -------------------------------------------------------------------------------------- */

static void load_free_slot(struct load *l, int64_t at_ns)
{
    if (!load_is_closed(l))
        return;
    l->slots[(l->first_slot + l->n_slots) % (size_t)l->in_flight_max] = at_ns;
    l->n_slots++;
}

/* False: nothing is due until a request ends. */
static bool load_next_due(const struct load *l, int64_t *ret_ns)
{
    if (l->in_flight >= l->in_flight_max)
        return false;
    if (!load_is_closed(l))
        *ret_ns = l->records->started_ns + l->schedule.at_ns[l->sent];
    else if (l->n_slots > 0)
        *ret_ns = l->slots[l->first_slot];
    return !load_is_closed(l) || l->n_slots > 0;
}

static void load_take_due(struct load *l)
{
    if (load_is_closed(l)) {
        l->first_slot = (l->first_slot + 1) % (size_t)l->in_flight_max;
        l->n_slots--;
    }
    l->sent++;
}

/* Round robin over the targets that do not rest; NULL, with the moment when the first of them is available again. */
static struct load_target *load_next_target(struct load *l, int64_t now_ns, int64_t *ret_ns)
{
    size_t n = l->setup.n_targets;

    *ret_ns = DEADLINE_NEVER;
    for (size_t i = 0; i < n; i++) {
        struct load_target *t = &l->setup.targets[(l->next_target + i) % n];
        if (t->rest_until_ns <= now_ns) {
            l->next_target = (l->next_target + i + 1) % n;
            return t;
        }
        *ret_ns = MIN(*ret_ns, t->rest_until_ns);
    }
    return NULL;
}

/* -- Sending ------------------------------------------------------------------------------------------ */

static void load_request_ended(struct load *l, struct request *r)
{
    bool failed = r->record.outcome == OUTCOME_ERROR;
    int64_t end_ns = r->record.end_ns;

    l->in_flight--;
    if (r->retry_after_ns > 0)
        r->target->rest_until_ns = end_ns + r->retry_after_ns;
    progress_add(&l->progress, &r->record, response_tokens_seen(&r->response));
    load_records_add(l->records, r);
    request_free(r);
    load_records_write(l->records, l->setup.messages, l->setup.targets);
    load_free_slot(l, failed ? end_ns + ERROR_REST_NS : end_ns);
}

static struct request *load_new_request(struct load *l, const struct server_api *api, int64_t index)
{
    return request_new(&(struct request_setup){.api = api,
                                               .prompts = l->setup.prompts,
                                               .model = l->setup.model,
                                               .index = index,
                                               .tokens_seen = &l->progress.tokens_seen,
                                               .done = load_on_done,
                                               .arg = l});
}

/* Makes at most n of the next requests, while nothing is due. */
static void load_prepare(struct load *l, size_t n)
{
    size_t max = MIN((size_t)l->in_flight_max, ARRAY_SIZE(l->ready));

    for (; n > 0 && l->ready_api && l->n_ready < max && l->ready_bytes < READY_BYTES_MAX; n--) {
        int64_t index = l->sent + (int64_t)l->n_ready;
        if ((l->planned > 0 || !load_is_closed(l)) && index >= l->planned)
            return;
        struct request *r = load_new_request(l, l->ready_api, index);
        l->ready[(l->first_ready + l->n_ready++) % ARRAY_SIZE(l->ready)] = r;
        l->ready_bytes += (int64_t)r->body_size;
    }
}

static struct request *load_take_ready(struct load *l)
{
    if (l->n_ready == 0)
        return NULL;
    struct request *r = l->ready[l->first_ready];
    l->first_ready = (l->first_ready + 1) % ARRAY_SIZE(l->ready);
    l->n_ready--;
    l->ready_bytes -= (int64_t)r->body_size;
    return r;
}

static void load_send_next(struct load *l, struct load_target *t, int64_t intended_ns)
{
    struct request *r = load_take_ready(l);

    if (!r)
        r = load_new_request(l, t->api, l->sent);
    load_take_due(l);
    l->in_flight++;
    bool sent = request_send(r, l->setup.pool, t, (int32_t)(t - l->setup.targets), intended_ns);
    t->is_known = true;
    if (!sent)
        load_request_ended(l, r);
}

static void load_pump(struct load *l)
{
    int64_t now_ns = mono_ns(), due_ns, rested_ns;

    while (l->state == LOAD_SENDING) {
        if ((l->planned > 0 || !load_is_closed(l)) && l->sent >= l->planned) {
            load_drain(l, l->workload->duration_ns > 0);
            return;
        }
        if (load_records_full(l->records)) {
            messages_send_note(l->setup.messages,
                               "the records of the requests fill 4 GiB: no more requests are sent",
                               "shorten the run, or split it into several");
            load_drain(l, true);
            return;
        }
        if (!load_next_due(l, &due_ns))
            return;
        if (due_ns > now_ns) {
            load_set_timer(l->due, due_ns);
            return;
        }
        struct load_target *t = load_next_target(l, now_ns, &rested_ns);
        if (!t) {
            load_set_timer(l->due, rested_ns);
            return;
        }
        load_send_next(l, t, due_ns);
    }
}

static void load_on_done(struct request *r, void *arg)
{
    struct load *l = arg;

    load_request_ended(l, r);
    load_pump(l);
    load_prepare(l, READY_STEP);
    load_end_when_empty(l);
}

static void load_on_due(evutil_socket_t fd, short what, void *arg)
{
    load_pump(arg);
    load_prepare(arg, READY_STEP);
}

void load_open(struct load *l, void (*opened)(void *arg), void *arg)
{
    size_t n = l->setup.n_targets;
    int64_t first = l->planned > 0 ? MIN(l->planned, l->in_flight_max) : l->in_flight_max;

    load_prepare(l, ARRAY_SIZE(l->ready));
    for (size_t i = 0; i < n && load_is_closed(l); i++)
        http_pool_open(l->setup.pool, &l->setup.targets[i], (size_t)first / n + (i < (size_t)first % n));
    http_pool_when_open(l->setup.pool, opened, arg);
}

void load_start(struct load *l)
{
    const struct workload *w = l->workload;

    if (l->state != LOAD_WAITING)
        return;
    l->state = LOAD_SENDING;
    l->records->started_ns = mono_ns();
    if (load_is_closed(l))
        for (int64_t i = 0; i < l->in_flight_max; i++)
            load_free_slot(l, l->records->started_ns);
    if (w->duration_ns > 0)
        load_set_timer(l->over, l->records->started_ns + w->duration_ns);
    load_pump(l);
}

/* -- Its life ----------------------------------------------------------------------------------------- */

static int load_plan(struct load *l)
{
    const struct workload *w = l->workload;

    l->in_flight_max =
        w->concurrency > 0 ? MIN(w->concurrency, l->setup.in_flight_max) : l->setup.in_flight_max;
    l->planned = w->requests;
    if (w->arrival == ARRIVAL_CLOSED) {
        l->slots = xcalloc((size_t)l->in_flight_max, sizeof(*l->slots));
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
    l->records = setup->records;
    l->workload = setup->prompts->workload;
    l->due = evtimer_new(setup->base, load_on_due, l);
    l->over = evtimer_new(setup->base, load_on_over, l);
    l->drain = evtimer_new(setup->base, load_on_drain, l);
    l->ended = evtimer_new(setup->base, load_on_ended, l);
    l->ready_api = setup->targets[0].api;
    for (size_t i = 0; i < setup->n_targets; i++)
        if (setup->targets[i].api != l->ready_api)
            l->ready_api = NULL;
    int r = l->due && l->over && l->drain && l->ended ? load_plan(l) : -ENOMEM;
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
    for (struct request *r; (r = load_take_ready(l));)
        request_free(r);
    schedule_done(&l->schedule);
    free(l->slots);
    free(l);
    return NULL;
}

json_t *load_progress(struct load *l)
{
    json_t *line = progress_line(&l->progress, mono_ns() - l->records->started_ns);

    json_put_int(line, "sent", l->sent);
    json_put_int(line, "in_flight", l->in_flight);
    json_put_int(line, "planned", l->planned);
    return line;
}
