/* SPDX-License-Identifier: Apache-2.0 */
/* The batches of changes that the mirror sends: their order, sizes, deletions, and values. */
#include "cmocka-all.h"

#include "catalog-fixture.h"
#include "daemon/catalog/changes.h"
#include <stdlib.h>

/* Committed, as a reader finds them. */
static void number_changes(struct catalog_fixture *f)
{
    int r;

    while ((r = catalog_number_changes(f->catalog)) > 0)
        run_turn(f);
    assert_int_equal(r, 0);
}

static json_t *read_changes(struct catalog_fixture *f, int64_t after, int64_t rows, size_t bytes,
                            struct changes *ret)
{
    const struct changes_request request = {
        .path = f->path, .after = after, .rows_max = rows, .bytes_max = bytes, .profd = "1.0"};
    struct problem p = {0};

    assert_int_equal(changes_read(&request, ret, &p), 0);
    json_t *j = ret->json ? json_loads(ret->json, 0, NULL) : NULL;
    assert_true(!ret->json == !j);
    changes_done(ret);
    problem_done(&p);
    return j;
}

static void nothing_is_no_batch(void **state)
{
    struct changes c;

    assert_null(read_changes(*state, 0, 10, 1000, &c));
    assert_int_equal(c.to, 0);
    assert_int_equal(c.rows, 0);
}

static void rows_come_in_order_and_once(void **state)
{
    struct catalog_fixture *f = *state;
    struct changes c;
    int64_t last;

    for (int i = 0; i < 7; i++)
        execute(f->path, "insert into event_row (at, kind, actor, text) values (1500, 'a', 'b', 'c')");
    number_changes(f);
    execute(f->path, "insert into router_row (url, dialect, first_seen_at, last_seen_at) values ('http://r', "
                     "'static', 5, 6)");
    execute(f->path, "update router_row set fleet = 'east'");
    json_t *first = read_changes(f, 0, 5, SIZE_MAX, &c);
    assert_int_equal(c.to, 5);
    assert_int_equal(json_array_size(json_object_get(first, "events")), 5);
    json_t *second = read_changes(f, c.to, 5, SIZE_MAX, &c);
    assert_int_equal(json_array_size(json_object_get(second, "events")), 2);
    const json_t *router = json_array_get(json_object_get(second, "routers"), 0);
    assert_string_equal(json_get_str(router, "fleet"), "east");
    assert_string_equal(json_get_str(router, "first_seen_at"), "1970-01-01T00:00:00.000000Z");
    assert_int_equal(catalog_changes_last(f->catalog, &last), 0);
    assert_true(c.to == last && c.last == last);
    assert_int_equal(json_get_int(second, "last", 0), last);
    assert_null(read_changes(f, c.to, 5, SIZE_MAX, &c));
    json_decref(first);
    json_decref(second);
}

static void deletions_are_ids(void **state)
{
    struct catalog_fixture *f = *state;
    struct changes c;

    execute(f->path, "insert into router_row (url, dialect, first_seen_at, last_seen_at) values ('http://r', "
                     "'static', 5, 6);"
                     "insert into event_row (at, kind, actor, text) values (1, 'a', 'b', 'c');"
                     "delete from router_row; delete from event_row");
    json_t *j = read_changes(f, 0, 100, SIZE_MAX, &c);
    json_t *deleted = json_object_get(j, "deleted");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(deleted, "routers"), 0)), 1);
    assert_null(json_object_get(deleted, "events"));
    assert_null(json_object_get(j, "events"));
    assert_int_equal(c.rows, 0);
    json_decref(j);
}

static void bytes_bound_a_batch(void **state)
{
    struct catalog_fixture *f = *state;
    struct changes c;

    for (int i = 0; i < 5; i++)
        execute(
            f->path,
            "insert into event_row (at, kind, actor, text) values (1, 'a', 'b', printf('%.*c', 1000, 'x'))");
    number_changes(f);
    json_decref(read_changes(f, 0, 100, 2500, &c));
    assert_int_equal(c.rows, 3);
    json_decref(read_changes(f, 0, 100, 1, &c)); /* one row may be larger */
    assert_int_equal(c.rows, 1);
}

static void texts_that_are_no_json_stay_texts(void **state)
{
    struct catalog_fixture *f = *state;
    struct changes c;

    execute(f->path,
            "insert into run_row (uuid, state, workload, targets, labels, requested_at, requested_by) values "
            "('u', 'failed', '{\"a\":\"\\u0000\"}', '[]', '{\"x\":\"\\ud800\"}', 1, cast(x'ff41' as text))");
    json_t *j = read_changes(f, 0, 100, SIZE_MAX, &c);
    const json_t *run = json_array_get(json_object_get(j, "runs"), 0);
    assert_true(json_is_array(json_object_get(run, "targets")));
    assert_true(json_is_string(json_object_get(run, "workload")));
    assert_true(json_is_string(json_object_get(run, "labels")));
    assert_string_equal(json_get_str(run, "requested_by"), "\xef\xbf\xbd"
                                                           "A");
    json_decref(j);
}

static void times_are_cut_to_microseconds(void **state)
{
    char text[CHANGES_TIME_MAX];

    assert_string_equal(changes_time(text, 1795168800123456789), "2026-11-20T10:00:00.123456Z");
    assert_string_equal(changes_time(text, 0), "1970-01-01T00:00:00.000000Z");
    assert_string_equal(changes_time(text, -1), "1969-12-31T23:59:59.999999Z");
    assert_string_equal(changes_time(text, -1000000000), "1969-12-31T23:59:59.000000Z");
    assert_string_equal(changes_time(text, INT64_MAX), "2262-04-11T23:47:16.854775Z");
    assert_string_equal(changes_time(text, INT64_MIN), "1677-09-21T00:12:43.145224Z");
}

static void what_is_behind_is_counted(void **state)
{
    struct catalog_fixture *f = *state;
    int64_t n, oldest;

    assert_int_equal(catalog_changes_behind(f->catalog, 0, &n, &oldest), 0);
    assert_int_equal(n, 0);
    execute(f->path,
            "insert into event_row (at, kind, actor, text) values (1, 'a', 'b', 'c'), (1, 'a', 'b', 'c')");
    assert_int_equal(catalog_changes_behind(f->catalog, 0, &n, &oldest), 0);
    assert_int_equal(n, 2); /* also those that have no number yet */
    number_changes(f);
    assert_int_equal(catalog_changes_behind(f->catalog, 1, &n, &oldest), 0);
    assert_int_equal(n, 1);
    assert_true(oldest > 0);
}

#define ADD_TRACES                                                                                           \
    "insert into trace_row (uuid, kind, state, name, path, origin, stored, size, recorded_at, "              \
    "collected_at) "                                                                                         \
    "select 'u' || value, 'trace', 'complete', 'n', '/' || value, '/' || value, 0, 1, 1, 1 from "            \
    "json_each('[1,2,3,4]')"

/* Imports write traces and events: they are spared what nobody reads. */
static void rows_without_readers_have_no_numbers(void **state)
{
    struct catalog_fixture *f = *state;
    struct changes c;

    execute(f->path, ADD_TRACES);
    execute(f->path, "insert into event_row (at, kind, actor, text) values (1, 'a', 'b', 'c')");
    execute(f->path, "update trace_row set size = 2; delete from trace_row where trace_id = 2");
    assert_int_equal(ask(f->path, "select count(*) from change_row"), 0);

    number_changes(f);
    assert_int_equal(
        ask(f->path,
            "select group_concat(kind || id, '') = 't1t3t4e1' from (select * from change_row order by seq)"),
        1);
    /* From now on they get the next number with each change, and their end is reported. */
    execute(f->path,
            "update trace_row set size = 3 where trace_id = 1; delete from trace_row where trace_id = 3");
    json_t *j = read_changes(f, 4, 100, SIZE_MAX, &c);
    assert_int_equal(json_array_size(json_object_get(j, "traces")), 1);
    assert_int_equal(json_array_size(json_object_get(json_object_get(j, "deleted"), "traces")), 1);
    json_decref(j);
    execute(f->path, ADD_TRACES " where value = 7");
    assert_int_equal(ask(f->path, "select count(*) from change_row where kind = 't'"), 3);
    number_changes(f);
    assert_int_equal(catalog_number_changes(f->catalog), 0);
}

/* A crash between the numbers and their commit: they are given again. */
static void numbers_and_mark_are_of_one_commit(void **state)
{
    struct catalog_fixture *f = *state;
    struct changes c;

    execute(f->path, "insert into event_row (at, kind, actor, text) values (1, 'a', 'b', 'c')");
    assert_int_equal(catalog_number_changes(f->catalog), 1);
    assert_int_equal(
        ask(f->path, "select (select count(*) from change_row) + (select sum(id) from change_mark)"), 0);
    fixture_reopen(f);
    number_changes(f);
    json_t *j = read_changes(f, 0, 100, SIZE_MAX, &c);
    assert_int_equal(json_array_size(json_object_get(j, "events")), 1);
    json_decref(j);
}

/* Many, in steps, over ids that are gone long since, and those that remote traces took. */
static void numbering_goes_in_steps(void **state)
{
    struct catalog_fixture *f = *state;

    execute(f->path,
            "insert into event_row (event_id, at, kind, actor, text) "
            "with recursive n (i) as (select 5000000 union all select i + 1 from n where i < 5002499) "
            "select i, 1, 'a', 'b', 'c' from n");
    execute(f->path, "insert into sqlite_sequence (name, seq) values ('trace_row', 3000000)");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(catalog_number_changes(f->catalog), 1);
        run_turn(f);
    }
    assert_int_equal(catalog_number_changes(f->catalog), 0);
    assert_int_equal(ask(f->path, "select count(*) from change_row"), 2500);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_begin_open, fixture_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_no_batch),
        TEST(rows_come_in_order_and_once),
        TEST(deletions_are_ids),
        TEST(bytes_bound_a_batch),
        TEST(what_is_behind_is_counted),
        TEST(rows_without_readers_have_no_numbers),
        TEST(numbers_and_mark_are_of_one_commit),
        TEST(numbering_goes_in_steps),
        TEST(texts_that_are_no_json_stay_texts),
        cmocka_unit_test(times_are_cut_to_microseconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
