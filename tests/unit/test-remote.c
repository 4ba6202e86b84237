/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions over several hosts: the state machine driven by a fake of what asks other hosts (remote_ops) and of what grants
 * leases to them (lease_ops), with one real worker that a server in this program plays.
 */
#include "tests/unit/cmocka-all.h"

#include "base/clock.h"
#include "daemon/kineto/settings.h"
#include "daemon/session/internal.h"
#include "tests/unit/catalog-fixture.h"
#include "tests/unit/patience.h"
#include <event2/buffer.h>
#include <event2/http.h>
#include <netinet/in.h>

#define HOST_1   "11111111-1111-4111-8111-111111111111"
#define HOST_2   "22222222-2222-4222-8222-222222222222"
#define SESSION  "33333333-3333-4333-8333-333333333333"
#define LOGIN    "44444444-4444-4444-8444-444444444444"
#define REMOTE_1 "http://127.0.0.2:1"
#define REMOTE_2 "http://127.0.0.3:1"

enum what { LEASE, PREPARE, AGREE, STOP, COLLECT, GIVE_BACK, FORGET, RESUME, ARMED, ENDED, _WHAT_MAX };

struct test {
    struct catalog_fixture *fixture;
    struct evhttp *http; /* a vLLM */
    char *url;
    unsigned n_starts, n_stops;
    int64_t started_ns; /* monotonic: its first start */
    struct caller *caller;
    struct fleet_finder *finder;
    struct fleet_settings fleet_settings;
    struct session_settings settings;
    struct kineto_settings kineto_settings;
    struct sessions *sessions;
    unsigned n[_WHAT_MAX];   /* calls of the fakes */
    struct target *stopping; /* the last one whose stop was asked of its host */
    const char *holder;      /* who has leased every worker; NULL: nobody */
    int64_t deadline_boot_ns;
    int64_t created_id; /* of the last leased session */
    char *refusal;      /* why there is none */
    unsigned n_created;
};

/* -- The fakes ------------------------------------------------------------------------------------------ */

#define COUNT_SESSION(name, what)                                                                            \
    static void name(struct session *s _unused_, void *arg)                                                  \
    {                                                                                                        \
        ((struct test *)arg)->n[what]++;                                                                     \
    }
#define COUNT_TARGET(name, what)                                                                             \
    static void name(struct target *t _unused_, void *arg)                                                   \
    {                                                                                                        \
        ((struct test *)arg)->n[what]++;                                                                     \
    }
COUNT_SESSION(fake_lease, LEASE)
COUNT_SESSION(fake_prepare, PREPARE)
COUNT_SESSION(fake_agree, AGREE)
COUNT_SESSION(fake_give_back, GIVE_BACK)
COUNT_SESSION(fake_resume, RESUME)
COUNT_SESSION(fake_armed, ARMED)
COUNT_SESSION(fake_ended, ENDED)
COUNT_TARGET(fake_collect, COLLECT)
COUNT_TARGET(fake_forget, FORGET)

static void fake_stop(struct target *t, void *arg)
{
    struct test *test = arg;

    test->n[STOP]++;
    test->stopping = t;
}

static int64_t fake_bytes(const struct target *t _unused_, void *arg _unused_)
{
    return 7;
}

static const char *fake_holder(const struct worker *w _unused_, const struct session *asking _unused_,
                               int64_t *ret_until_at, void *arg)
{
    *ret_until_at = RECORD_NONE;
    return ((struct test *)arg)->holder;
}

static const char *fake_silence(const struct target *t _unused_, int64_t *ret_since _unused_,
                                int64_t *ret_until _unused_, void *arg _unused_)
{
    return NULL;
}

static const struct remote_ops remote = {.lease = fake_lease,
                                         .prepare = fake_prepare,
                                         .agree = fake_agree,
                                         .stop = fake_stop,
                                         .collect = fake_collect,
                                         .give_back = fake_give_back,
                                         .forget = fake_forget,
                                         .bytes_seen = fake_bytes,
                                         .silence = fake_silence,
                                         .resume = fake_resume};
static const struct lease_ops leases = {.holder = fake_holder, .armed = fake_armed, .ended = fake_ended};

static void on_prepared(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    session_prepared(arg);
}

static void on_collected(evutil_socket_t fd _unused_, short what _unused_, void *arg)
{
    target_collected(arg, STATE_COMPLETE, NULL, NULL);
}

static void collector_prepare(struct session *s, void *arg)
{
    struct test *test = arg;
    event_base_once(test->fixture->base, -1, EV_TIMEOUT, on_prepared, s, NULL);
}

static void collector_collect(struct target *t, void *arg)
{
    struct test *test = arg;
    assert_false(target_is_remote(t));
    event_base_once(test->fixture->base, -1, EV_TIMEOUT, on_collected, t, NULL);
}

static void collector_target(struct target *t, void *arg _unused_)
{
    assert_false(target_is_remote(t));
}

static void collector_ended(const struct session *s _unused_, void *arg _unused_)
{
}

static int64_t collector_bytes(const struct target *t, void *arg _unused_)
{
    assert_false(target_is_remote(t));
    return 0;
}

static const struct collector_ops collector = {.prepare = collector_prepare,
                                               .recording = collector_target,
                                               .collect = collector_collect,
                                               .forget = collector_target,
                                               .ended = collector_ended,
                                               .bytes_seen = collector_bytes};

static void on_request(struct evhttp_request *q, void *arg)
{
    struct test *test = arg;
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(q));
    static const struct {
        const char *path, *body;
    } answers[] = {
        {"/version", "{\"version\":\"0.19.1\"}"},
        {"/v1/models", "{\"data\":[{\"id\":\"m\",\"owned_by\":\"vllm\"}]}"},
        {"/openapi.json", "{\"paths\":{\"/start_profile\":{}}}"},
        {"/server_info", "{\"vllm_config\":{}}"},
        {"/start_profile", ""},
        {"/stop_profile", ""},
    };
    struct evbuffer *body = evbuffer_new();
    bool is_post = evhttp_request_get_command(q) == EVHTTP_REQ_POST;
    int status = 404;

    for (size_t i = 0; i < ARRAY_SIZE(answers); i++)
        if (streq(path, answers[i].path)) {
            status = evhttp_request_get_command(q) == EVHTTP_REQ_HEAD ? 405 : 200;
            evbuffer_add_printf(body, "%s", answers[i].body);
        }
    if (is_post && streq(path, "/start_profile") && test->n_starts++ == 0)
        test->started_ns = mono_ns();
    test->n_stops += is_post && streq(path, "/stop_profile");
    evhttp_send_reply(q, status, NULL, body);
    evbuffer_free(body);
}

/* -- Fixture -------------------------------------------------------------------------------------------- */

static void sessions_open(struct test *t)
{
    assert_int_equal(sessions_new(t->fixture->base, t->fixture->offload, t->caller, t->finder,
                                  t->fixture->catalog, &t->fleet_settings, &t->settings, &t->sessions),
                     0);
    sessions_set_collector(t->sessions, &collector, t);
    sessions_set_kineto(t->sessions, NULL, &t->kineto_settings);
    sessions_set_remote(t->sessions, &remote, t);
    sessions_set_lease_ops(t->sessions, &leases, t);
}

static int setup(void **state)
{
    struct test *t = xcalloc(1, sizeof(*t));
    struct sockaddr_in address;
    socklen_t size = sizeof(address);

    fixture_begin_open((void **)&t->fixture);
    t->http = evhttp_new(t->fixture->base);
    evhttp_set_allowed_methods(t->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD);
    evhttp_set_gencb(t->http, on_request, t);
    struct evhttp_bound_socket *bound = evhttp_bind_socket_with_handle(t->http, "127.0.0.1", 0);
    assert_int_equal(getsockname(evhttp_bound_socket_get_fd(bound), (struct sockaddr *)&address, &size), 0);
    t->url = xasprintf("http://127.0.0.1:%d", ntohs(address.sin_port));
    t->fleet_settings = (struct fleet_settings){
        .connect_timeout_ns = NS_PER_S, .identify_timeout_ns = 30 * NS_PER_S, .workers_max = 10};
    t->settings = (struct session_settings){.connect_timeout_ns = NS_PER_S,
                                            .start_timeout_ns = 600 * NS_PER_S,
                                            .clean_timeout_ns = 60 * NS_PER_S,
                                            .stop_timeout_ns = 60 * NS_PER_S,
                                            .session_limit_ns = 600 * NS_PER_S,
                                            .sessions_max = 10};
    t->deadline_boot_ns = boot_ns() + 600 * NS_PER_S;
    assert_int_equal(caller_new(t->fixture->base, &t->caller), 0);
    assert_int_equal(
        fleet_finder_new(t->fixture->base, t->caller, t->fixture->offload, &t->fleet_settings, &t->finder),
        0);
    sessions_open(t);
    *state = t;
    return 0;
}

/* What is active runs, a commit among it. */
static void settle(struct test *t)
{
    for (int i = 0; i < 20; i++)
        run_turn(t->fixture);
}

static int teardown(void **state)
{
    struct test *t = *state;
    void *fixture = t->fixture;

    settle(t); /* a commit under way ends sessions */
    sessions_free(t->sessions);
    fleet_finder_free(t->finder);
    caller_free(t->caller);
    evhttp_free(t->http);
    fixture_end(&fixture);
    free(t->url);
    free(t->refusal);
    free(t);
    return 0;
}

static void turn(struct test *t)
{
    event_base_loop(t->fixture->base, EVLOOP_ONCE);
}

/* Runs the loop until the condition holds. */
#define UNTIL(t, condition)                                                                                  \
    do {                                                                                                     \
        int64_t give_up_ns = mono_ns() + patience_ns(10 * NS_PER_S);                                         \
        while (!(condition) && mono_ns() < give_up_ns)                                                       \
            turn(t);                                                                                         \
        if (!(condition))                                                                                    \
            fail_msg("waited for %s", #condition);                                                           \
    } while (0)

static void restart(struct test *t)
{
    settle(t);
    sessions_free(t->sessions);
    memset(t->n, 0, sizeof(t->n));
    sessions_open(t);
    assert_int_equal(sessions_recover(t->sessions), 0);
    settle(t);
}

/* -- Sessions of this profd, made as job_create() does after its discovery -------------------------------- */

static void add_worker_of(struct fleet *f, const char *url, const char *host, const char *host_uuid)
{
    struct worker *w = fleet_add_worker(f);

    w->url = xstrdup(url);
    w->engine = ENGINE_VLLM;
    w->profilable = true;
    w->host = xstrdup(host);
    w->host_uuid = xstrdup(host_uuid);
}

static void on_row_committed(int err, void *arg)
{
    struct live_job *job = arg;

    assert_int_equal(err, 0);
    job->created = true;
    session_job_ops.begin(job);
}

/* With a worker of this host where is_local, and one of each of the two others. A problem: why it is refused. */
static struct session *try_session(struct test *t, const char *text, bool is_local, struct problem *p)
{
    struct job_creation c = {.jobs = sessions_jobs(t->sessions),
                             .actor = xstrdup("uid 1000 (anna)"),
                             .fleet = xcalloc(1, sizeof(struct fleet))};
    struct session *s = NULL;
    char error[200];

    c.options = json_parse(text, strlen(text), error);
    assert_non_null(c.options);
    assert_int_equal(session_request_parse(c.options, &c.request, p), 0);
    c.fleet->dialect = xstrdup("static");
    if (is_local)
        add_worker_of(c.fleet, t->url, NULL, NULL);
    add_worker_of(c.fleet, REMOTE_1, "gpu1", HOST_1);
    add_worker_of(c.fleet, REMOTE_2, "gpu2", HOST_2);
    if (session_job_ops.choose(&c, p) == 0 && session_job_ops.check(&c, p) == 0) {
        c.id = session_job_ops.add(&c);
        assert_true(c.id > 0);
        s = sessions_find(t->sessions, c.id);
        catalog_then(t->fixture->catalog, false, on_row_committed, &s->job);
        settle(t);
    }
    fleet_free(c.fleet);
    job_plan_done(&c.plan);
    job_request_done(&c.request);
    json_decref(c.options);
    free(c.actor);
    return s;
}

static struct session *create(struct test *t, const char *options, bool is_local)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct session *s = try_session(t, options, is_local, &p);

    if (!s)
        fail_msg("%s", p.what);
    return s;
}

#define PLAIN       "{\"duration_ns\": 300000000000, \"workers\": [\"http://x:1\"], \"allow_uncollected\": true"
#define OPTIONS(of) PLAIN of "}"

/* Its state in the catalog: the row is there when its session is not. */
static enum state state_of(const struct test *t, int64_t id)
{
    struct session_record r;

    assert_int_equal(catalog_get_session(t->fixture->catalog, id, &r), 0);
    enum state state = r.state;
    session_record_done(&r);
    return state;
}

static char *reason_of(const struct test *t, int64_t id)
{
    struct session_record r;

    assert_int_equal(catalog_get_session(t->fixture->catalog, id, &r), 0);
    char *reason = xstrdup(r.reason ? r.reason : "");
    session_record_done(&r);
    return reason;
}

static void assert_reason(const struct test *t, int64_t id, const char *part)
{
    _cleanup_(freep) char *reason = reason_of(t, id);
    if (!strstr(reason, part))
        fail_msg("\"%s\" does not contain \"%s\"", reason, part);
}

static int take_target(const struct target_record *r, void *arg)
{
    struct target_record **next = arg;
    target_record_copy((*next)++, r);
    return 0;
}

/* The record of the target with this index. The caller frees it. */
static struct target_record target_of(const struct test *t, int64_t id, size_t i)
{
    struct target_record all[3], *next = all;

    assert_int_equal(catalog_each_target(t->fixture->catalog, id, take_target, (void *)&next), 0);
    for (struct target_record *r = all; r < next; r++)
        if (r != &all[i])
            target_record_done(r);
    assert_true(next > &all[i]);
    return all[i];
}

static void assert_target(const struct test *t, int64_t id, size_t i, enum state state, const char *failure)
{
    struct target_record r = target_of(t, id, i);

    assert_int_equal(r.state, state);
    assert_false(r.stop_pending);
    if (failure && (!r.failure || !strstr(r.failure, failure)))
        fail_msg("\"%s\" does not contain \"%s\"", r.failure ? r.failure : "", failure);
    target_record_done(&r);
}

/* -- Steps on the way of a session ------------------------------------------------------------------------ */

static struct session *lease_all(struct test *t, const char *options, bool is_local)
{
    struct session *s = create(t, options, is_local);

    UNTIL(t, t->n[LEASE] == 1);
    assert_int_equal(s->record.state, STATE_REQUESTED);
    session_leased(s, NULL);
    UNTIL(t, t->n[PREPARE] == 1);
    return s;
}

static struct session *arm(struct test *t, const char *options, bool is_local)
{
    struct session *s = lease_all(t, options, is_local);

    session_remote_prepared(s);
    UNTIL(t, t->n[AGREE] == 1);
    t->n_stops = 0; /* the one that cleans */
    return s;
}

/* Records everywhere; both hosts report their moments. */
static struct session *record(struct test *t, const char *options, bool is_local)
{
    struct session *s = arm(t, options, is_local);

    session_go_at(s, mono_ns());
    UNTIL(t, s->starts_left);
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *target = &s->targets[i];
        if (!target_is_remote(target))
            continue;
        target->record.start_sent_at = session_wall_at(s, s->go_at_ns) + (int64_t)i * NS_PER_MS;
        target->record.clock_error_ns = 100000 * (int64_t)i;
        target->record.start_status = 200;
        target_peer_recording(target);
    }
    UNTIL(t, s->record.state == STATE_RECORDING);
    return s;
}

static void collect_remote(struct test *t, struct session *s)
{
    for (size_t i = 0; i < s->n_targets; i++)
        if (target_is_remote(&s->targets[i]) && s->targets[i].record.state == STATE_COLLECTING)
            target_collected(&s->targets[i], STATE_COMPLETE, NULL, NULL);
    (void)t;
}

/* -- The coordinator -------------------------------------------------------------------------------------- */

static void test_complete_session(void **state)
{
    struct test *t = *state;
    struct session *s = arm(t, OPTIONS(""), true);
    const int64_t id = s->record.session_id;

    /* Nothing was sent, and each may have a stop pending, durably. */
    assert_int_equal(t->n_starts, 0);
    assert_int_equal(ask(t->fixture->path, "select count(*) from target_row where stop_pending = 1"), 3);
    assert_int_equal(session_planned_start(s), 0);
    int64_t at = mono_ns() + 20 * NS_PER_MS;
    session_go_at(s, at);
    session_go_at(s, at + NS_PER_S); /* only the first one counts */
    UNTIL(t, t->n_starts == 1);
    assert_true(t->started_ns >= at);
    assert_int_equal(s->record.start_at, session_wall_at(s, at));
    UNTIL(t, s->targets[0].record.state == STATE_RECORDING);
    for (size_t i = 1; i < 3; i++) {
        s->targets[i].record.start_sent_at = session_wall_at(s, at) - (int64_t)i * NS_PER_MS;
        s->targets[i].record.clock_error_ns = 100000 * (int64_t)i;
        target_peer_recording(&s->targets[i]);
        target_peer_recording(&s->targets[i]);
    }
    UNTIL(t, s->record.state == STATE_RECORDING);
    /* From the second host to this one, whose own clock has no error. */
    assert_true(s->record.skew_ns >= 2 * NS_PER_MS);
    assert_int_equal(s->record.skew_error_ns, 200000);
    assert_int_equal(jobs_stop(sessions_jobs(t->sessions), id, "anna"), 0);
    UNTIL(t, t->n[STOP] == 2 && t->n_stops == 1);
    assert_int_equal(t->n[COLLECT], 0);
    target_peer_stopped(&s->targets[1]);
    target_peer_stopped(&s->targets[2]);
    assert_int_equal(t->n[COLLECT], 2);
    collect_remote(t, s);
    UNTIL(t, state_of(t, id) == STATE_COMPLETE);
    assert_int_equal(t->n[FORGET], 2);
    assert_int_equal(t->n[GIVE_BACK], 0);
}

/* Each row names its host, and the names of its files are not those of another coordinator's session. */
static void test_rows(void **state)
{
    struct test *t = *state;
    struct session *s = create(t, OPTIONS(""), true);
    struct target_record local = target_of(t, s->record.session_id, 0),
                         other = target_of(t, s->record.session_id, 1);
    _cleanup_(freep) char *end = xasprintf("-%.8s", s->record.uuid);

    assert_null(local.host_uuid);
    assert_string_equal(other.host_uuid, HOST_1);
    assert_string_equal(other.host, "gpu1");
    assert_null(other.trace_dir);
    assert_non_null(strstr(other.profile_id, end));
    assert_null(strstr(local.profile_id, end));
    target_record_done(&local);
    target_record_done(&other);
}

static void test_lease_refused(void **state)
{
    struct test *t = *state;
    struct session *s = create(t, OPTIONS(""), true);
    const int64_t id = s->record.session_id;
    struct problem p = {0};

    problem_set(&p, -EBUSY, PROBLEM_BUSY, "gpu1: " REMOTE_1 " is held by s9 of login2");
    session_leased(s, &p);
    problem_done(&p);
    UNTIL(t, state_of(t, id) == STATE_FAILED);
    assert_reason(t, id, "held by s9 of login2");
    settle(t);
    assert_int_equal(t->n[GIVE_BACK], 0); /* lease() had none to give back */
    assert_int_equal(t->n[FORGET], 2);
    assert_int_equal(t->n_starts, 0);
}

static void test_lease_later(void **state)
{
    struct test *t = *state;
    struct session *s = create(t, OPTIONS(", \"queue\": true"), true);
    const int64_t id = s->record.session_id;

    session_lease_later(s, "gpu1, held by s9 of login2", NS_PER_MS);
    assert_string_equal(s->waiting_for, "gpu1, held by s9 of login2");
    UNTIL(t, t->n[LEASE] == 2);
    assert_string_equal(s->waiting_for, "gpu1, held by s9 of login2");
    session_lease_later(s, "gpu1, held by s9 of login2", 3600 * NS_PER_S);
    sessions_wake(t->sessions);
    settle(t);
    assert_int_equal(t->n[LEASE], 2); /* not before its time, whatever became free */
    jobs_stop(sessions_jobs(t->sessions), id, "anna");
    UNTIL(t, state_of(t, id) == STATE_CANCELLED);
    assert_int_equal(t->n[PREPARE], 0);
}

/* A session that leases holds all of its workers. */
static void test_queue(void **state)
{
    struct test *t = *state;
    struct session *first = create(t, OPTIONS(""), true);
    _cleanup_(problem_done) struct problem p = {0};

    assert_null(try_session(t, OPTIONS(""), true, &p));
    assert_non_null(strstr(p.what, "is held by s1 of uid 1000 (anna), which is requested"));
    struct session *second = create(t, OPTIONS(", \"queue\": true"), false);
    assert_int_equal(t->n[LEASE], 1);
    assert_non_null(strstr(second->waiting_for, "held by s1"));
    jobs_stop(sessions_jobs(t->sessions), first->record.session_id, "anna");
    UNTIL(t, t->n[LEASE] == 2);
    assert_int_equal(t->n[GIVE_BACK], 1);
    assert_true(second->leasing);
}

static void test_host_refuses_its_part(void **state)
{
    struct test *t = *state;
    struct session *s = create(t, OPTIONS(""), true);
    const int64_t id = s->record.session_id;

    target_peer_failed(&s->targets[1], "gpu1 does not answer", "profctl list-hosts", false);
    session_leased(s, NULL);
    UNTIL(t, t->n[PREPARE] == 1);
    assert_int_equal(s->targets[1].record.state, STATE_FAILED);
    assert_int_equal(s->targets[2].record.state, STATE_STARTING);
    target_peer_failed(&s->targets[2], "gpu2: the directory cannot be written", NULL, false);
    session_remote_prepared(s);
    UNTIL(t, s->record.state == STATE_RECORDING);
    assert_int_equal(t->n[AGREE], 0); /* nobody is left to agree with */
    jobs_stop(sessions_jobs(t->sessions), id, "anna");
    UNTIL(t, state_of(t, id) == STATE_PARTIAL);
    assert_reason(t, id, "1 of 3 workers are complete; " REMOTE_1 ": gpu1 does not answer");
}

static void test_all_are_required(void **state)
{
    struct test *t = *state;
    struct session *s = create(t, OPTIONS(", \"require_all\": true"), true);
    const int64_t id = s->record.session_id;

    target_peer_failed(&s->targets[1], "gpu1 does not answer", NULL, false);
    session_leased(s, NULL);
    UNTIL(t, state_of(t, id) == STATE_FAILED || state_of(t, id) == STATE_CANCELLED);
    assert_reason(t, id, "all workers are required");
    assert_int_equal(t->n[GIVE_BACK], 1);
    assert_int_equal(t->n_starts, 0);
}

/* A stop at each step before the starts: the leases are given back once, and nothing starts. */
static void test_stop_before_start(void **state)
{
    struct test *t = *state;

    for (int step = 0; step < 4; step++) {
        memset(t->n, 0, sizeof(t->n));
        struct session *s = step == 0   ? create(t, OPTIONS(""), true)
                            : step == 1 ? lease_all(t, OPTIONS(""), true)
                                        : arm(t, OPTIONS(""), true);
        const int64_t id = s->record.session_id;
        if (step == 3)
            session_go_at(s, mono_ns() + 3600 * NS_PER_S);
        assert_int_equal(jobs_stop(sessions_jobs(t->sessions), id, "anna"), 0);
        UNTIL(t, state_of(t, id) == STATE_CANCELLED);
        settle(t);
        assert_int_equal(t->n[GIVE_BACK], 1);
        assert_int_equal(t->n[FORGET], 2);
        assert_int_equal(t->n[STOP], 0);
        assert_null(sessions_find(t->sessions, id));
    }
    assert_int_equal(t->n_starts, 0);
}

/* Its host did not confirm the moment of the start: its stop is pending, as it may have started. */
static void test_start_not_confirmed(void **state)
{
    struct test *t = *state;
    struct session *s = arm(t, OPTIONS(""), true);
    const int64_t id = s->record.session_id;

    session_go_at(s, mono_ns() + 10 * NS_PER_MS);
    target_peer_failed(&s->targets[1], "gpu1 has not confirmed the start", NULL, true);
    assert_int_equal(s->targets[1].record.state, STATE_STARTING);
    target_peer_recording(&s->targets[2]); /* a clock that is ahead */
    assert_int_equal(s->targets[2].record.state, STATE_STARTING);
    UNTIL(t, t->n[STOP] == 1 && s->record.state == STATE_RECORDING);
    assert_ptr_equal(t->stopping, &s->targets[1]);
    assert_int_equal(s->targets[2].record.state, STATE_RECORDING);
    target_peer_stopped(&s->targets[1]);
    target_collected(&s->targets[1], STATE_COMPLETE, NULL, NULL);
    assert_int_equal(s->targets[1].record.state, STATE_COMPLETE); /* as its host says in the end */
    target_peer_stopped(&s->targets[2]);
    jobs_stop(sessions_jobs(t->sessions), id, "anna");
    UNTIL(t, s->targets[2].record.state == STATE_COLLECTING);
    assert_int_equal(t->n[STOP], 1); /* it had ended by itself */
    collect_remote(t, s);
    UNTIL(t, state_of(t, id) == STATE_COMPLETE);
    assert_int_equal(ask(t->fixture->path,
                         "select count(*) from session_row where remarks like '%not confirmed the start%'"),
                     1);
}

static void test_not_confirmed_and_required(void **state)
{
    struct test *t = *state;
    struct session *s = arm(t, OPTIONS(", \"require_all\": true"), true);
    const int64_t id = s->record.session_id;

    session_go_at(s, mono_ns() + 3600 * NS_PER_S);
    target_peer_failed(&s->targets[1], "gpu1 has not confirmed the start", NULL, true);
    UNTIL(t, state_of(t, id) == STATE_CANCELLED);
    assert_reason(t, id, "gpu1 has not confirmed the start; none was started");
    assert_int_equal(t->n[GIVE_BACK], 1);
    assert_int_equal(t->n_starts, 0);
}

/* After the starts, with all required, one that fails rolls the others back. */
static void test_roll_back(void **state)
{
    struct test *t = *state;
    struct session *s = arm(t, OPTIONS(", \"require_all\": true"), true);
    const int64_t id = s->record.session_id;

    session_go_at(s, mono_ns());
    UNTIL(t, s->starts_left && s->targets[0].record.state == STATE_RECORDING);
    target_peer_recording(&s->targets[1]);
    s->targets[2].record.start_status = 500;
    target_peer_failed(&s->targets[2], "POST /start_profile: status 500", NULL, true);
    UNTIL(t, t->n[STOP] == 2);
    assert_true(s->rolled_back);
    target_peer_stopped(&s->targets[1]);
    target_peer_stopped(&s->targets[2]); /* its host stopped it to be sure */
    UNTIL(t, state_of(t, id) == STATE_FAILED);
    assert_int_equal(t->n[COLLECT], 0);
    assert_target(t, id, 0, STATE_CANCELLED, NULL);
    assert_target(t, id, 1, STATE_CANCELLED, NULL);
    assert_target(t, id, 2, STATE_FAILED, "status 500");
}

/* The stop is faster than the report of the start; the report comes with the answer to the stop. */
static void test_stop_before_report(void **state)
{
    struct test *t = *state;
    struct session *s = arm(t, OPTIONS(""), true);
    const int64_t id = s->record.session_id;

    session_go_at(s, mono_ns());
    UNTIL(t, s->targets[0].record.state == STATE_RECORDING);
    jobs_stop(sessions_jobs(t->sessions), id, "anna");
    UNTIL(t, t->n[STOP] == 2);
    target_peer_recording(&s->targets[1]);
    target_peer_stopped(&s->targets[1]);
    target_peer_stopped(&s->targets[2]); /* without a report of its start */
    UNTIL(t, t->n[COLLECT] == 2);
    collect_remote(t, s);
    UNTIL(t, state_of(t, id) == STATE_PARTIAL || state_of(t, id) == STATE_COMPLETE);
    assert_target(t, id, 1, STATE_COMPLETE, NULL);
    assert_target(t, id, 2, STATE_COMPLETE, NULL);
}

static void test_stops_one_at_a_time(void **state)
{
    struct test *t = *state;
    struct session *s = record(t, OPTIONS(", \"stagger\": true"), true);
    const int64_t id = s->record.session_id;

    jobs_stop(sessions_jobs(t->sessions), id, "anna");
    UNTIL(t, t->n[STOP] == 1);
    settle(t);
    assert_int_equal(t->n[STOP], 1);
    assert_ptr_equal(t->stopping, &s->targets[1]);
    target_peer_stopped(&s->targets[1]);
    UNTIL(t, t->n[STOP] == 2);
    target_peer_stopped(&s->targets[2]);
    collect_remote(t, s);
    UNTIL(t, state_of(t, id) == STATE_COMPLETE);
}

static void test_host_is_lost(void **state)
{
    struct test *t = *state;
    _cleanup_(problem_done) struct problem p = {0};
    struct session *s = record(t, OPTIONS(""), false);
    const int64_t id = s->record.session_id;

    jobs_stop(sessions_jobs(t->sessions), id, "anna");
    UNTIL(t, t->n[STOP] == 2);
    /* How long its workers write nobody knows, and another stop would not end that. */
    assert_null(try_session(t, OPTIONS(""), false, &p));
    assert_string_equal(strstr(p.what, "which is"), "which is stopping");
    assert_non_null(strstr(p.remedy, "profctl status s1"));
    target_peer_stopped(&s->targets[0]);
    target_collected(&s->targets[0], STATE_COMPLETE, NULL, NULL);
    target_peer_lost(&s->targets[1], wall_ns());
    UNTIL(t, state_of(t, id) == STATE_PARTIAL);
    assert_target(t, id, 1, STATE_PARTIAL, "its host gpu2 had not answered since");
    assert_reason(t, id, "1 of 2 workers are complete; " REMOTE_2);
}

/* One whose host is not waited for any more while it records: its stop is not asked for. */
static void test_left_while_recording(void **state)
{
    struct test *t = *state;
    struct session *s = record(t, OPTIONS(""), false);
    const int64_t id = s->record.session_id;

    s->targets[0].record.stop_answered_at = 77;
    target_peer_lost(&s->targets[0], RECORD_NONE);
    UNTIL(t, t->n[COLLECT] == 1);
    assert_int_equal(t->n[STOP], 0);
    assert_int_equal(s->targets[0].record.state, STATE_COLLECTING);
    target_peer_lost(&s->targets[0], RECORD_NONE);
    assert_int_equal(s->targets[0].record.state, STATE_PARTIAL);
    assert_int_equal(s->record.state, STATE_RECORDING);
    target_peer_stopped(&s->targets[1]);
    UNTIL(t, s->record.state == STATE_COLLECTING);
    /* By the last stop that a host reported, not by when that came. */
    assert_int_equal(s->record.stopped_at, 77);
    target_collected(&s->targets[1], STATE_COMPLETE, NULL, NULL);
    UNTIL(t, state_of(t, id) == STATE_PARTIAL);
    assert_target(t, id, 0, STATE_PARTIAL, "its host gpu1 had not reported its end in time");
}

/* A later profd asks the hosts again: what it stops and what it collects follows from each target's state. */
static void test_restart_while_recording(void **state)
{
    struct test *t = *state;
    struct session *s = record(t, OPTIONS(""), false);
    const int64_t id = s->record.session_id;

    restart(t);
    s = sessions_find(t->sessions, id);
    assert_int_equal(t->n[RESUME], 1);
    assert_int_equal(t->n[STOP], 0);
    assert_true(target_is_remote(&s->targets[0]));
    assert_int_equal(s->record.state, STATE_RECORDING);
    jobs_stop(sessions_jobs(t->sessions), id, "anna");
    UNTIL(t, t->n[STOP] == 2);
    restart(t);
    assert_int_equal(t->n[STOP], 2);
    s = sessions_find(t->sessions, id);
    target_peer_stopped(&s->targets[0]);
    target_peer_stopped(&s->targets[1]);
    assert_int_equal(t->n[COLLECT], 2);
    restart(t);
    assert_int_equal(t->n[COLLECT], 2);
    s = sessions_find(t->sessions, id);
    collect_remote(t, s);
    UNTIL(t, state_of(t, id) == STATE_COMPLETE);
}

static void test_restart_before_recording(void **state)
{
    struct test *t = *state;
    struct session *s = create(t, OPTIONS(""), false);
    const int64_t requested = s->record.session_id;

    restart(t);
    assert_int_equal(state_of(t, requested), STATE_CANCELLED);
    assert_int_equal(t->n[RESUME], 1);
    assert_int_equal(t->n[GIVE_BACK], 1);

    memset(t->n, 0, sizeof(t->n));
    s = lease_all(t, OPTIONS(""), false);
    const int64_t preparing = s->record.session_id;
    restart(t);
    assert_int_equal(t->n[STOP], 0); /* it had not begun */
    assert_int_equal(state_of(t, preparing), STATE_FAILED);

    memset(t->n, 0, sizeof(t->n));
    s = arm(t, OPTIONS(""), false);
    const int64_t armed = s->record.session_id;
    restart(t);
    assert_int_equal(t->n[STOP], 2);
    s = sessions_find(t->sessions, armed);
    target_peer_failed(&s->targets[0], "gpu1: nothing was started", NULL, false);
    target_peer_failed(&s->targets[1], "gpu2: nothing was started", NULL, false);
    assert_int_equal(t->n[COLLECT], 2);
    target_collected(&s->targets[0], STATE_FAILED, "no traces", NULL);
    target_collected(&s->targets[1], STATE_FAILED, "no traces", NULL);
    UNTIL(t, state_of(t, armed) == STATE_FAILED);
}

/* profd.conf names no other host any more. */
static void test_restart_without_peers(void **state)
{
    struct test *t = *state;
    struct session *s = record(t, OPTIONS(""), false);
    const int64_t id = s->record.session_id;

    settle(t);
    sessions_free(t->sessions);
    sessions_open(t);
    sessions_set_remote(t->sessions, NULL, NULL);
    assert_int_equal(sessions_recover(t->sessions), 0);
    UNTIL(t, state_of(t, id) == STATE_FAILED);
    assert_target(t, id, 0, STATE_FAILED, "gpu1 is not one of its peers any more");
}

/* -- The host --------------------------------------------------------------------------------------------- */

static void on_created(const struct job_created *created, void *arg)
{
    struct test *t = arg;

    t->n_created++;
    t->created_id = created->id;
    if (created->problem)
        replace_str(&t->refusal, created->problem->what);
}

static int try_leased(struct test *t, const char *text, const char *profile_id, struct problem *p)
{
    char error[200];
    _cleanup_json_ request = json_parse(text, strlen(text), error);
    struct lease_worker worker = {.url = t->url, .profile_id = (char *)profile_id};
    struct lease_start start = {.lease_id = 3,
                                .session_uuid = SESSION,
                                .coordinator = LOGIN,
                                .coordinator_name = "login1",
                                .actor = "uid 1000 (anna) on login1",
                                .deadline_boot_ns = t->deadline_boot_ns,
                                .workers = &worker,
                                .n_workers = 1,
                                .request = request};
    struct job_creation *c;

    assert_non_null(request);
    return session_create_leased(t->sessions, &start, on_created, t, &c, p);
}

static struct session *create_leased(struct test *t, const char *text)
{
    _cleanup_(problem_done) struct problem p = {0};

    t->n_created = 0;
    assert_int_equal(try_leased(t, text, "s7-w0-1-33333333", &p), 0);
    UNTIL(t, t->n_created == 1);
    if (t->created_id == 0)
        fail_msg("%s", t->refusal);
    return sessions_find(t->sessions, t->created_id);
}

static struct session *arm_leased(struct test *t, const char *text)
{
    struct session *s = create_leased(t, text);

    UNTIL(t, t->n[ARMED] == 1);
    t->n_stops = 0;
    return s;
}

#define RECORDING "{\"duration_ns\": 300000000000}"

static void test_leased_session(void **state)
{
    struct test *t = *state;
    struct session *s = arm_leased(t, RECORDING);
    const int64_t id = s->record.session_id;

    assert_true(session_is_leased(s));
    assert_string_equal(s->record.uuid, SESSION);
    assert_string_equal(s->record.coordinator, LOGIN);
    assert_string_equal(s->targets[0].record.profile_id, "s7-w0-1-33333333");
    assert_int_equal(t->n_starts, 0);
    assert_int_equal(ask(t->fixture->path, "select count(*) from target_row where stop_pending = 1"), 1);
    int64_t at = mono_ns() + 20 * NS_PER_MS;
    session_go_at(s, at);
    UNTIL(t, s->record.state == STATE_RECORDING);
    assert_true(t->started_ns >= at);
    session_stop_workers(s, (const char *const[]){"http://other:1"}, 1);
    assert_int_equal(s->record.state, STATE_RECORDING);
    session_stop_workers(s, (const char *const[]){t->url}, 1);
    UNTIL(t, state_of(t, id) == STATE_COMPLETE);
    assert_int_equal(t->n_stops, 1);
    assert_int_equal(t->n[ENDED], 1);
}

static void test_moment_has_passed(void **state)
{
    struct test *t = *state;
    struct session *s = arm_leased(t, RECORDING);
    const int64_t id = s->record.session_id;

    session_go_at(s, mono_ns() - 2 * SESSION_LATE_NS);
    UNTIL(t, state_of(t, id) == STATE_FAILED);
    assert_target(t, id, 0, STATE_FAILED, "the moment of the start had passed by");
    settle(t);
    assert_int_equal(t->n_starts, 0);
    assert_int_equal(t->n_stops, 0);
}

static void test_deadline_before_start(void **state)
{
    struct test *t = *state;
    struct session *s = arm_leased(t, RECORDING);
    const int64_t id = s->record.session_id;

    session_extend(s, boot_ns() + NS_PER_MS);
    UNTIL(t, state_of(t, id) == STATE_CANCELLED);
    assert_reason(t, id, "its lease to login1 ended");
    settle(t);
    assert_int_equal(t->n_starts, 0);
    assert_int_equal(t->n[ENDED], 1);
}

static struct session *record_leased(struct test *t, const char *text)
{
    struct session *s = arm_leased(t, text);

    session_go_at(s, mono_ns());
    UNTIL(t, s->record.state == STATE_RECORDING);
    return s;
}

static void test_deadline_of_recording(void **state)
{
    struct test *t = *state;
    struct session *s = record_leased(t, "{\"duration_ns\": 300000000000, \"stagger\": true}");
    const int64_t id = s->record.session_id;

    /* Its coordinator stops one worker of all hosts at a time: nothing but the deadline does it here. */
    assert_int_equal(s->record.stop_at, RECORD_NONE);
    session_extend(s, boot_ns() + 1200 * NS_PER_S); /* not beyond the limit of a session's length */
    assert_true(s->record.hard_stop_boot_ns <= boot_ns() + t->settings.session_limit_ns);
    session_extend(s, boot_ns() + NS_PER_MS);
    UNTIL(t, state_of(t, id) == STATE_COMPLETE);
    assert_int_equal(t->n_stops, 1);
    assert_reason(t, id, "its lease to login1 ended");
}

static void test_rolled_back_by_coordinator(void **state)
{
    struct test *t = *state;
    struct session *s = record_leased(t, RECORDING);
    const int64_t id = s->record.session_id;

    session_roll_back(s, "all workers are required, and one of gpu2 failed");
    UNTIL(t, state_of(t, id) == STATE_CANCELLED);
    assert_int_equal(t->n_stops, 1);
    assert_reason(t, id, "one of gpu2 failed");
}

static void test_requests_of_coordinators(void **state)
{
    struct test *t = *state;
    static const struct {
        const char *request, *profile_id, *what;
    } bad[] = {
        {"{\"trace_dir\": \"/etc\"}", "p", "\"trace_dir\" is not an option of a leased session"},
        {"{\"workers\": [\"http://x:1\"]}", "p", "\"workers\" is not an option of a leased session"},
        {"{\"router\": \"http://x:1\"}", "p", "\"router\" is not an option of a leased session"},
        {"{\"queue\": true}", "p", "\"queue\" is not an option of a leased session"},
        {"{\"duration_ns\": -1}", "p", "duration_ns"},
        {"[]", "p", "request must be a JSON object"},
        {RECORDING, "../../etc/x", "is not a name"},
        {RECORDING, ".x", "is not a name"},
        {RECORDING, "", "is not a name"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        _cleanup_(problem_done) struct problem p = {0};
        assert_true(try_leased(t, bad[i].request, bad[i].profile_id, &p) < 0);
        if (!p.what || !strstr(p.what, bad[i].what))
            fail_msg("\"%s\" does not contain \"%s\"", p.what ? p.what : "", bad[i].what);
    }
}

/* What is leased to another host is not free here, and what is recorded here is not free for a lease. */
static void test_leased_elsewhere(void **state)
{
    struct test *t = *state;
    _cleanup_(problem_done) struct problem p = {0};

    t->holder = "s4 of login2";
    assert_null(try_session(t, OPTIONS(""), true, &p));
    assert_non_null(strstr(p.what, "is held by s4 of login2"));
    struct session *s = create(t, OPTIONS(", \"queue\": true"), true);
    assert_non_null(strstr(s->waiting_for, "held by s4 of login2"));
    assert_int_equal(t->n[LEASE], 0);
    t->holder = NULL;
    sessions_wake(t->sessions);
    UNTIL(t, t->n[LEASE] == 1);
    const struct worker w = {.url = t->url};
    assert_ptr_equal(sessions_holder(t->sessions, &w, NULL), s);
}

/* A restart before the moment of the start is known stops nothing, as nothing was started. */
static void test_restart_of_host(void **state)
{
    struct test *t = *state;
    struct session *s = arm_leased(t, RECORDING);
    int64_t id = s->record.session_id;

    restart(t);
    assert_int_equal(state_of(t, id), STATE_CANCELLED);
    assert_int_equal(t->n_stops, 0);
    assert_int_equal(t->n[ENDED], 1);
    execute(t->fixture->path, "update session_row set uuid = null");

    memset(t->n, 0, sizeof(t->n));
    s = arm_leased(t, RECORDING);
    id = s->record.session_id;
    session_go_at(s, mono_ns() + 3600 * NS_PER_S);
    restart(t);
    UNTIL(t, t->n_stops == 1 && state_is_final(state_of(t, id)));
    assert_int_equal(t->n_starts, 0);
    execute(t->fixture->path, "update session_row set uuid = null");

    /* A recording goes on, and its lease ends when it would have. */
    memset(t->n, 0, sizeof(t->n));
    s = record_leased(t, RECORDING);
    id = s->record.session_id;
    session_extend(s, boot_ns() + 5 * NS_PER_S);
    restart(t);
    s = sessions_find(t->sessions, id);
    assert_int_equal(s->record.state, STATE_RECORDING);
    assert_true(s->deadline_boot_ns <= boot_ns() + 5 * NS_PER_S);
    session_extend(s, boot_ns() + NS_PER_MS);
    UNTIL(t, state_is_final(state_of(t, id)));
    assert_int_equal(t->n_stops, 1);
}

/* -- What they stand on ------------------------------------------------------------------------------------- */

/* In one statement: only targets in that state, and none of another session. */
static void test_moved_targets(void **state)
{
    struct test *t = *state;
    struct session *s = create(t, OPTIONS(""), false),
                   *other = create(t, OPTIONS(", \"queue\": true"), false);
    struct catalog *catalog = t->fixture->catalog;
    const int64_t id = s->record.session_id;

    assert_int_equal(catalog_move_targets(catalog, id, STATE_RECORDING, STATE_STOPPING, true), 0);
    assert_int_equal(catalog_move_targets(catalog, 4711, STATE_REQUESTED, STATE_STARTING, true), 0);
    assert_target(t, id, 0, STATE_REQUESTED, NULL);
    assert_int_equal(catalog_move_targets(catalog, id, STATE_REQUESTED, STATE_STARTING, true), 0);
    struct target_record r = target_of(t, id, 1);
    assert_int_equal(r.state, STATE_STARTING);
    assert_true(r.stop_pending);
    target_record_done(&r);
    assert_target(t, other->record.session_id, 0, STATE_REQUESTED, NULL);
}

/* One that has ended stays as it is. */
static void test_changed_targets(void **state)
{
    struct test *t = *state;
    struct session *s = create(t, OPTIONS(""), true);
    const int64_t id = s->record.session_id;

    target_fail(&s->targets[1], "it is gone", NULL);
    target_change_state(&s->targets[1], STATE_FAILED);
    session_change_targets(s, STATE_REQUESTED, STATE_STARTING);
    assert_target(t, id, 0, STATE_STARTING, NULL);
    assert_target(t, id, 1, STATE_FAILED, "it is gone");
    assert_target(t, id, 2, STATE_STARTING, NULL);
    settle(t);
    assert_int_equal(
        ask(t->fixture->path,
            "select count(*) from event_row where kind = 'target-state' and text like '% starting'"),
        2);
}

/* A job that is stopped between its answer and the next iteration of the loop does not begin. */
static void on_created_stop(const struct job_created *created, void *arg)
{
    struct test *t = arg;

    t->n_created++;
    t->created_id = created->id;
    assert_int_equal(jobs_stop(sessions_jobs(t->sessions), created->id, "anna"), 0);
}

static void test_stopped_before_it_begins(void **state)
{
    struct test *t = *state;
    struct job_request request;
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *text = xasprintf("{\"workers\": [\"%s\"], \"allow_uncollected\": true}", t->url);
    char error[200];
    _cleanup_json_ options = json_parse(text, strlen(text), error);

    assert_int_equal(session_request_parse(options, &request, &p), 0);
    job_create(sessions_jobs(t->sessions), &request, options, "anna", on_created_stop, t);
    UNTIL(t, t->n_created == 1);
    UNTIL(t, state_of(t, t->created_id) == STATE_CANCELLED);
    settle(t);
    assert_int_equal(t->n_starts, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_complete_session),
        TEST(test_rows),
        TEST(test_lease_refused),
        TEST(test_lease_later),
        TEST(test_queue),
        TEST(test_host_refuses_its_part),
        TEST(test_all_are_required),
        TEST(test_stop_before_start),
        TEST(test_start_not_confirmed),
        TEST(test_not_confirmed_and_required),
        TEST(test_roll_back),
        TEST(test_stop_before_report),
        TEST(test_stops_one_at_a_time),
        TEST(test_host_is_lost),
        TEST(test_left_while_recording),
        TEST(test_restart_while_recording),
        TEST(test_restart_before_recording),
        TEST(test_restart_without_peers),
        TEST(test_leased_session),
        TEST(test_moment_has_passed),
        TEST(test_deadline_before_start),
        TEST(test_deadline_of_recording),
        TEST(test_rolled_back_by_coordinator),
        TEST(test_requests_of_coordinators),
        TEST(test_leased_elsewhere),
        TEST(test_restart_of_host),
        TEST(test_moved_targets),
        TEST(test_changed_targets),
        TEST(test_stopped_before_it_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
