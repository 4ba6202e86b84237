/* SPDX-License-Identifier: Apache-2.0 */
/* The catalog among those of other hosts: its UUID, hosts, leases, parts, traces on other hosts, sums, numbers of changes. */
#include "tests/unit/cmocka-all.h"

#include "base/uuid.h"
#include "daemon/catalog/changes.h"
#include "tests/unit/catalog-fixture.h"
#include "tests/unit/catalog-records.h"
#include <errno.h>
#include <inttypes.h>

#define HOST_1 "6b1f0000-0000-4000-8000-000000000021"
#define HOST_2 "6b1f0000-0000-4000-8000-000000000022"

static int count(const struct catalog_fixture *fixture, const char *sql)
{
    return (int)ask(fixture->path, sql);
}

/* -- This catalog -- */

static void test_identity(void **state)
{
    struct catalog_fixture *fixture = *state;
    _cleanup_(freep) char *uuid = xstrdup(catalog_uuid(fixture->catalog));

    assert_true(uuid_is(uuid));
    assert_true(strlen(catalog_host(fixture->catalog)) > 0);
    assert_int_equal(catalog_set_host(fixture->catalog, "n17.cluster"), 0);
    run_turn(fixture);
    fixture_reopen(fixture);
    assert_string_equal(catalog_uuid(fixture->catalog), uuid);
    assert_string_equal(catalog_host(fixture->catalog), "n17.cluster");
    assert_int_equal(count(fixture, "select count(*) from hosts where local and host = 'n17.cluster'"), 1);

    assert_int_equal(catalog_renew_uuid(fixture->catalog), 0);
    assert_string_not_equal(catalog_uuid(fixture->catalog), uuid);
    run_turn(fixture);
    _cleanup_(freep) char *sql = xasprintf("select replaces = '%s' from catalog_row", uuid);
    assert_int_equal(count(fixture, sql), 1);
}

static void test_rows_have_uuids(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct session_record s;
    int64_t id = add_session(fixture, STATE_COMPLETE);

    add_trace(fixture, id, NULL, 1, 1);
    add_trace(fixture, id, NULL, 2, 2);
    assert_int_equal(catalog_get_session(fixture->catalog, id, &s), 0);
    assert_true(uuid_is(s.uuid));
    /* Whatever is saved, the first one stays. */
    replace_str(&s.uuid, UUID_1);
    assert_int_equal(catalog_save_session(fixture->catalog, &s), 0);
    session_record_done(&s);
    run_turn(fixture);
    assert_int_equal(count(fixture, "select count(*) from sessions where uuid = '" UUID_1 "'"), 0);
    assert_int_equal(count(fixture, "select count(distinct uuid) from traces"), 2);
}

static void assert_refs(struct catalog_fixture *fixture, const char *uuid, const char *kinds,
                        const char *expected)
{
    struct catalog_ref refs[8];
    char text[200] = "";
    int n = catalog_find_refs(fixture->catalog, uuid, kinds, refs, ARRAY_SIZE(refs));

    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), 20, "%c%" PRId64 " ", refs[i].kind, refs[i].id);
    assert_string_equal(text, expected);
}

static void test_refs(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct session_record s = full_session();
    struct trace_record t = full_trace(RECORD_NONE, RECORD_NONE);

    s.uuid = (char *)UUID_1;
    t.uuid = (char *)UUID_2;
    assert_int_equal(catalog_add_session(fixture->catalog, &s), 0);
    assert_int_equal(catalog_add_trace(fixture->catalog, &t), 0);
    assert_refs(fixture, UUID_1, "str", "s1 ");
    assert_refs(fixture, "6b1f0000-0000", "str", "s1 t1 ");
    assert_refs(fixture, "6b1f0000-0000", "t", "t1 ");
    assert_refs(fixture, "6b1f0000-0000", "r", "");
    assert_refs(fixture, "6b1f0000-0001", "str", "");
    assert_refs(fixture, UUID_1, "l", "");
}

/* -- Hosts -- */

static void test_hosts(void **state)
{
    struct catalog_fixture *fixture = *state;
    const char *path = fixture->path;
    struct host_record r;

    host_record_init(&r);
    r.host_uuid = (char *)HOST_1;
    r.name = (char *)"n2";
    r.url = (char *)"https://n2:4190";
    r.first_seen_at = r.last_seen_at = 10;
    r.clock_offset_ns = -5;
    r.clock_error_ns = 2;
    assert_int_equal(catalog_saw_host(fixture->catalog, &r), 0);
    /* What is not known this time stays. */
    r.url = NULL;
    r.first_seen_at = r.last_seen_at = 20;
    r.clock_offset_ns = r.clock_error_ns = RECORD_NONE;
    assert_int_equal(catalog_saw_host(fixture->catalog, &r), 0);
    run_turn(fixture);
    assert_int_equal(ask(path, "select first_seen_at from host_row"), 10);
    assert_int_equal(ask(path, "select last_seen_at from host_row"), 20);
    assert_int_equal(ask(path, "select clock_error_ns from host_row"), 2);
    assert_int_equal(ask(path, "select url = 'https://n2:4190' from host_row"), 1);
}

/* -- Leases and parts -- */

static int count_lease(const struct lease_record *r _unused_, void *arg)
{
    ++*(int *)arg;
    return 0;
}

static void test_leases(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct lease_record r, found;
    int open = 0;

    lease_record_init(&r);
    r.session_uuid = (char *)UUID_1;
    r.coordinator = (char *)HOST_1;
    r.coordinator_name = (char *)"n1";
    r.actor = (char *)"uid 1000 (anna)";
    r.state = (char *)"granted";
    r.workers = (char *)"[\"" W1 "\"]";
    r.granted_at = 5;
    r.deadline_boot_ns = 6;
    r.boot_id = (char *)"9d3c";
    assert_int_equal(catalog_add_lease(fixture->catalog, &r), 0);
    assert_int_equal(r.lease_id, 1);
    r.lease_id = 0;
    assert_int_equal(catalog_add_lease(fixture->catalog, &r), 0);
    assert_int_equal(r.lease_id, 2);
    r.session_id = add_session(fixture, STATE_REQUESTED);
    r.state = (char *)"prepared";
    assert_int_equal(catalog_save_lease(fixture->catalog, &r), 0);

    assert_int_equal(catalog_find_lease(fixture->catalog, UUID_1, &found), 0);
    assert_int_equal(found.lease_id, 2);
    assert_int_equal(found.session_id, r.session_id);
    assert_string_equal(found.workers, r.workers);
    lease_record_done(&found);
    assert_int_equal(catalog_find_lease(fixture->catalog, UUID_2, &found), -ENOENT);
    assert_int_equal(catalog_get_lease(fixture->catalog, 1, &found), 0);
    assert_string_equal(found.state, "granted");
    lease_record_done(&found);
    assert_int_equal(catalog_each_open_lease(fixture->catalog, count_lease, &open), 0);
    assert_int_equal(open, 2);
    r.state = (char *)"over";
    assert_int_equal(catalog_save_lease(fixture->catalog, &r), 0);
    open = 0;
    catalog_each_open_lease(fixture->catalog, count_lease, &open);
    assert_int_equal(open, 1);
    r.state = (char *)"lost";
    assert_int_equal(catalog_save_lease(fixture->catalog, &r), -EINVAL);

    /* A number is never given twice, also where its row is gone. */
    run_turn(fixture);
    fixture->catalog = catalog_close(fixture->catalog);
    execute(fixture->path, "delete from lease_row");
    fixture_open(fixture);
    r.lease_id = 0;
    r.state = (char *)"granted";
    assert_int_equal(catalog_add_lease(fixture->catalog, &r), 0);
    assert_int_equal(r.lease_id, 3);
}

static int sum_delivered(const struct part_record *r, void *arg)
{
    *(int64_t *)arg += r->delivered;
    return 0;
}

static void test_parts(void **state)
{
    struct catalog_fixture *fixture = *state;
    int64_t session = add_session(fixture, STATE_RECORDING), delivered = 0;
    struct part_record r;

    part_record_init(&r);
    r.session_id = session;
    r.host_uuid = (char *)HOST_1;
    r.peer = (char *)"n1";
    r.url = (char *)"https://n1:4190";
    r.state = (char *)"asking";
    r.open = true;
    assert_int_equal(catalog_save_part(fixture->catalog, &r), 0);
    int64_t first = r.part_id;
    r.part_id = 0;
    assert_int_equal(catalog_save_part(fixture->catalog, &r), -EEXIST);
    r.host_uuid = (char *)HOST_2;
    r.delivered = 100;
    r.open = false;
    assert_int_equal(catalog_save_part(fixture->catalog, &r), 0);
    r.part_id = first;
    r.host_uuid = (char *)HOST_1;
    r.lease_id = 17;
    r.delivered = 5;
    r.open = true;
    assert_int_equal(catalog_save_part(fixture->catalog, &r), 0);
    assert_int_equal(catalog_each_part(fixture->catalog, session, sum_delivered, &delivered), 0);
    assert_int_equal(delivered, 105);
    delivered = 0;
    assert_int_equal(catalog_each_open_part(fixture->catalog, sum_delivered, &delivered), 0);
    assert_int_equal(delivered, 5);
    assert_int_equal(catalog_remove_session(fixture->catalog, session), 0);
    delivered = 0;
    catalog_each_open_part(fixture->catalog, sum_delivered, &delivered);
    assert_int_equal(delivered, 0);
}

/* -- Traces on other hosts -- */

#define FACTS                                                                                                \
    "{\"trace\":\"t900\",\"session\":\"s90\",\"name\":\"rank1.json\",\"size\":77,\"ranks\":{\"rank\":1}}"

static int64_t put_remote(struct catalog_fixture *fixture, int64_t session, int64_t target, const char *uuid,
                          int64_t recorded_at)
{
    struct remote_trace_record r;

    remote_trace_record_init(&r);
    r.uuid = (char *)uuid;
    r.session_id = session;
    r.target_id = target;
    r.host_uuid = (char *)HOST_1;
    r.remote_id = 900;
    r.recorded_at = recorded_at;
    r.facts = (char *)FACTS;
    assert_int_equal(catalog_put_remote_trace(fixture->catalog, &r), 0);
    return r.trace_id;
}

static int list_remote(const struct remote_trace_record *r, void *arg)
{
    char *text = arg;
    snprintf(text + strlen(text), 20, "t%" PRId64 " ", r->trace_id);
    return 0;
}

static void assert_remote(struct catalog_fixture *fixture, struct trace_filter f, const char *expected)
{
    char text[200] = "";
    assert_int_equal(catalog_each_remote_trace(fixture->catalog, &f, list_remote, text), 0);
    assert_string_equal(text, expected);
}

static void test_remote_traces(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct target_record target = full_target(add_session(fixture, STATE_COMPLETE));
    const struct trace_filter all = {.session_id = RECORD_NONE,
                                     .since = RECORD_NONE,
                                     .until = RECORD_NONE,
                                     .before_id = RECORD_NONE,
                                     .limit = RECORD_NONE};
    struct trace_filter f = all;
    struct remote_trace_record r;

    assert_int_equal(catalog_add_target(fixture->catalog, &target), 0);
    /* The numbers of both kinds are one sequence, also in a catalog that has no trace yet. */
    assert_int_equal(put_remote(fixture, target.session_id, target.target_id, UUID_1, 10), 1);
    assert_int_equal(add_trace(fixture, target.session_id, NULL, 20, 1), 2);
    assert_int_equal(put_remote(fixture, target.session_id, RECORD_NONE, UUID_2, 30), 3);
    assert_int_equal(add_trace(fixture, target.session_id, NULL, 40, 2), 4);
    /* The same trace once more. */
    assert_int_equal(put_remote(fixture, target.session_id, target.target_id, UUID_1, 10), 1);

    assert_remote(fixture, all, "t3 t1 ");
    f.worker_url = W1;
    assert_remote(fixture, f, "t1 ");
    f.session_id = target.session_id;
    assert_remote(fixture, f, "t1 ");
    f.worker_url = NULL;
    f.before_id = 4; /* of this host */
    assert_remote(fixture, f, "t3 t1 ");
    f.before_id = 2;
    assert_remote(fixture, f, "t1 ");
    f.before_id = 3;
    assert_remote(fixture, f, "t1 ");
    f.before_id = 99;
    assert_int_equal(catalog_each_remote_trace(fixture->catalog, &f, list_remote, NULL), -ENOENT);
    f = all;
    f.unclaimed = true;
    assert_remote(fixture, f, "");

    _cleanup_json_ j = NULL;
    assert_int_equal(catalog_get_remote_trace(fixture->catalog, 1, &r), 0);
    assert_int_equal(catalog_remote_trace_json(fixture->catalog, &r, &j), 0);
    remote_trace_record_done(&r);
    assert_string_equal(json_get_str(j, "trace"), "t1");
    assert_string_equal(json_get_str(j, "session"), "s1");
    assert_string_equal(json_get_str(j, "worker"), W1);
    assert_string_equal(json_get_str(j, "host"), "n18");
    assert_string_equal(json_get_str(j, "name"), "rank1.json");
    assert_int_equal(catalog_get_remote_trace(fixture->catalog, 2, &r), -ENOENT);

    run_turn(fixture);
    assert_int_equal(count(fixture,
                           "select count(*) from remote_traces where name = 'rank1.json' and rank = 1 "
                           "and size = 77 and (host = 'n18') is not 0"),
                     2);
    assert_int_equal(catalog_remove_session(fixture->catalog, target.session_id), 0);
    assert_remote(fixture, all, "");
    assert_int_equal(add_trace(fixture, RECORD_NONE, NULL, 50, 3), 5);
}

/* -- Sums -- */

static void set_sums(struct catalog_fixture *fixture, int64_t id, const char *text, int expected)
{
    char error[200];
    _cleanup_json_ sums = json_parse(text, strlen(text), error);
    assert_non_null(sums);
    assert_int_equal(catalog_set_sums(fixture->catalog, id, sums), expected);
    run_turn(fixture);
}

static void test_sums(void **state)
{
    struct catalog_fixture *fixture = *state;
    int64_t id = add_trace(fixture, add_session(fixture, STATE_COMPLETE), W1, 5, 1);

    set_sums(
        fixture, id,
        "{\"steps\":[{\"phase\":\"decode\",\"steps\":5,\"sum_ns\":50,\"p50_ns\":9,\"p99_ns\":12,\"max_ns\":"
        "13},"
        "{\"steps\":1,\"sum_ns\":2},7],\"findings\":[{\"rule\":\"launch_bound\",\"what\":\"w\",\"cost_ns\":3,"
        "\"share\":0.25},{\"what\":\"no rule\"},{\"rule\":\"overhead\"}]}",
        0);
    assert_int_equal(
        count(fixture, "select max_ns from step_sums where phase = 'decode' and worker = '" W1 "'"), 13);
    assert_int_equal(count(fixture, "select count(*) from step_sums where phase is null and p50_ns is null"),
                     1);
    assert_int_equal(
        count(fixture, "select 100 * share from finding where rule = 'launch_bound' and number = 1"), 25);
    assert_int_equal(count(fixture,
                           "select count(*) from finding f join sessions s on s.uuid = f.session_uuid "
                           "join hosts h on h.host_uuid = f.catalog and h.host = f.host"),
                     2);
    set_sums(fixture, id, "{\"findings\":[]}", 0);
    assert_int_equal(
        count(fixture, "select (select count(*) from step_sums) + (select count(*) from finding)"), 0);
    set_sums(fixture, 404, "{}", -ENOENT);
}

static void test_kernel_sums(void **state)
{
    struct catalog_fixture *fixture = *state;
    int64_t id = add_trace(fixture, RECORD_NONE, NULL, 5, 1);
    _cleanup_json_ facts = json_object();
    json_t *names = json_array();

    for (int i = 1; i <= 30; i++)
        json_array_append_new(names,
                              json_pack("{s:s, s:o, s:i, s:i}", "category", i % 10 ? "kernel" : "cpu_op",
                                        "name", json_sprintf("k%02d", i), "count", 1, "sum_ns", 100 * i));
    json_object_set_new(facts, "names", names);
    json_object_set_new(facts, "categories",
                        json_pack("[{s:s, s:i, s:i}]", "category", "kernel", "count", 27, "sum_ns", 9));
    assert_int_equal(catalog_set_summary(fixture->catalog, id, facts), 0);
    run_turn(fixture);
    assert_int_equal(count(fixture, "select count(*) from kernel_sums"), 20);
    assert_int_equal(count(fixture, "select sum_ns from kernel_sums where position = 1"), 2900);
    assert_int_equal(count(fixture, "select min(sum_ns) from kernel_sums"), 800);
    assert_int_equal(count(fixture, "select count from category_sums where category = 'kernel'"), 27);
}

/* -- Numbers of changes -- */

/* What changed after a number, as kinds in their order, for a reader who asks each time; sets it to the last one. */
static const char *changes_after(struct catalog_fixture *fixture, int64_t *at)
{
    static char text[200];
    sqlite3 *db;
    sqlite3_stmt *s;

    while (catalog_number_changes(fixture->catalog) > 0)
        ;
    run_turn(fixture);
    text[0] = '\0';
    assert_int_equal(sqlite3_open_v2(fixture->path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(
        sqlite3_prepare_v2(db, "select seq, kind, id, gone from change_row where seq > ?1 order by seq", -1,
                           &s, NULL),
        SQLITE_OK);
    sqlite3_bind_int64(s, 1, *at);
    while (sqlite3_step(s) == SQLITE_ROW) {
        *at = sqlite3_column_int64(s, 0);
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s%d ",
                 sqlite3_column_int(s, 3) ? "-" : "", (const char *)sqlite3_column_text(s, 1),
                 sqlite3_column_int(s, 2));
    }
    sqlite3_finalize(s);
    sqlite3_close(db);
    return text;
}

static void test_changes(void **state)
{
    struct catalog_fixture *fixture = *state;
    struct worker w = {.url = (char *)W1, .health = HEALTH_HEALTHY};
    struct fleet fleet = {
        .router = (char *)"http://r", .dialect = (char *)"vllm-router", .workers = &w, .n_workers = 1};
    int64_t at = 0;

    assert_int_equal(catalog_saw_fleet(fixture->catalog, &fleet), 0);
    assert_string_equal(changes_after(fixture, &at), "o1 w1 ");
    /* Seen once more: nothing but the time. Then in another health. */
    assert_int_equal(catalog_saw_fleet(fixture->catalog, &fleet), 0);
    assert_string_equal(changes_after(fixture, &at), "");
    w.health = HEALTH_UNHEALTHY;
    assert_int_equal(catalog_saw_fleet(fixture->catalog, &fleet), 0);
    assert_string_equal(changes_after(fixture, &at), "w1 ");

    int64_t session = add_session(fixture, STATE_RECORDING);
    struct target_record t = full_target(session);
    assert_int_equal(catalog_add_target(fixture->catalog, &t), 0);
    int64_t trace = add_trace(fixture, session, W1, 5, 1);
    assert_string_equal(changes_after(fixture, &at), "s1 g1 t1 ");
    assert_int_equal(catalog_pin_session(fixture->catalog, session, true), 0);
    catalog_add_event(fixture->catalog, "k", "a", session, RECORD_NONE, RECORD_NONE, "t");
    assert_string_equal(changes_after(fixture, &at), "s1 e1 ");
    set_sums(fixture, trace, "{\"findings\":[{\"rule\":\"r\"}]}", 0);
    assert_string_equal(changes_after(fixture, &at), "t1 ");
    /* What goes with a session is reported too; a deleted event is not. */
    assert_int_equal(catalog_remove_session(fixture->catalog, session), 0);
    assert_string_equal(changes_after(fixture, &at), "-t1 -g1 -s1 ");
    run_turn(fixture);
    execute(fixture->path, "delete from event_row");
    assert_string_equal(changes_after(fixture, &at), "");
    assert_int_equal(count(fixture, "select count(*) from change_row where kind = 'e'"), 0);
}

#define OPEN_TEST(fn) cmocka_unit_test_setup_teardown(fn, fixture_begin_open, fixture_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPEN_TEST(test_identity),      OPEN_TEST(test_rows_have_uuids),
        OPEN_TEST(test_refs),          OPEN_TEST(test_hosts),
        OPEN_TEST(test_leases),        OPEN_TEST(test_parts),
        OPEN_TEST(test_remote_traces), OPEN_TEST(test_sums),
        OPEN_TEST(test_kernel_sums),   OPEN_TEST(test_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
