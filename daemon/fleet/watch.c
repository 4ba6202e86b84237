/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/watch.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/names.h"
#include "daemon/fleet/watched_worker.h"
#include <errno.h>
#include <event2/event.h>
#include <sys/queue.h>

/* One fleet, for all who look at it. */
struct fleet_watch {
    LIST_ENTRY(fleet_watch) next;
    struct fleet_watches *all;
    struct fleet_query query;
    char *key; /* equal queries have equal keys */
    unsigned lookers;
    struct discovery *discovery;
    int64_t discovered_ns; /* when the last discovery ended, monotonic; 0: none has */
    char *name, *router, *dialect;
    char *failure, *remedy; /* of the last discovery; NULL: it succeeded */
    struct watched_worker **workers;
    size_t n_workers, left_out;
    json_t *event_fleet, *event_workers, *event_odd; /* of the current event */
};

/* What several lookers see alike: one text is made for all of them. */
struct fleet_looker {
    LIST_ENTRY(fleet_looker) next;
    struct fleet_watches *all;
    struct fleet_watch *watches[FLEET_WATCHES_MAX];
    size_t n, left_out;
    char *key;
    void (*on_event)(const char *data, void *arg);
    void *arg;
    bool is_new; /* without an event so far */
};

struct fleet_watches {
    struct event_base *base;
    struct fleet_finder *finder;
    struct caller *caller;
    const struct fleet_settings *settings;
    void (*prepare)(void *arg);
    fleet_busy busy;
    void *arg;
    struct event *tick, *publish, *ready;
    size_t n_asked; /* workers with calls in flight */
    LIST_HEAD(, fleet_watch) watches;
    LIST_HEAD(, fleet_looker) lookers;
    struct fleet_looker *publishing; /* the next one; changed where that one ends */
};

/* -- Which fleet ----------------------------------------------------------------------------------------- */

static json_t *numbers_to_json(const int64_t *numbers, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(numbers[i]));
    return list;
}

static json_t *texts_to_json(char *const *texts, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_text(texts[i]));
    return list;
}

/* With its author where that decides what is found. */
static char *query_key(const struct fleet_query *q)
{
    _cleanup_json_ j = json_object();
    const struct process_query *p = &q->processes;

    json_put_str(j, "fleet", q->fleet);
    json_put_str(j, "router", q->router);
    json_put_str(j, "dialect", q->dialect);
    json_put_int(j, "system_port", q->system_port);
    json_put_str(j, "trace_dir", q->trace_dir);
    json_object_set_new(j, "workers", texts_to_json(q->workers, q->n_workers));
    if (q->by.source) {
        json_put_str(j, "source", q->by.source->key);
        json_put_str(j, "value", q->by.value);
        for (const struct source_setting *s = source_settings; s->name; s++)
            json_put_str(j, s->name, *(char *const *)(const void *)((const char *)&q->by + s->offset));
    }
    if (p->wanted) {
        json_object_set_new(j, "pids", numbers_to_json(p->pids, p->n_pids));
        json_object_set_new(j, "jobs", numbers_to_json(p->jobs, p->n_jobs));
        json_object_set_new(j, "uids", numbers_to_json(p->uids, p->n_uids));
        json_object_set_new(j, "units", texts_to_json(p->units, p->n_units));
        json_put_bool(j, "may_all", p->may_all);
        json_put_int(j, "author", p->has_uid ? (int64_t)p->uid : -1);
    }
    return json_dumps(j, JSON_COMPACT | JSON_SORT_KEYS);
}

/* -- Events ---------------------------------------------------------------------------------------------- */

static void watch_forget_event(struct fleet_watch *w)
{
    json_decref(w->event_fleet);
    json_decref(w->event_workers);
    json_decref(w->event_odd);
    w->event_fleet = w->event_workers = w->event_odd = NULL;
}

static json_t *watch_fleet_to_json(const struct fleet_watch *w)
{
    json_t *j = json_object();

    json_put_str(j, "fleet", w->name ? w->name : w->query.fleet);
    json_put_str(j, "router", w->router ? w->router : w->query.router);
    json_put_str(j, "dialect", w->dialect);
    json_put_str(j, "state", w->failure ? "unreachable" : "ok");
    json_put_str(j, "detail", w->failure);
    json_put_str(j, "remedy", w->remedy);
    return j;
}

/* Once for all lookers, and once a tick: histories of what is odd are fed here. */
static void watch_make_event(struct fleet_watch *w, int64_t now_ns, int64_t now_at)
{
    struct fleet_watches *all = w->all;
    _cleanup_(freep) struct odd_history **histories =
        xcalloc(MAX(w->n_workers, 1u), sizeof(struct odd_history *));

    watch_forget_event(w);
    w->event_fleet = watch_fleet_to_json(w);
    w->event_workers = json_array();
    w->event_odd = json_array();
    for (size_t i = 0; i < w->n_workers; i++) {
        watched_worker_see(w->workers[i], now_ns, now_at);
        histories[i] = &w->workers[i]->odd;
    }
    odd_compare(histories, w->n_workers, now_ns);
    for (size_t i = 0; i < w->n_workers; i++) {
        const struct watched_worker *worker = w->workers[i];
        bool down = watched_worker_is_down(worker);
        json_t *j = watched_worker_to_json(worker);
        json_put_str(j, "fleet", w->name);
        json_put_str(j, "busy_session", all->busy ? all->busy(worker->url, all->arg) : NULL);
        json_array_append_new(w->event_workers, j);
        odd_add_json(&worker->odd, worker->url, down ? worker->failure : worker->reason,
                     down ? NULL : worker->remedy, w->event_odd);
    }
}

static bool looker_is_ready(const struct fleet_looker *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (!l->watches[i]->event_fleet)
            return false;
    return true;
}

/* Adds rows until they have that many bytes; returns how many are left out. */
static size_t rows_add(json_t *list, const json_t *rows, size_t *room)
{
    size_t i, n = json_array_size(rows);
    json_t *row;

    json_array_foreach((json_t *)rows, i, row) {
        size_t size = json_dumpb(row, NULL, 0, JSON_COMPACT) + 1;
        if (size > *room) {
            *room = 0; /* none after it either: what is shown is the beginning */
            break;
        }
        *room -= size;
        json_array_append(list, row);
    }
    return n - i;
}

static char *looker_make_text(const struct fleet_looker *l, int64_t now_at)
{
    _cleanup_json_ j = json_object();
    json_t *fleets = json_array(), *workers = json_array(), *odd = json_array();
    size_t left_out = 0, worker_room = FLEET_EVENT_WORKERS_BYTES, odd_room = FLEET_EVENT_ODD_BYTES;

    for (size_t i = 0; i < l->n; i++) {
        const struct fleet_watch *w = l->watches[i];
        json_array_append(fleets, w->event_fleet);
        left_out += w->left_out + rows_add(workers, w->event_workers, &worker_room);
        rows_add(odd, w->event_odd, &odd_room);
    }
    json_put_int(j, "at", now_at);
    json_object_set_new(j, "fleets", fleets);
    json_object_set_new(j, "workers", workers);
    json_object_set_new(j, "odd", odd);
    if (l->left_out > 0 || left_out > 0)
        json_object_set_new(
            j, "left_out",
            json_pack("{s: I, s: I}", "fleets", (json_int_t)l->left_out, "workers", (json_int_t)left_out));
    return json_dumps(j, JSON_COMPACT);
}

/* Lookers of the same fleets stand next to each other in the list. */
static void watches_publish(struct fleet_watches *all, bool only_new)
{
    _cleanup_(freep) char *key = NULL;
    _cleanup_(freep) char *text = NULL;
    struct fleet_looker *l;
    int64_t now_at = wall_ns();

    for (l = LIST_FIRST(&all->lookers); l; l = all->publishing) {
        all->publishing = LIST_NEXT(l, next);
        if (!looker_is_ready(l) || (only_new && !l->is_new))
            continue;
        if (!streq(key, l->key)) {
            replace_str(&key, l->key);
            free(text);
            text = looker_make_text(l, now_at);
        }
        l->is_new = false;
        l->on_event(text, l->arg);
    }
}

static void watches_on_publish(evutil_socket_t fd, short what, void *arg)
{
    struct fleet_watches *all = arg;
    struct fleet_watch *w;
    int64_t now_ns = mono_ns(), now_at = wall_ns();

    evtimer_del(all->publish);
    if (all->prepare)
        all->prepare(all->arg);
    LIST_FOREACH(w, &all->watches, next)
        if (w->discovered_ns > 0)
            watch_make_event(w, now_ns, now_at);
    watches_publish(all, false);
}

/* -- Polling --------------------------------------------------------------------------------------------- */

static void watches_publish_after(struct fleet_watches *all, int64_t delay_ns)
{
    struct timeval tv = timeval_of(delay_ns);
    evtimer_add(all->publish, &tv);
}

static void worker_on_settled(void *arg)
{
    struct fleet_watches *all = arg;

    /* The event waits for it no longer; one that was late is part of the next. */
    if (--all->n_asked == 0 && evtimer_pending(all->publish, NULL))
        watches_publish_after(all, 0);
}

static void watch_ask(struct fleet_watch *w)
{
    for (size_t i = 0; i < w->n_workers; i++)
        if (watched_worker_ask(w->workers[i], w->all->settings->connect_timeout_ns))
            w->all->n_asked++;
}

static struct watched_worker *watch_take_worker(struct fleet_watch *w, const char *url, size_t hint)
{
    for (size_t k = 0; k < w->n_workers; k++) {
        size_t i = (hint + k) % w->n_workers;
        if (w->workers[i] && streq(w->workers[i]->url, url))
            return TAKE_PTR(w->workers[i]);
    }
    return NULL;
}

static void watch_drop_worker(struct fleet_watch *w, struct watched_worker *worker)
{
    if (worker && (worker->metrics_call || worker->health_call))
        w->all->n_asked--;
    watched_worker_free(worker);
}

/* One that left the list and answers was taken out of the fleet; one that does not was lost, which is to be seen. */
static bool watch_keeps(struct watched_worker *worker, int64_t now_ns)
{
    if (!watched_worker_is_down(worker))
        return false;
    if (worker->left_ns == 0)
        worker->left_ns = now_ns;
    return now_ns - worker->left_ns < FLEET_WATCH_LEFT_NS;
}

/* The workers of the list in its order, then those that were lost. */
static void watch_take_fleet(struct fleet_watch *w, const struct fleet *f)
{
    const uint64_t account = names_origin(f->name ? f->name : f->router ? f->router : w->key);
    struct watched_worker **workers =
        xcalloc(MAX(f->n_workers + w->n_workers, 1u), sizeof(struct watched_worker *));
    int64_t now_ns = mono_ns();
    size_t n = 0;

    w->left_out = 0;
    for (size_t i = 0; i < f->n_workers; i++) {
        const struct worker *found = &f->workers[i];
        if (found->ranks_of)
            continue; /* without a server of their own */
        if (n == FLEET_WATCH_WORKERS_MAX) {
            w->left_out++;
            continue;
        }
        struct watched_worker *worker = watch_take_worker(w, found->url, n);
        if (!worker)
            worker = watched_worker_new(w->all->caller, worker_on_settled, w->all);
        worker->account = account;
        watched_worker_take(worker, found, w->all->settings, f->name);
        workers[n++] = worker;
    }
    for (size_t i = 0; i < w->n_workers; i++) {
        struct watched_worker *worker = w->workers[i];
        if (worker && n < FLEET_WATCH_WORKERS_MAX && watch_keeps(worker, now_ns))
            workers[n++] = worker;
        else
            watch_drop_worker(w, worker);
    }
    free(w->workers);
    w->workers = workers;
    w->n_workers = n;
    replace_str(&w->name, f->name);
    replace_str(&w->router, f->router);
    replace_str(&w->dialect, f->dialect);
}

static void watch_on_discovered(struct fleet *fleet, const struct problem *p, void *arg)
{
    struct fleet_watch *w = arg;
    bool is_first = w->discovered_ns == 0;

    w->discovery = NULL;
    w->discovered_ns = mono_ns();
    replace_str(&w->failure, fleet ? NULL : p->what);
    replace_str(&w->remedy, fleet ? NULL : p->remedy);
    if (fleet)
        watch_take_fleet(w, fleet);
    fleet_free(fleet);
    if (!is_first)
        return;
    watch_ask(w);
    watches_publish_after(w->all, w->all->n_asked > 0 ? FLEET_WATCH_PATIENCE_NS : 0);
}

static bool watch_has_returned(const struct fleet_watch *w)
{
    for (size_t i = 0; i < w->n_workers; i++)
        if (w->workers[i]->returned)
            return true;
    return false;
}

static void watch_discover(struct fleet_watch *w)
{
    for (size_t i = 0; i < w->n_workers; i++)
        w->workers[i]->returned = false;
    w->discovery = fleet_discover(w->all->finder, &w->query, watch_on_discovered, w);
}

static void watches_on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct fleet_watches *all = arg;
    struct fleet_watch *w;

    LIST_FOREACH(w, &all->watches, next) {
        int64_t age_ns = w->discovery ? 0 : mono_ns() - w->discovered_ns;
        if (age_ns >= FLEET_WATCH_DISCOVERY_NS ||
            (age_ns >= FLEET_WATCH_REDISCOVERY_NS && watch_has_returned(w)))
            watch_discover(w);
        if (w->discovered_ns > 0)
            watch_ask(w);
    }
    watches_publish_after(all, all->n_asked > 0 ? FLEET_WATCH_PATIENCE_NS : 0);
}

/* -- Lookers --------------------------------------------------------------------------------------------- */

static size_t watches_count(const struct fleet_watches *all)
{
    const struct fleet_watch *w;
    size_t n = 0;

    LIST_FOREACH(w, &all->watches, next)
        n++;
    return n;
}

/* NULL: there are too many others. */
static struct fleet_watch *watch_open(struct fleet_watches *all, const struct fleet_query *q)
{
    _cleanup_(freep) char *key = query_key(q);
    struct timeval interval = timeval_of(FLEET_WATCH_INTERVAL_NS);
    struct fleet_watch *w;

    LIST_FOREACH(w, &all->watches, next)
        if (streq(w->key, key)) {
            w->lookers++;
            return w;
        }
    if (watches_count(all) >= FLEET_WATCHES_MAX)
        return NULL;
    w = xcalloc(1, sizeof(*w));
    *w = (struct fleet_watch){.all = all, .key = TAKE_PTR(key), .lookers = 1};
    fleet_query_copy(q, &w->query);
    if (LIST_EMPTY(&all->watches))
        event_add(all->tick, &interval);
    LIST_INSERT_HEAD(&all->watches, w, next);
    watch_discover(w);
    return w;
}

static void watch_close(struct fleet_watch *w)
{
    struct fleet_watches *all = w->all;

    if (--w->lookers > 0)
        return;
    LIST_REMOVE(w, next);
    discovery_cancel(w->discovery);
    for (size_t i = 0; i < w->n_workers; i++)
        watch_drop_worker(w, w->workers[i]);
    watch_forget_event(w);
    fleet_query_done(&w->query);
    char *const texts[] = {w->key, w->name, w->router, w->dialect, w->failure, w->remedy};
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        free(texts[i]);
    free(w->workers);
    free(w);
    if (LIST_EMPTY(&all->watches)) {
        event_del(all->tick);
        event_del(all->publish);
    }
}

static void watches_on_ready(evutil_socket_t fd, short what, void *arg)
{
    watches_publish(arg, true);
}

/* After one that looks at the same fleets. */
static void looker_insert(struct fleet_looker *l)
{
    struct fleet_looker *other;

    LIST_FOREACH(other, &l->all->lookers, next)
        if (streq(other->key, l->key)) {
            LIST_INSERT_AFTER(other, l, next);
            return;
        }
    LIST_INSERT_HEAD(&l->all->lookers, l, next);
}

struct fleet_looker *fleet_look(struct fleet_watches *all, const struct fleet_query *queries, size_t n,
                                void (*on_event)(const char *data, void *arg), void *arg)
{
    struct fleet_looker *l = xcalloc(1, sizeof(*l));
    char *key = xstrdup("");

    *l = (struct fleet_looker){.all = all, .on_event = on_event, .arg = arg, .is_new = true};
    for (size_t i = 0; i < n; i++) {
        struct fleet_watch *w = l->n < FLEET_WATCHES_MAX ? watch_open(all, &queries[i]) : NULL;
        if (!w) {
            l->left_out++;
            continue;
        }
        l->watches[l->n++] = w;
        char *longer = xasprintf("%s%s\n", key, w->key);
        free(key);
        key = longer;
    }
    l->key = xasprintf("%s%zu", key, l->left_out);
    free(key);
    looker_insert(l);
    /* What another looker sees already comes at once. */
    event_active(all->ready, EV_TIMEOUT, 0);
    return l;
}

void fleet_look_end(struct fleet_looker *l)
{
    if (!l)
        return;
    if (l->all->publishing == l)
        l->all->publishing = LIST_NEXT(l, next);
    LIST_REMOVE(l, next);
    for (size_t i = 0; i < l->n; i++)
        watch_close(l->watches[i]);
    free(l->key);
    free(l);
}

/* -- All of them ----------------------------------------------------------------------------------------- */

int fleet_watches_new(struct event_base *base, struct fleet_finder *finder, struct caller *caller,
                      const struct fleet_settings *settings, struct fleet_watches **ret)
{
    struct fleet_watches *all = xcalloc(1, sizeof(*all));

    *all = (struct fleet_watches){.base = base, .finder = finder, .caller = caller, .settings = settings};
    LIST_INIT(&all->watches);
    LIST_INIT(&all->lookers);
    all->tick = event_new(base, -1, EV_PERSIST, watches_on_tick, all);
    all->publish = evtimer_new(base, watches_on_publish, all);
    all->ready = evtimer_new(base, watches_on_ready, all);
    if (!all->tick || !all->publish || !all->ready) {
        fleet_watches_free(all);
        return -ENOMEM;
    }
    *ret = all;
    return 0;
}

void fleet_watches_set_busy(struct fleet_watches *all, void (*prepare)(void *arg), fleet_busy busy, void *arg)
{
    all->prepare = prepare;
    all->busy = busy;
    all->arg = arg;
}

struct fleet_watches *fleet_watches_free(struct fleet_watches *all)
{
    struct fleet_looker *l;

    if (!all)
        return NULL;
    while ((l = LIST_FIRST(&all->lookers)))
        fleet_look_end(l);
    if (all->tick)
        event_free(all->tick);
    if (all->publish)
        event_free(all->publish);
    if (all->ready)
        event_free(all->ready);
    free(all);
    return NULL;
}
