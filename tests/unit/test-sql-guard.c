/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection that others write statements for may not do: write, and take long. */
#include "base/clock.h"
#include "tests/unit/sql-fixture.h"
#include "tests/unit/sql-small.h"

static void test_connection_can_only_read(void **state)
{
    static const char *const refused[] = {
        "attach ':memory:' as x",
        "detach main",
        "select load_extension('/tmp/x.so')",
        "select fts3_tokenizer('simple')",
        "select sqlite_log(1, 'x')",
        "create table t(a)",
        "create temp table t(a)",
        "create view v as select 1",
        "create virtual table v using dbstat",
        "insert into slice(id) values (1)",
        "update slice set id = 1",
        "delete from slice",
        "update sqlite_master set type = 'x'",
        "insert into sqlite_master(type) values ('x')",
        "drop table slice",
        "pragma temp_store_directory = '/tmp'",
        "pragma writable_schema = on",
        "pragma journal_mode = off",
        "pragma trusted_schema = on",
        "begin",
        "savepoint x",
        "vacuum into '/tmp/x'",
        "analyze",
        "select zeroblob(20000000)",
    };
    static const char *const allowed[] = {
        "pragma table_info(slice)",
        "select name from pragma_table_xinfo('thread')",
        "pragma table_list",
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 9) select * from n",
        "select json_extract('[1]', '$[0]'), printf('%d', 5)",
    };
    struct read_result r = read_text(small);
    sqlite3 *db = sql_over(&r);

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        _cleanup_(freep) char *answer = ask(db, refused[i]);

        if (!is_error(answer))
            print_message("%s\n", refused[i]);
        assert_true(is_error(answer));
    }
    for (size_t i = 0; i < ARRAY_SIZE(allowed); i++) {
        _cleanup_(freep) char *answer = ask(db, allowed[i]);

        assert_false(is_error(answer));
    }
    sqlite3_close(db);
    read_result_free(&r);
}

static int is_late(void *arg)
{
    const int64_t *deadline_ns = arg;
    return mono_ns() >= *deadline_ns;
}

static void test_time_limit(void **state)
{
    static const char endless[] =
        "with recursive n(i) as (select 1 union all select 1 from n) select count(*) from n";
    struct read_result r = read_text(small);
    sqlite3 *db = NULL;

    int64_t deadline_ns;

    assert_int_equal(
        sql_open((struct sql_source){.open = open_read_result, .arg = &r}, is_late, &deadline_ns, &db), 0);
    for (int i = 0; i < 2; i++) {
        _cleanup_(freep) char *answer = NULL;

        deadline_ns = mono_ns() + 20 * NS_PER_MS;
        answer = ask(db, endless);
        assert_string_equal(answer, "error: interrupted");
        assert_int_equal(sqlite3_errcode(db), SQLITE_INTERRUPT);
    }
    deadline_ns = DEADLINE_NEVER;
    assert_answer(db, "select 1", "1\n");
    sqlite3_close(db);
    read_result_free(&r);
}

/* The table is looked through for what is not in it, without a step of SQLite's machine meanwhile. */
static void test_time_limit_within_a_table(void **state)
{
    static const char *const queries[] = {
        "select count(*) from slice where name = 'absent' or track_id < 0",
        "select count(*) from args",
        "select name, count(*) from slice group by name",
    };
    int fd = memfd_create("columns", MFD_CLOEXEC);
    _cleanup_(columns_writer_freep) struct columns_writer *w = NULL;
    struct read_result large = {.columns_fd = fd, .source_fd = -1};
    sqlite3 *db = NULL;

    assert_int_equal(columns_writer_new(fd, &w), 0);
    columns_put_text(w, "name", 4);
    for (int64_t i = 0; i < 1000000; i++) {
        columns_put(w, COL_slice_ts, i);
        columns_put(w, COL_slice_name, 0);
        columns_put(w, COL_slice_offset, i);
        columns_put(w, COL_slice_flags, SLICE_HAS_ARGS);
        columns_put(w, COL_by_name_slice, i);
        columns_put(w, COL_name_name, 0);
        columns_put(w, COL_name_first, i);
        columns_put(w, COL_name_count, 1);
    }
    assert_int_equal(columns_writer_finish(w, false, NULL), 0);
    int64_t past_ns = 0;
    assert_int_equal(
        sql_open((struct sql_source){.open = open_read_result, .arg = &large}, is_late, &past_ns, &db), 0);
    sqlite3_progress_handler(db, 0, NULL, NULL);
    for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
        _cleanup_(freep) char *answer = NULL;

        answer = ask(db, queries[i]);
        assert_string_equal(answer, "error: interrupted");
        assert_int_equal(sqlite3_errcode(db), SQLITE_INTERRUPT);
    }
    sqlite3_close(db);
    closep(&fd);
}

/* Times that no trace has, but a file may: what is computed of them stops at the ends of the range. */
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connection_can_only_read),
        cmocka_unit_test(test_time_limit),
        cmocka_unit_test(test_time_limit_within_a_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
