/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/session/sessions.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/functions/snapshot.h"
#include "daemon/session/internal.h"
#include <errno.h>
#include <inttypes.h>

/* -- Helpers of all phases -- */

struct timer_arg {
    void (*fn)(struct session *s);
    struct session *session;
};

static void on_session_timer(evutil_socket_t fd, short what, void *arg)
{
    struct timer_arg t = *(struct timer_arg *)arg;
    session_timer_off(t.session);
    t.fn(t.session);
}

void session_timer_off(struct session *s)
{
    if (!s->timer)
        return;
    free(event_get_callback_arg(s->timer));
    event_free(s->timer);
    s->timer = NULL;
}

void session_timer(struct session *s, int64_t deadline_ns, void (*fn)(struct session *s))
{
    struct timer_arg *arg = xcalloc(1, sizeof(*arg));
    struct timeval tv = timeval_until(deadline_ns);

    session_timer_off(s);
    *arg = (struct timer_arg){.fn = fn, .session = s};
    s->timer = event_new(s->all->base, -1, 0, on_session_timer, arg);
    event_add(s->timer, &tv);
}

static const struct credentials *credentials_of(const struct target *t)
{
    const struct credentials *c =
        settings_credentials(t->session->all->fleet_settings, t->session->record.fleet, t->worker.url);
    return c && credentials_any(c) ? c : &t->credentials;
}

void target_keep_credentials(struct target *t)
{
    struct credentials kept;

    credentials_copy(credentials_of(t), &kept);
    credentials_done(&t->credentials);
    t->credentials = kept;
}

/* Of a start or a stop its status counts, and what a failure says. What answers a request that is recorded is
 * read on: whoever hangs up may end it. */
static size_t answer_max_of(const struct target *t)
{
    if (target_engine(t)->counts_functions)
        return SNAPSHOT_BYTES_MAX;
    return t->session->request.recording.prompt ? CALL_ANSWER_MAX_DEFAULT : ANSWER_EXCERPT_MAX;
}

struct call *target_call(struct target *t, const char *path, json_t *body, int64_t timeout_ns,
                         void (*done)(const struct call_result *result, void *arg))
{
    struct sessions *all = t->session->all;
    _cleanup_(freep) char *url = xasprintf("%s%s", t->worker.url, path);
    _cleanup_(freep) char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    const struct engine_ops *engine = target_engine(t);
    struct call_request request = {
        .method = engine_method(engine),
        .url = url,
        .body = text,
        .credentials = credentials_of(t),
        .admin = true,
        .connect_timeout_ns = all->settings->connect_timeout_ns,
        .deadline_ns = mono_ns() + timeout_ns,
        .answer_max = answer_max_of(t),
        .account = (uint64_t)t->session->record.session_id,
    };
    return call_start(all->caller, &request, done, t);
}

static const char *path_of(const struct target *t, const char *path, const char *older)
{
    return t->older_paths && older ? older : path;
}

const char *target_start_path(const struct target *t)
{
    const struct engine_ops *ops = target_engine(t);

    if (t->session->request.recording.prompt && ops->request_path)
        return ops->request_path;
    return path_of(t, ops->start_path, ops->older_start_path);
}

const char *target_stop_path(const struct target *t)
{
    return path_of(t, target_engine(t)->stop_path, target_engine(t)->older_stop_path);
}

bool target_goes_older(struct target *t, const struct call_result *r)
{
    if (r->err < 0 || r->status != 404 || t->older_paths || !target_engine(t)->older_start_path)
        return false;
    t->older_paths = true;
    return true;
}

bool target_ends_by_itself(const struct target *t)
{
    return t->session->request.recording.steps > 0 || !target_engine(t)->stop_path;
}

struct recording target_recording(const struct target *t)
{
    struct recording recording = start_request_recording(&t->session->request, t->worker.role);
    if (t->steps_before_load >= 0)
        recording.start_step = MAX(recording.start_step, (int64_t)1) + (int64_t)t->steps_before_load;
    recording.profile_id = t->record.profile_id;
    recording.output_dir = t->record.output_dir;
    return recording;
}

struct session *sessions_find(struct sessions *all, int64_t session_id)
{
    struct session *s;
    TAILQ_FOREACH(s, &all->list, next)
        if (s->record.session_id == session_id)
            return s;
    return NULL;
}

unsigned sessions_count(const struct sessions *all)
{
    const struct session *s;
    unsigned n = 0;
    TAILQ_FOREACH(s, &all->list, next)
        n += !state_is_final(s->record.state);
    return n;
}

/* -- The object -- */

/* With its targets, as long as it is unsaved, and told again: nobody heard of an edge whose commit failed.
 * mark_unsaved() takes `resaved` back where one of them fails. */
static void save_again(struct session *s)
{
    s->resaved = true;
    session_save(s);
    if (s->untold)
        session_tell(s);
}

static void on_saved_again(int err, void *arg)
{
    struct sessions *all = arg;
    struct session *s, *next;

    for (s = TAILQ_FIRST(&all->list); s; s = next) {
        next = TAILQ_NEXT(s, next);
        if (err < 0 || !s->resaved)
            continue;
        log_struct(LOG_NOTICE, LOG_FIELDS(.session_id = s->record.session_id),
                   "session s%" PRId64 ": the catalog has its state again", s->record.session_id);
        s->unsaved = s->untold = s->resaved = false;
        if (s->finished_unsaved)
            session_free(s);
    }
}

static void on_resave(evutil_socket_t fd, short what, void *arg)
{
    struct sessions *all = arg;
    struct session *s;

    TAILQ_FOREACH(s, &all->list, next)
        if (s->unsaved)
            save_again(s);
    catalog_then(all->catalog, false, on_saved_again, all);
}

static void log_owed(const struct sessions *all)
{
    const struct session *s;
    TAILQ_FOREACH(s, &all->list, next)
        for (size_t i = 0; i < s->n_targets; i++) {
            const struct target *t = &s->targets[i];
            if (t->record.stop_pending)
                log_struct(LOG_WARNING,
                           LOG_FIELDS(.session_id = s->record.session_id, .worker = t->worker.url,
                                      .message_id = MESSAGE_STOP_OWED),
                           "session s%" PRId64
                           ": %s has not answered its stop; the next profd sends it again",
                           s->record.session_id, t->worker.url);
        }
}

static void finish_shutdown(struct sessions *all)
{
    void (*done)(void *arg) = all->shutdown_done;
    all->shutdown_done = NULL;
    if (!done)
        return;
    log_owed(all);
    done(all->shutdown_arg);
}

static bool owes_stops(const struct sessions *all)
{
    const struct session *s;
    TAILQ_FOREACH(s, &all->list, next)
        for (size_t i = 0; i < s->n_targets; i++)
            if (s->targets[i].record.stop_pending)
                return true;
    return false;
}

static void on_proceed(evutil_socket_t fd, short what, void *arg)
{
    struct sessions *all = arg;
    struct session *s, *next;

    if (all->shutdown_done && !owes_stops(all)) {
        finish_shutdown(all);
        return;
    }
    for (s = TAILQ_FIRST(&all->list); s && !all->closing; s = next) {
        next = TAILQ_NEXT(s, next);
        if (s->record.state == STATE_REQUESTED && s->created)
            session_proceed(s);
    }
}

int sessions_new(struct event_base *base, struct offload *offload, struct caller *caller,
                 struct fleet_finder *finder, struct catalog *catalog,
                 const struct fleet_settings *fleet_settings, const struct session_settings *settings,
                 struct sessions **ret)
{
    struct sessions *all = xcalloc(1, sizeof(*all));

    *all = (struct sessions){.base = base,
                             .offload = offload,
                             .caller = caller,
                             .finder = finder,
                             .catalog = catalog,
                             .fleet_settings = fleet_settings,
                             .settings = settings,
                             .boot_id = boot_id()};
    TAILQ_INIT(&all->list);
    all->resave = event_new(base, -1, 0, on_resave, all);
    all->proceed = event_new(base, -1, 0, on_proceed, all);
    *ret = all;
    return 0;
}

struct sessions *sessions_free(struct sessions *all)
{
    if (!all)
        return NULL;
    while (TAILQ_FIRST(&all->list))
        session_free(TAILQ_FIRST(&all->list));
    event_free(all->resave);
    event_free(all->proceed);
    if (all->shutdown_timer)
        event_free(all->shutdown_timer);
    free(all->boot_id);
    free(all);
    return NULL;
}

void sessions_set_collector(struct sessions *all, const struct collector_ops *ops, void *collector)
{
    all->collector_ops = ops;
    all->collector = collector;
}

void sessions_set_loader(struct sessions *all, const struct loader_ops *ops, void *loader)
{
    all->loader_ops = ops;
    all->loader = loader;
}

/* -- Operations -- */

static void cancel_requested(struct session *s)
{
    probe_cancel(s->probe);
    s->probe = NULL;
    for (size_t i = 0; i < s->n_targets; i++)
        target_edge(&s->targets[i], STATE_CANCELLED);
    session_check_finished(s);
}

void session_stop(struct session *s)
{
    session_stop_load(s);
    switch (s->record.state) {
    case STATE_REQUESTED:
        cancel_requested(s);
        break;
    case STATE_STARTING:
        s->stop_wanted = true;
        if (s->starts_left)
            session_stop_all(s);
        else if (s->timer)
            session_give_up(s); /* it waited for its directories, or for its planned time */
        break;
    case STATE_RECORDING:
        session_stop_all(s);
        break;
    default:
        break; /* stops are on their way, or over */
    }
}

int sessions_stop(struct sessions *all, int64_t session_id, const char *actor)
{
    struct session *s = sessions_find(all, session_id);

    if (!s || !s->created || state_is_final(s->record.state))
        return -ENOENT;
    catalog_add_event(all->catalog, "session-stop", actor, session_id, RECORD_NONE, RECORD_NONE,
                      "stop asked for while %s", state_name(s->record.state));
    if (s->record.state == STATE_REQUESTED)
        session_explain(s, NULL, "stopped before it began, by %s", actor);
    session_stop(s);
    return 0;
}

static void on_shutdown_over(evutil_socket_t fd, short what, void *arg)
{
    finish_shutdown(arg);
}

void sessions_shutdown(struct sessions *all, int64_t deadline_ns, void (*done)(void *arg), void *arg)
{
    struct session *s, *next;
    struct timeval tv = timeval_until(deadline_ns), at_once = {0};

    all->closing = true;
    all->shutdown_done = done;
    all->shutdown_arg = arg;
    for (s = TAILQ_FIRST(&all->list); s; s = next) {
        next = TAILQ_NEXT(s, next);
        if (s->record.state != STATE_REQUESTED)
            session_stop(s);
    }
    all->shutdown_timer = event_new(all->base, -1, 0, on_shutdown_over, all);
    event_add(all->shutdown_timer, &tv);
    event_add(all->proceed, &at_once);
}

void sessions_shutdown_now(struct sessions *all)
{
    finish_shutdown(all);
}
