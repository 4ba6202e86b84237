/* SPDX-License-Identifier: Apache-2.0 */
/* Runs and their requests: rows that come back as they went, listings, and what upkeep removes.
 */
#include "tests/unit/cmocka-all.h"

#include "daemon/catalog/internal.h"
#include "tests/unit/catalog-fixture.h"
#include "tests/unit/patience.h"
#include <errno.h>

static int64_t add_run(struct catalog_fixture *fixture, enum run_state state, int64_t session_id)
{
    struct run_record r;

    run_record_init(&r);
    r.state = state;
    r.session_id = session_id;
    r.router = "http://r:1";
    r.dialect = "vllm-router";
    r.workload = "{\"isl\":8}";
    r.targets = "[{\"url\":\"http://r:1\"}]";
    r.labels = "{\"team\":\"rl\"}";
    r.requested_at = 1000;
    r.requested_by = "uid 0";
    r.started_at = 5000;
    r.success = 2;
    r.notes = "[{\"text\":\"n\"}]";
    assert_int_equal(catalog_add_run(fixture->catalog, &r), 0);
    return r.run_id;
}

static int add_request(struct catalog_fixture *fixture, int64_t run_id, int64_t number)
{
    struct request_row q;

    request_row_init(&q);
    q.run_id = run_id;
    q.number = number;
    q.prompt = 0;
    q.target = "http://w:1";
    q.cold = number == 0;
    q.intended_ns = 10 * number;
    q.ttft_ns = 7;
    q.outcome = "success";
    q.gaps_us = "[1,2]";
    return catalog_add_request(fixture->catalog, &q);
}

static void test_round_trip(void **state)
{
    struct catalog_fixture *fixture = *state;
    int64_t id = add_run(fixture, RUN_LOADING, RECORD_NONE);
    struct run_record r;

    assert_int_equal(catalog_get_run(fixture->catalog, id, &r), 0);
    assert_int_equal(r.state, RUN_LOADING);
    assert_int_equal(r.session_id, RECORD_NONE);
    assert_int_equal(r.ended_at, RECORD_NONE);
    assert_string_equal(r.router, "http://r:1");
    assert_string_equal(r.notes, "[{\"text\":\"n\"}]");
    r.state = RUN_PARTIAL;
    r.error = 3;
    r.reason = xstrdup("cut");
    assert_int_equal(catalog_save_run(fixture->catalog, &r), 0);
    run_record_done(&r);
    assert_int_equal(
        catalog_set_run_summary(fixture->catalog, id,
                                "{\"metrics\":{\"ttft_ms\":{\"p50\":1.5}},\"outliers\":[1],\"run\":99,"
                                "\"throughput\":{\"requests_per_s\":2.5}}"),
        0);
    run_turn(fixture);
    assert_int_equal(ask(fixture->path,
                         "select count(*) from runs where state = 'partial' and error = 3 and "
                         "ttft_p50_ms = 1.5 and requests_per_s = 2.5 and router = 'http://r:1'"),
                     1);

    /* A summary adds to what the row says, and takes no place of it. */
    json_t *j;
    assert_int_equal(catalog_run_json(fixture->catalog, id, &j), 0);
    assert_int_equal(json_get_int(j, "run", 0), id);
    assert_string_equal(json_get_str(j, "reason"), "cut");
    assert_int_equal(json_get_int(json_object_get(j, "requests"), "error", 0), 3);
    assert_non_null(json_object_get(j, "outliers"));
    json_decref(j);
    assert_int_equal(catalog_runs_json(fixture->catalog, 10, RECORD_NONE, RECORD_NONE, &j), 0);
    assert_null(json_object_get(json_array_get(j, 0), "outliers"));
    assert_non_null(json_object_get(json_array_get(j, 0), "metrics"));
    json_decref(j);
    assert_int_equal(catalog_get_run(fixture->catalog, 99, &r), -ENOENT);
}

static int count(const struct request_row *q, void *arg)
{
    int64_t *n = arg;

    assert_int_equal(q->number, *n);
    assert_int_equal(q->sent_ns, RECORD_NONE);
    assert_string_equal(q->gaps_us, "[1,2]");
    ++*n;
    return *n == 200;
}

static void test_requests(void **state)
{
    struct catalog_fixture *fixture = *state;
    int64_t id = add_run(fixture, RUN_LOADING, RECORD_NONE),
            other = add_run(fixture, RUN_LOADING, RECORD_NONE), n = 0;

    for (int i = 0; i < 250; i++)
        assert_int_equal(add_request(fixture, id, i), 0);
    assert_int_equal(add_request(fixture, other, 0), 0);
    /* One that is there already costs nothing of what was written before it. */
    assert_int_equal(add_request(fixture, id, 7), -EEXIST);
    run_turn(fixture);
    assert_int_equal(catalog_each_request(fixture->catalog, id, -1, 150, count, &n), 0);
    assert_int_equal(n, 150);
    assert_int_equal(catalog_each_request(fixture->catalog, id, n - 1, 1000, count, &n), 1);
    assert_int_equal(n, 200);
    assert_int_equal(ask(fixture->path, "select intended_at from requests where run_id = 1 and number = 3"),
                     5030);
}

static int count_runs(const struct run_record *r, void *arg)
{
    ++*(int *)arg;
    return 0;
}

static void test_listings(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct session_record s;
    int64_t found;
    int n = 0;
    json_t *j;

    session_record_init(&s);
    s.requested_at = 1;
    s.requested_by = "uid 0";
    assert_int_equal(catalog_add_session(fixture->catalog, &s), 0);
    add_run(fixture, RUN_COMPLETE, RECORD_NONE);
    int64_t with = add_run(fixture, RUN_WARMING, s.session_id);
    add_run(fixture, RUN_REQUESTED, RECORD_NONE);
    assert_int_equal(catalog_each_unfinished_run(fixture->catalog, count_runs, &n), 0);
    assert_int_equal(n, 2);
    assert_int_equal(catalog_find_run_of_session(fixture->catalog, s.session_id, &found), 0);
    assert_int_equal(found, with);
    assert_int_equal(catalog_find_run_of_session(fixture->catalog, 77, &found), -ENOENT);
    assert_int_equal(catalog_runs_json(fixture->catalog, 10, RECORD_NONE, s.session_id, &j), 0);
    assert_int_equal(json_array_size(j), 1);
    assert_int_equal(json_get_int(json_array_get(j, 0), "session", 0), s.session_id);
    json_decref(j);
    assert_int_equal(catalog_runs_json(fixture->catalog, 10, 3, RECORD_NONE, &j), 0);
    assert_int_equal(json_array_size(j), 2);
    json_decref(j);
    assert_int_equal(catalog_session_json(fixture->catalog, s.session_id, false, &j), 0);
    assert_int_equal(json_get_int(j, "run", 0), with);
    json_decref(j);
    /* Without its session it goes on. */
    assert_int_equal(catalog_remove_session(fixture->catalog, s.session_id), 0);
    run_turn(fixture);
    assert_int_equal(ask(fixture->path, "select count(*) from runs where session_id is null"), 3);
}

static void do_upkeep(struct catalog_fixture *fixture)
{
    catalog_upkeep(fixture->catalog);
    for (int i = 0, n = patience_tries(400); i < n && fixture->catalog->upkeep; i++) {
        usleep(5000);
        run_turn(fixture);
    }
    assert_null(fixture->catalog->upkeep);
}

static void test_removed_at_once_and_deleted_later(void **state)
{
    struct catalog_fixture *fixture = *state;
    int64_t id = add_run(fixture, RUN_COMPLETE, RECORD_NONE),
            kept = add_run(fixture, RUN_COMPLETE, RECORD_NONE);
    struct run_record r;

    for (int i = 0; i < 1200; i++)
        assert_int_equal(add_request(fixture, i % 2 ? id : kept, i), 0);
    assert_int_equal(catalog_remove_run(fixture->catalog, id), 0);
    assert_int_equal(catalog_remove_run(fixture->catalog, id), -ENOENT);
    assert_int_equal(catalog_get_run(fixture->catalog, id, &r), -ENOENT);
    run_turn(fixture);
    assert_int_equal(ask(fixture->path, "select count(*) from runs"), 1);
    assert_int_equal(ask(fixture->path, "select count(*) from requests"), 600);
    assert_int_equal(ask(fixture->path, "select count(*) from request_row"), 1200);
    do_upkeep(fixture);
    assert_int_equal(ask(fixture->path, "select count(*) from request_row"), 600);
    assert_int_equal(ask(fixture->path, "select count(*) from run_row"), 1);
}

static void test_the_newest_requests_are_kept(void **state)
{
    struct catalog_fixture *fixture = *state;
    int64_t id = add_run(fixture, RUN_COMPLETE, RECORD_NONE);

    for (int i = 0; i < 20; i++)
        assert_int_equal(add_request(fixture, id, i), 0);
    run_turn(fixture);
    execute(fixture->path, "update request_row set request_id = 1000010 where number = 19");
    do_upkeep(fixture);
    assert_int_equal(ask(fixture->path, "select count(*) from requests"), 10);
    assert_int_equal(ask(fixture->path, "select min(number) from requests"), 10);
    assert_int_equal(ask(fixture->path, "select count(*) from runs"), 1);
}

static void test_events(void **state)
{
    struct catalog_fixture *fixture = *state;
    json_t *j;

    assert_int_equal(catalog_add_run_event(fixture->catalog, "profd", 3, RECORD_NONE, "loading"), 0);
    assert_int_equal(catalog_add_run_event(fixture->catalog, "profd", 4, 1, "loading"), 0);
    assert_int_equal(catalog_add_event(fixture->catalog, "session-state", "profd", 1, RECORD_NONE,
                                       RECORD_NONE, "starting"),
                     0);
    run_turn(fixture);
    assert_int_equal(catalog_events_json(fixture->catalog, RECORD_NONE, 4, 0, 10, &j), 0);
    assert_int_equal(json_array_size(j), 1);
    assert_int_equal(json_get_int(json_array_get(j, 0), "run", 0), 4);
    assert_string_equal(json_get_str(json_array_get(j, 0), "session"), "s1");
    assert_string_equal(json_get_str(json_array_get(j, 0), "kind"), "run");
    json_decref(j);
    /* A session's are those of its run as well. */
    assert_int_equal(catalog_events_json(fixture->catalog, 1, RECORD_NONE, 0, 10, &j), 0);
    assert_int_equal(json_array_size(j), 2);
    json_decref(j);
}

#define FIXTURE_TEST(f) cmocka_unit_test_setup_teardown(f, fixture_begin_open, fixture_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_round_trip),
        FIXTURE_TEST(test_requests),
        FIXTURE_TEST(test_listings),
        FIXTURE_TEST(test_removed_at_once_and_deleted_later),
        FIXTURE_TEST(test_the_newest_requests_are_kept),
        FIXTURE_TEST(test_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
