/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings of servers of NeMo Gym: a snapshot of their counts at the start, another at the end, and the difference
 * as rows of the catalog.
 *
 * The first snapshot is only in memory. If an earlier profd process took it, the counts are those since the
 * server's launch, and a remark reports that.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/session/internal.h"
#include "extras/nemo_gym/engine.h"
#include "extras/nemo_gym/snapshot.h"
#include <errno.h>

/* Functions stored for each target: the most expensive ones. */
#define FUNCTIONS_KEPT_MAX 2000
/* Memory of first snapshots until the second: of a server, of a session, of all. A server of NeMo Gym takes about one
 * MiB. */
#define COUNTED_TARGET_MAX  ((size_t)8 << 20)
#define COUNTED_SESSION_MAX ((size_t)64 << 20)
#define COUNTED_MAX         ((size_t)128 << 20)
/* Until a snapshot is read. */
#define SNAPSHOT_MAX_NS (30 * NS_PER_S)

/* A snapshot that is being read. */
struct counting {
    struct sessions *all;
    int64_t session_id;
    size_t target;
    struct event *timer; /* NULL: the deadline has passed, and done() was called */
    bool (*take)(struct target *t, struct snapshot *s); /* false: the target failed */
    void (*done)(struct target *t, bool ok);
};

/* NULL: its session is gone. */
static struct target *counting_target(const struct counting *k)
{
    struct session *s = sessions_find(k->all, k->session_id);
    return s ? &s->targets[k->target] : NULL;
}

static void counting_on_snapshot(struct snapshot *snapshot, void *arg)
{
    struct counting *k = arg;
    struct target *t = k->timer ? counting_target(k) : NULL;

    if (k->timer)
        event_free(k->timer);
    if (t && !snapshot->list)
        target_fail(t, snapshot->problem->what, snapshot->problem->remedy);
    if (t)
        k->done(t, snapshot->list && k->take(t, snapshot));
    free(k);
}

/* A mount whose server is gone blocks its readers without end. */
static void counting_on_deadline(evutil_socket_t fd, short what, void *arg)
{
    struct counting *k = arg;
    struct target *t = counting_target(k);

    event_free(TAKE_PTR(k->timer));
    if (!t)
        return;
    target_fail(
        t, "its profiles could not be read in time",
        "Check whether the file system that contains them responds: a plain ls of it would hang as well.");
    k->done(t, false);
}

static void counting_read(struct target *t, const struct call_result *result, int64_t asked_at,
                          bool (*take)(struct target *t, struct snapshot *s),
                          void (*done)(struct target *t, bool ok))
{
    struct session *s = t->session;
    struct counting *k = xcalloc(1, sizeof(*k));
    struct timeval longest = timeval_of(SNAPSHOT_MAX_NS);

    *k = (struct counting){.all = s->all,
                           .session_id = s->record.session_id,
                           .target = (size_t)(t - s->targets),
                           .take = take,
                           .done = done};
    k->timer = event_new(s->all->jobs.base, -1, 0, counting_on_deadline, k);
    event_add(k->timer, &longest);
    snapshot_read(s->all->offload, &t->worker, result, asked_at, counting_on_snapshot, k);
}

static void counting_forget(struct target *t)
{
    t->recorder_state = function_list_free(t->recorder_state);
}

/* Memory of the first snapshots of one session, or (NULL) of all. */
static size_t counting_bytes(const struct sessions *all, const struct session *only)
{
    const struct session *s;
    size_t bytes = 0;

    SESSIONS_FOREACH(s, all)
        for (size_t i = 0; i < s->n_targets && (!only || s == only); i++)
            if (s->targets[i].recorder_state)
                bytes += function_list_bytes(s->targets[i].recorder_state);
    return bytes;
}

static bool counting_take_first(struct target *t, struct snapshot *snapshot)
{
    struct session *s = t->session;
    size_t bytes = function_list_bytes(snapshot->list);

    if (bytes > COUNTED_TARGET_MAX || counting_bytes(s->all, s) + bytes > COUNTED_SESSION_MAX ||
        counting_bytes(s->all, NULL) + bytes > COUNTED_MAX) {
        target_fail(t,
                    "its list of functions is too long: profd keeps 8 MiB of a server, 64 MiB of a session, "
                    "128 MiB of all sessions",
                    "Record fewer servers at a time: profctl start --worker URL.");
        return false;
    }
    t->recorder_state = TAKE_PTR(snapshot->list);
    return true;
}

static void counting_keep(struct target *t, const struct function_list *l)
{
    struct catalog *catalog = t->session->all->jobs.catalog;
    int r = 0;

    for (size_t i = 0; i < MIN(l->n, (size_t)FUNCTIONS_KEPT_MAX) && r == 0; i++)
        r = catalog_add_function(catalog, t->session->record.session_id, t->worker.url, &l->items[i]);
    if (r < 0) {
        _cleanup_(problem_done) struct problem p = {0};
        catalog_problem(catalog, r, &p, "the catalog cannot take its functions");
        target_fail(t, p.what, p.remedy);
    } else if (l->n > FUNCTIONS_KEPT_MAX) {
        session_remark(t->session, t, NULL, "%zu functions ran; the %d most expensive ones are stored", l->n,
                       FUNCTIONS_KEPT_MAX);
    } else if (l->n == 0) {
        session_remark(t->session, t, "Record while it works.",
                       "ran no Python function during the recording");
    }
}

static bool counting_take_second(struct target *t, struct snapshot *snapshot)
{
    const struct function_list nothing = {0}, *first = t->recorder_state;
    bool restarted;
    _cleanup_(function_list_freep) struct function_list *l =
        function_list_difference(first ? first : &nothing, snapshot->list, &restarted);

    if (!first)
        session_remark(
            t->session, t, NULL,
            "profd was restarted during the recording: its functions are counted since its launch");
    else if (restarted)
        session_remark(t->session, t,
                       "With num_workers above 1, each snapshot may be of another process: use 1.",
                       "its counts began anew, or another of its processes answered: its functions are "
                       "counted since that one's launch");
    if (l->n_unreadable > 0)
        session_remark(t->session, t, NULL, "%zu rows of its statistics cannot be read", l->n_unreadable);
    if (l->clock == FUNCTION_CLOCK_WALL)
        session_remark(t->session, t, NULL, "its profiler counts wall-clock time: times include waiting");
    counting_keep(t, l);
    counting_forget(t);
    session_save(t->session);
    return true;
}

static void counting_start(struct target *t, const struct call_result *result,
                           void (*done)(struct target *t, bool ok))
{
    counting_read(t, result, call_sent_at(result), counting_take_first, done);
}

static void counting_stop(struct target *t, const struct call_result *result,
                          void (*done)(struct target *t, bool ok))
{
    int64_t asked_at = result ? call_sent_at(result) : t->record.start_answered_at;
    counting_read(t, result, asked_at, counting_take_second, done);
}

static const struct answer_recorder nemo_gym_recorder = {
    .engine = ENGINE_NEMO_GYM,
    .answer_max = SNAPSHOT_BYTES_MAX,
    .start = counting_start,
    .stop = counting_stop,
    .forget = counting_forget,
};
const struct answer_recorder *const extra_recorders[] = {&nemo_gym_recorder, NULL};
