/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines whose profiler always counts (NeMo Gym): a snapshot at the start of a recording, another
 * at its end, and the difference as rows of the catalog.
 *
 * The first snapshot is only in memory. If an earlier profd process took it, the counts are those since the
 * server's launch, and a remark reports that.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/session/internal.h"
#include "extras/nemo_gym/snapshot.h"
#include <errno.h>

/* Of one target: those that cost the most. */
#define FUNCTIONS_KEPT_MAX 2000
/* Memory that first looks take until the second: of a server, of a session, of all. An honest server of NeMo
 * Gym takes about one MiB. */
#define COUNTED_TARGET_MAX  ((size_t)8 << 20)
#define COUNTED_SESSION_MAX ((size_t)64 << 20)
#define COUNTED_MAX         ((size_t)128 << 20)
/* Until a profile is read. */
#define LOOK_MAX_NS (30 * NS_PER_S)

struct look {
    struct sessions *all;
    int64_t session_id;
    size_t target;
    struct event *timer; /* NULL: it was given up, and done() has been called */
    bool (*take)(struct target *t, struct snapshot *s); /* false: the target failed */
    void (*done)(struct target *t, bool ok);
};

/* NULL where its session is gone. */
static struct target *counting_target(const struct look *look)
{
    struct session *s = sessions_find(look->all, look->session_id);
    return s ? &s->targets[look->target] : NULL;
}

static void counting_end_look(struct look *look)
{
    event_free(look->timer);
    look->timer = NULL;
}

static void counting_on_snapshot(struct snapshot *snapshot, void *arg)
{
    struct look *look = arg;
    struct target *t = counting_target(look);
    bool ok = snapshot->list != NULL;

    if (look->timer) {
        counting_end_look(look);
        if (t && ok)
            ok = look->take(t, snapshot);
        else if (t)
            target_fail(t, snapshot->problem->what, snapshot->problem->remedy);
        if (t)
            look->done(t, ok);
    }
    free(look);
}

/* A mount whose server is gone blocks whoever reads there, without end. */
static void counting_on_late(evutil_socket_t fd, short what, void *arg)
{
    struct look *look = arg;
    struct target *t = counting_target(look);

    counting_end_look(look);
    if (!t)
        return;
    target_fail(t, "its profiles could not be read in time",
                "Does the file system that they are on answer? A plain ls of it would hang as well.");
    look->done(t, false);
}

static void counting_look(struct target *t, const struct call_result *result, int64_t asked_at,
                          bool (*take)(struct target *t, struct snapshot *s),
                          void (*done)(struct target *t, bool ok))
{
    struct session *s = t->session;
    struct look *look = xcalloc(1, sizeof(*look));
    struct timeval longest = timeval_of(LOOK_MAX_NS);

    *look = (struct look){.all = s->all,
                          .session_id = s->record.session_id,
                          .target = (size_t)(t - s->targets),
                          .take = take,
                          .done = done};
    look->timer = event_new(s->all->jobs.base, -1, 0, counting_on_late, look);
    event_add(look->timer, &longest);
    snapshot_read(s->all->offload, &t->worker, result, asked_at, counting_on_snapshot, look);
}

static void counting_forget(struct target *t)
{
    if (!t->counted)
        return;
    size_t bytes = function_list_bytes(t->counted);
    t->session->counted_bytes -= bytes;
    t->session->all->counted_bytes -= bytes;
    t->counted = function_list_free(t->counted);
}

static bool counting_take_first(struct target *t, struct snapshot *snapshot)
{
    struct session *s = t->session;
    size_t bytes = function_list_bytes(snapshot->list);

    if (bytes > COUNTED_TARGET_MAX || s->counted_bytes + bytes > COUNTED_SESSION_MAX ||
        s->all->counted_bytes + bytes > COUNTED_MAX) {
        target_fail(t,
                    "its list of functions is too long: profd keeps 8 MiB of a server, 64 MiB of a session, "
                    "128 MiB of all sessions",
                    "Record fewer servers at a time: profctl start --worker URL.");
        return false;
    }
    s->counted_bytes += bytes;
    s->all->counted_bytes += bytes;
    t->counted = TAKE_PTR(snapshot->list);
    return true;
}

static int counting_keep_one(struct target *t, const struct function *f)
{
    _cleanup_(function_record_done) struct function_record record;

    function_record_init(&record);
    record.session_id = t->session->record.session_id;
    record.worker_url = xstrdup(t->worker.url);
    record.moment = xstrdup("difference");
    record.name = xstrdup(f->name);
    record.file = f->file[0] ? xstrdup(f->file) : NULL;
    record.line = f->line > 0 ? f->line : RECORD_NONE;
    record.calls = f->calls;
    record.tsub_ns = f->tsub_ns;
    record.ttot_ns = f->ttot_ns;
    record.tavg_ns = function_average_ns(f);
    return catalog_add_function(t->session->all->jobs.catalog, &record);
}

static void counting_keep(struct target *t, const struct function_list *l)
{
    int r = 0;

    for (size_t i = 0; i < MIN(l->n, (size_t)FUNCTIONS_KEPT_MAX) && r == 0; i++)
        r = counting_keep_one(t, &l->items[i]);
    if (r < 0) {
        _cleanup_(problem_done) struct problem p = {0};
        catalog_problem(t->session->all->jobs.catalog, r, &p, "the catalog cannot take its functions");
        target_fail(t, p.what, p.remedy);
    } else if (l->n > FUNCTIONS_KEPT_MAX) {
        session_remark(t->session, t, NULL, "%zu functions ran; the %d that cost the most are kept", l->n,
                       FUNCTIONS_KEPT_MAX);
    } else if (l->n == 0) {
        session_remark(t->session, t, "Record while it works.", "ran no function of Python meanwhile");
    }
}

static bool counting_take_second(struct target *t, struct snapshot *snapshot)
{
    const struct function_list nothing = {0};
    bool restarted;
    _cleanup_(function_list_freep) struct function_list *l =
        function_list_difference(t->counted ? t->counted : &nothing, snapshot->list, &restarted);

    if (!t->counted)
        session_remark(t->session, t, NULL,
                       "profd was restarted meanwhile: its functions are counted since its launch");
    else if (restarted)
        session_remark(t->session, t,
                       "With num_workers above 1, each snapshot may be of another process: use 1.",
                       "its counts began anew, or another of its processes answered: its functions are "
                       "counted since that one's launch");
    if (l->n_unreadable > 0)
        session_remark(t->session, t, NULL, "%zu rows of its statistics cannot be read", l->n_unreadable);
    if (l->clock == FUNCTION_CLOCK_WALL)
        session_remark(t->session, t, NULL, "its clock is that of the wall: times include waiting");
    counting_keep(t, l);
    counting_forget(t);
    session_save(t->session);
    return true;
}

static void counting_start(struct target *t, const struct call_result *result,
                           void (*done)(struct target *t, bool ok))
{
    counting_look(t, result, call_sent_at(result), counting_take_first, done);
}

static void counting_stop(struct target *t, const struct call_result *result,
                          void (*done)(struct target *t, bool ok))
{
    int64_t asked_at = result ? call_sent_at(result) : t->record.start_answered_at;
    counting_look(t, result, asked_at, counting_take_second, done);
}

static const struct function_counter counter = {
    .answer_max = SNAPSHOT_BYTES_MAX,
    .start = counting_start,
    .stop = counting_stop,
    .forget = counting_forget,
};
const struct function_counter *const extra_function_counter = &counter;
