/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "tests/unit/sql-fixture.h"
#include "tests/unit/sql-small.h"
#include "trace/columns/writer.h"

static void test_tables_of_perfetto(void **state)
{
    struct read_result r = read_text(small);
    sqlite3 *db = sql_over(&r);

    assert_answer(
        db, "select id, ts, dur, category, name, depth, parent_id, arg_set_id, cat, slice_id from slice",
        "0|10000|100000|cpu_op|outer|0||0|cpu_op|0\n"
        "1|20500|30000|cpu_op|inner|1|0||cpu_op|1\n"
        "2|25000|5000|cuda_runtime|cudaLaunchKernel|2|1|2|cuda_runtime|2\n"
        "3|30000|0|cpu_instant_event|[memory]|2|1|3|cpu_instant_event|3\n"
        "4|40000|10250|kernel|gemm|0||4|kernel|4\n"
        "5|60000|2000|gpu_memcpy|Memcpy HtoD|0||5|gpu_memcpy|5\n"
        "6|70000|3000|kernel|gemm|0||6|kernel|6\n");
    assert_answer(db, "select self_dur from slice where id < 3", "70000\n25000\n5000\n");
    assert_answer(db,
                  "select thread.name, process.name, tid, pid, is_main_thread, count(*) from slice "
                  "join thread_track on track_id = thread_track.id join thread using (utid) "
                  "join process using (upid) group by utid order by tid",
                  "main|python|1|1|1|4\n|python|7|1|0|3\n");
    assert_answer(db, "select slice_out, slice_in, trace_id, name from flow", "2|4|11|ac2g\n");
    assert_answer(db,
                  "select ts, value, counter_track.name from counter join counter_track on track_id = "
                  "counter_track.id",
                  "33000|2.5|load v\n");
    assert_answer(db, "select int_value from metadata where name = 'events'", "10\n");
    assert_answer(db, "select count(*) from stats", "0\n");
    sqlite3_close(db);
    read_result_free(&r);
}

static void test_tables_of_ours(void **state)
{
    struct read_result r = read_text(small);
    sqlite3 *db = sql_over(&r);

    assert_answer(
        db,
        "select id, ts, dur, name, stream, device, correlation, launch_id, grid_x, grid_z, blocks_per_sm "
        "from kernel",
        "4|40000|10250|gemm|7|0|11|2|1|3|1.5\n6|70000|3000|gemm|7||||||\n");
    assert_answer(
        db, "select gpu_id, launch_id, name, launch_name, launch_ts, launch_dur, gpu_ts, delay from launch",
        "4|2|gemm|cudaLaunchKernel|25000|5000|40000|10000\n");
    assert_answer(db, "select id, name, dims, external_id from op", "0|outer|[[2,3],[],[4]]|7\n1|inner||\n");
    assert_answer(db, "select id, ts, address, bytes, total_allocated from memory", "3|30000|139|512|1024\n");
    assert_answer(db, "select ts, name, prev_name, diff from gap",
                  "40000|gemm||\n60000|Memcpy HtoD|gemm|9750\n70000|gemm|Memcpy HtoD|8000\n");
    assert_answer(db,
                  "select category, name, count, sum_dur, min_dur, max_dur, avg_dur from name_stat "
                  "where category = 'kernel'",
                  "kernel|gemm|2|13250|3000|10250|6625.0\n");
    assert_answer(db, "select id from descendant_slice(0)", "1\n2\n3\n");
    assert_answer(db, "select id from descendant_slice(1) where ts > 25000", "3\n");
    assert_answer(db, "select id from ancestor_slice(3)", "1\n0\n");
    assert_answer(db, "select id from descendant_slice(4)", "");
    assert_answer(db, "select id from descendant_slice(99)", "");
    assert_answer(db, "select id from ancestor_slice(-1)", "");
    sqlite3_close(db);
    read_result_free(&r);
}

static void test_arguments(void **state)
{
    struct read_result r = read_text("[" X("c", "n", "1", "1", "1") ARGS(
        "\"a\":{\"b\":[1,null,{\"c\":\"x\"}],\"e\":[],\"n\":null},\"s\":\"q\\\"\\u00e9\\ud83d\\ude00\\n\\p\","
        "\"t\":true,\"f\":-1.5e2,\"big\":18446744073709551615,\"nan\":NaN,\"twice\":1,\"twice\":2,\"k\\\"y\":"
        "0,"
        "\"deep\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[7]]]]]]]]]]]]]]]]]]]]]]]]"
        "]]]]]]]]]]]"
        "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]") "{\"ph\":\"X\",\"name\":\"m\",\"pid\":1,\"tid\":1,\"ts\":9,"
                                           "\"dur\":1,\"args\":{}}]");
    sqlite3 *db = sql_over(&r);

    assert_answer(
        db,
        "select flat_key, key, int_value, string_value, real_value, value_type, display_value from args "
        "where flat_key <> 'args.deep'",
        "args.a.b|args.a.b[0]|1|||int|1\n"
        "args.a.b.c|args.a.b[1].c||x||string|x\n"
        "args.s|args.s||q\"\xc3\xa9\xf0\x9f\x98\x80\n\\p||string|q\"\xc3\xa9\xf0\x9f\x98\x80\n\\p\n"
        "args.t|args.t|1|||bool|true\n"
        "args.f|args.f|||-150.0|real|-150.0\n"
        "args.big|args.big||18446744073709551615||string|18446744073709551615\n"
        "args.nan|args.nan||NaN||string|NaN\n"
        "args.twice|args.twice|2|||int|2\n"
        "args.k\"y|args.k\"y|0|||int|0\n");
    assert_answer(db, "select value_type, string_value from args where flat_key = 'args.deep'",
                  "json|[[[7]]]\n");
    assert_answer(db, "select count(distinct id), count(*) from args", "10|10\n");
    assert_answer(db,
                  "select extract_arg(arg_set_id, 'args.a.b[1].c'), extract_arg(arg_set_id, 't'), "
                  "extract_arg(arg_set_id, 'f'), extract_arg(arg_set_id, 'none') from slice",
                  "x|1|-150.0|\n|||\n");
    sqlite3_close(db);
    read_result_free(&r);
}

/* One text is one text, wherever a trace has it: half of a pair, what is not UTF-8, escapes that nobody
 * knows. */
static void test_a_text_is_the_same_as_name_and_as_argument(void **state)
{
#define ODD "x\\ud800y\\udc00\xffz\\q"
    struct read_result r = read_text("[" X("c", ODD, "1", "1", "1") ARGS("\"a\":\"" ODD "\",\"no\":1.") "]");
    sqlite3 *db = sql_over(&r);

    assert_answer(db, "select string_value = (select name from slice) from args where key = 'args.a'", "1\n");
    assert_answer(db, "select value_type from args where key = 'args.no'", "string\n");
    sqlite3_close(db);
    read_result_free(&r);
#undef ODD
}

/* What stands in columns is read from there; what could be meant otherwise is looked up. */
static void test_known_arguments(void **state)
{
    struct read_result r = read_text(small);
    sqlite3 *db = sql_over(&r);

    assert_answer(
        db,
        "select extract_arg(arg_set_id, 'args.correlation'), extract_arg(arg_set_id, 'stream'), "
        "extract_arg(arg_set_id, 'args.grid[1]'), extract_arg(arg_set_id, 'args.grid'), "
        "extract_arg(arg_set_id, 'args.blocks per SM'), extract_arg(arg_set_id, 'args.Input Dims'), "
        "extract_arg(arg_set_id, 'args.Input Dims[0][1]') from slice where id in (0, 1, 2, 4)",
        "||||||3\n||||||\n11||||||\n11|7|2||1.5||\n");
    sqlite3_close(db);

    /* Without the original there are the columns, where arrays are one text. */
    close(TAKE_FD(r.source_fd));
    db = sql_over(&r);
    assert_answer(db, "select key, int_value, string_value, real_value from args where arg_set_id in (0, 4)",
                  "args.External id|7||\n"
                  "args.Input Dims||[[2,3],[],[4]]|\n"
                  "args.correlation|11||\n"
                  "args.stream|7||\n"
                  "args.device|0||\n"
                  "args.blocks per SM|||1.5\n"
                  "args.grid[0]|1||\nargs.grid[1]|2||\nargs.grid[2]|3||\n");
    assert_answer(db, "select extract_arg(0, 'Input Dims'), extract_arg(4, 'stream')", "[[2,3],[],[4]]|7\n");
    sqlite3_close(db);
    r.source_fd = memory_file("something else", 14);
    db = sql_over(&r);
    assert_answer(db, "select extract_arg(0, 'Input Dims')", "[[2,3],[],[4]]\n");
    sqlite3_close(db);
    read_result_free(&r);
}

static void test_numbers_stop_at_the_ends(void **state)
{
    static const int64_t times[] = {-INT64_MAX, 5, INT64_MAX, INT64_MAX},
                         durs[] = {INT64_MAX, COLUMN_NULL, 1, 1};
    int fd = memfd_create("columns", MFD_CLOEXEC);
    _cleanup_(columns_writer_freep) struct columns_writer *w = NULL;
    struct read_result extreme = {.columns_fd = fd, .source_fd = -1};
    sqlite3 *db = NULL;

    assert_int_equal(columns_writer_new(fd, &w), 0);
    columns_put_text(w, "kernel", 6);
    for (int64_t i = 0; i < (int64_t)ARRAY_SIZE(times); i++) {
        columns_put(w, COL_slice_ts, times[i]);
        columns_put(w, COL_slice_dur, durs[i]);
        columns_put(w, COL_slice_child, -INT64_MAX);
        columns_put(w, COL_slice_name, 0);
        columns_put(w, COL_slice_category, 0);
        columns_put(w, COL_slice_offset, i);
    }
    assert_int_equal(columns_writer_finish(w, false, NULL), 0);
    db = sql_over(&extreme);
    assert_answer(db, "select diff from gap order by ts", "\n0\n\n-1\n");
    assert_answer(db, "select self_dur from slice",
                  "9223372036854775807\n\n9223372036854775807\n9223372036854775807\n");
    sqlite3_close(db);
    closep(&fd);
}

static void test_round_by_what_is_there(void **state)
{
    struct read_result r = read_text(small);
    sqlite3 *db = sql_over(&r);

    assert_answer(
        db,
        "select round(0.045, 2), round(0.125, 2), round(-0.125, 2), round(2.5), round(-2.5), "
        "round(9.999, 2), round(99.995, 2), round(12.345, 1), round(null, 1), round(1, null), round(7), "
        "round('2.5x'), round(1e300, 2) = 1e300, round(1e-320, 5), round(123.4, -1)",
        "0.04|0.13|-0.13|3.0|-3.0|10.0|100.0|12.3|||7.0|3.0|1|0.0|123.0\n");
    sqlite3_close(db);
    read_result_free(&r);
}

/* A catalog of two traces, 5 and 7, among as many others as do not stay open. */
#define TRACES 20

struct shelf {
    struct read_result results[TRACES];
    unsigned opened;
};

static int open_of_shelf(void *arg, int64_t trace_id, int *ret_columns_fd, int *ret_source_fd,
                         char **ret_error)
{
    struct shelf *s = arg;

    if (trace_id < 1 || trace_id > TRACES) {
        *ret_error = xasprintf("trace %d is not there", (int)trace_id);
        return -ENOENT;
    }
    s->opened++;
    return open_read_result(&s->results[trace_id - 1], trace_id, ret_columns_fd, ret_source_fd, ret_error);
}

static int list_shelf(void *arg, int64_t **ret_ids, size_t *ret_n, char **ret_error)
{
    *ret_ids = xcalloc(TRACES, sizeof(**ret_ids));
    *ret_n = TRACES;
    for (size_t i = 0; i < TRACES; i++)
        (*ret_ids)[i] = (int64_t)i + 1;
    return 0;
}

static void test_catalog(void **state)
{
    static struct shelf shelf;
    sqlite3 *db = NULL;

    for (unsigned i = 0; i < TRACES; i++) {
        _cleanup_(freep) char *text =
            xasprintf("[" X("kernel", "k%u", "7", "%u", "2") ARGS("\"stream\":%u,\"other\":\"o%u\"")
                          X("kernel", "same", "7", "100", "1")
                              ARGS("\"stream\":%u") "{\"ph\":\"s\",\"id\":3,\"pid\":1,\"tid\":7,\"ts\":1,"
                                                    "\"cat\":\"c\",\"name\":\"n\"}]",
                      i + 1, i, i + 1, i + 1, i + 1);

        shelf.results[i] = read_text(text);
    }
    shelf.opened = 0;
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(
        sql_register(db, (struct sql_source){.open = open_of_shelf, .list = list_shelf, .arg = &shelf}),
        SQLITE_OK);

    assert_answer(db, "select name, trace_id from slice where trace_id = 5", "k5|5\nsame|5\n");
    assert_answer(db, "select name, count(*) from slice where trace_id = 5 group by name order by name",
                  "k5|1\nsame|1\n");
    assert_int_equal(shelf.opened, 1);
    assert_answer(db, "select name from slice where trace_id in (7, 5) and ts < 50000 order by name",
                  "k5\nk7\n");
    assert_answer(db, "select name from slice where trace_id > 18 and ts < 50000 order by name",
                  "k19\nk20\n");
    assert_answer(db, "select name from slice where trace_id = 5 and trace_id = 7", "");
    assert_answer(db, "select name from slice where trace_id = null", "");
    assert_answer(db, "select count(*), count(distinct name), count(distinct trace_id), max(name) from slice",
                  "40|21|20|same\n");
    assert_answer(db, "select name, count(*) from slice group by name having count(*) > 1", "same|20\n");
    assert_answer(db, "select distinct name from slice where name = 'same'", "same\n");
    assert_answer(db, "select name from slice order by ts, name limit 3", "k1\nk2\nk3\n");
    assert_answer(
        db, "select count(*) from slice where (id = 0 and trace_id = 2) or (name = 'k3' and trace_id = 3)",
        "2\n");
    assert_answer(db, "select count(distinct rowid) from slice", "40\n");
    assert_answer(db, "select * from slice where trace_id = 99", "error: trace 99 is not there");
    assert_answer(db, "select flow_trace_id from flow where trace_id = 1", "");
    assert_answer(db, "select name from pragma_table_xinfo('flow') where name like '%trace_id' order by 1",
                  "flow_trace_id\ntrace_id\n");

    /* The number of arguments says which trace they are of. */
    assert_answer(
        db,
        "select extract_arg(arg_set_id, 'stream'), extract_arg(arg_set_id, 'other') from slice where name "
        "in ('k5', 'k7') order by 1",
        "5|o5\n7|o7\n");
    assert_answer(
        db,
        "select int_value, args.trace_id from slice join args using (arg_set_id) where name = 'k7' and key = "
        "'args.stream'",
        "7|7\n");
    assert_answer(db, "select count(*) from args", "60\n");
    assert_answer(db, "select string_value from args where trace_id = 3 and string_value is not null",
                  "o3\n");
    assert_answer(db,
                  "select s.name from kernel k join slice s on s.id = k.id and s.trace_id = k.trace_id "
                  "where k.trace_id between 2 and 3 and s.name <> 'same'",
                  "k2\nk3\n");
    assert_answer(db, "select id from descendant_slice(0, 4)", "");
    sqlite3_close(db);
    for (unsigned i = 0; i < TRACES; i++)
        read_result_free(&shelf.results[i]);
}

/* Whatever byte of the columns is wrong: the answer is the same, or an error, never another one. */
static void test_damage_is_reported(void **state)
{
    static const char *const queries[] = {
        "select id, ts, dur, track_id, category, name, depth, parent_id, self_dur, file_offset from slice",
        "select name, sum(dur) from slice where category = 'kernel' group by name",
        "select id from slice where track_id = 1 and ts > 30000",
        "select key, display_value from args",
        "select ts, name, prev_name, diff from gap",
        "select name, stream, launch_id from kernel",
        "select thread.name, tid, pid from thread join process using (upid)",
        "select extract_arg(arg_set_id, 'stream') from slice limit 3",
    };
    struct read_result sound = read_text(small);
    sqlite3 *db = sql_over(&sound);
    char *expected[ARRAY_SIZE(queries)];
    _cleanup_(freep) char *copy = xcalloc(1, sound.columns_size);
    unsigned told = 0;

    for (size_t i = 0; i < ARRAY_SIZE(queries); i++)
        expected[i] = ask(db, queries[i]);
    sqlite3_close(db);
    memcpy(copy, sound.columns, sound.columns_size);
    for (size_t at = 0; at < sound.columns_size; at += 13) {
        struct read_result damaged = {.source_fd = -1};

        copy[at] ^= 0x55;
        damaged.columns_fd = memory_file(copy, sound.columns_size);
        damaged.source_fd = duplicate_fd(sound.source_fd);
        copy[at] ^= 0x55;
        db = sql_over(&damaged);
        for (size_t i = 0; i < ARRAY_SIZE(queries); i++) {
            _cleanup_(freep) char *answer = ask(db, queries[i]);

            if (is_error(answer)) {
                assert_non_null(strstr(answer, "profctl ingest --again"));
                told++;
            } else {
                assert_string_equal(answer, expected[i]);
            }
        }
        sqlite3_close(db);
        read_result_free(&damaged);
    }
    assert_true(told > 0);
    for (size_t i = 0; i < ARRAY_SIZE(queries); i++)
        free(expected[i]);
    read_result_free(&sound);
}

static void test_every_table_has_its_columns(void **state)
{
    struct read_result r = read_text(small);
    sqlite3 *db = sql_over(&r);

    for (size_t i = 0; sql_table_name(i); i++) {
        bool needs_slice = strstr(sql_table_name(i), "_slice");
        _cleanup_(freep) char *query =
            xasprintf("select * from %s%s", sql_table_name(i), needs_slice ? "(0)" : "");
        _cleanup_(freep) char *count =
            xasprintf("select count(*) < 62 from pragma_table_xinfo('%s')", sql_table_name(i));
        _cleanup_(freep) char *answer = ask(db, query);

        assert_false(is_error(answer));
        /* As many as a plan and SQLite's set of used columns can tell apart. */
        assert_answer(db, count, "1\n");
    }
    assert_null(sql_table_name(1000));
    sqlite3_close(db);
    read_result_free(&r);
}

static void test_empty_trace(void **state)
{
    struct read_result r = read_text("{\"traceEvents\":[{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,"
                                     "\"args\":{\"name\":\"x\"}}]}");
    sqlite3 *db = sql_over(&r);

    assert_answer(db, "select count(*), sum(dur) from slice", "0|\n");
    assert_answer(db,
                  "select name, count(*) from slice where (category = 'kernel' OR category = 'gpu_memcpy') "
                  "group by name",
                  "");
    assert_answer(db, "select * from gap", "");
    assert_answer(db, "select * from slice where name = 'x' and track_id = 0 order by ts desc", "");
    assert_answer(db, "select * from args", "");
    assert_answer(db, "select extract_arg(0, 'x'), extract_arg(-1, 'x'), extract_arg(null, 'x')", "||\n");
    assert_answer(db, "select extract_arg('x', 'x')",
                  "error: extract_arg: the first argument should be an arg_set_id");
    sqlite3_close(db);
    read_result_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables_of_perfetto),
        cmocka_unit_test(test_tables_of_ours),
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_a_text_is_the_same_as_name_and_as_argument),
        cmocka_unit_test(test_known_arguments),
        cmocka_unit_test(test_numbers_stop_at_the_ends),
        cmocka_unit_test(test_round_by_what_is_there),
        cmocka_unit_test(test_catalog),
        cmocka_unit_test(test_damage_is_reported),
        cmocka_unit_test(test_every_table_has_its_columns),
        cmocka_unit_test(test_empty_trace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
