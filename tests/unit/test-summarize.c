/* SPDX-License-Identifier: Apache-2.0 */
/* Statements on sums give the rows of the same statements on slices, in the same order; all others are left alone. */
#include "tests/unit/sql-fixture.h"
#include "trace/sql/summarize.h"

#define STATEMENTS 3000

static uint64_t seed = 1;

static unsigned draw(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(seed >> 33) % n;
}

#define DRAW(words) words[draw(ARRAY_SIZE(words))]

/* Slices that nest, repeat, share times, lack categories or ends. */
static char *random_trace(void)
{
    static const char *const categories[] = {"kernel", "Kernel",          "gpu_memcpy", "cpu_op",
                                             NULL,     "user_annotation", "kernel"};
    static const char *const names[] = {"a", "b", "B", "c c", "5", "5.0", "", "\303\251", "it's"};
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    fputc('[', f);
    for (int i = 0; i < 3000; i++) {
        const char *category = DRAW(categories);

        fprintf(f, "{\"ph\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":%u,\"ts\":%u,\"dur\":%u%s%s%s},",
                draw(50) == 0 ? "B" : "X", DRAW(names), draw(5), i / 2, draw(4),
                category ? ",\"cat\":\"" : "", category ? category : "", category ? "\"" : "");
    }
    fputs("{}]", f);
    fclose(f);
    return text;
}

/* Names, types and values. The result code follows. */
static char *rows_of(sqlite3_stmt *s)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int r;

    for (int i = 0; i < sqlite3_column_count(s); i++)
        fprintf(f, "%s|", sqlite3_column_name(s, i));
    while ((r = sqlite3_step(s)) == SQLITE_ROW) {
        fputc('\n', f);
        for (int i = 0; i < sqlite3_column_count(s); i++) {
            const char *value = (const char *)sqlite3_column_text(s, i);

            fprintf(f, "%d:%s|", sqlite3_column_type(s, i), value ? value : "");
        }
    }
    fprintf(f, "\n%d\n", r);
    fclose(f);
    return text;
}

/* Whether there is a faster statement that succeeds. */
static bool assert_same_rows(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL, *faster;
    bool succeeds = false;

    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    faster = sql_prepare_faster(db, statement);
    if (faster) {
        _cleanup_(freep) char *expected = rows_of(statement), *rows = rows_of(faster);

        succeeds = !ends_with(rows, "\n1\n");
        if (succeeds && !streq(expected, rows))
            print_message("%s\n%s\n", sql, sqlite3_sql(faster));
        if (succeeds)
            assert_string_equal(expected, rows);
    }
    sqlite3_finalize(faster);
    sqlite3_finalize(statement);
    return succeeds;
}

static const char *const conditions[] = {
    "category = 'kernel'",
    "category IN ('kernel', 'cpu_op', NULL)",
    "category is null",
    "category is not null or depth = 1",
    "name like '%b%'",
    "name glob '*c*' and category <> 'cpu_op'",
    "not name = 'b'",
    "name > 'a' or name = 5",
    "name in ('a', 'it''s')",
    "length(name) = 1",
    "lower(name) = 'b'",
    "track_id = 1",
    "track_id in (0, 2) and depth < 2.5",
    "ts >= 700000 and ts < 720000",
    "ts between 700000 and '900000.5'",
    "ts > 300000 and dur > 1000 and name < 'c'",
    "ts = 700000",
    "ts in (700000, 710000, 700000)",
    "ts < 'x'",
    "ts > null",
    "ts < 500000 or ts > 900000",
    "dur = 3000",
    "dur in (-1, 2000)",
    "dur < 0",
    "dur is null",
    "dur > 1e300",
    "dur >= 1999.5 and category = 'Kernel'",
    "dur > 1000 or name = 'a'",
    "dur % 2 = 0",
    "case when depth then name else category end = 'a'",
    "depth = 99",
};

static char *random_statement(void)
{
    static const char *const tables[] = {"slice", "slice", "Slices", "kernel", "op", "annotation"};
    static const char *const groups[] = {
        "",      "name",           "category",       "track_id",
        "depth", "name, category", "category, name", "track_id, depth, name"};
    static const char *const items[] = {"count(*)",
                                        "COUNT ( name )",
                                        "count(category)",
                                        "count(dur)",
                                        "sum(dur)",
                                        "total(dur)",
                                        "avg(dur)",
                                        "min(dur)",
                                        "max(dur)",
                                        "min(ts)",
                                        "max(ts) - min(ts)",
                                        "sum(dur) / 1e3",
                                        "round(avg(dur), 1)",
                                        "sum(dur) * 100.0 / count(*)",
                                        "-count(*)",
                                        "'it''s' || count(*)",
                                        "case when count(*) > 10 then 'many' else 'few' end",
                                        "iif(sum(dur) > 1000, max(dur), null)"};
    static const char *const orders[] = {"",
                                         " order by 1",
                                         " order by 2 desc",
                                         " order by n desc",
                                         " order by n / 2, 1",
                                         " order by sum(dur) desc",
                                         " order by count(*) desc nulls last, 1 desc",
                                         " order by max(dur)"};
    static const char *const havings[] = {"", "", " having count(*) > 20", " having n between 5 and 100",
                                          " having sum(dur) is not null"};
    static const char *const limits[] = {"", "", " limit 3", " limit 5 offset 2", " limit 2, 4;"};
    const char *group = DRAW(groups), *condition = DRAW(conditions), *table = DRAW(tables);
    bool has_where = draw(3) > 0;

    return xasprintf("select %s%s %s, %s as n, %s from %s%s%s%s%s%s%s%s%s%s", group, *group ? "," : "",
                     DRAW(items), DRAW(items), DRAW(items), table, has_where ? "\nwhere (" : "",
                     has_where ? condition : "", has_where ? ") and " : "", has_where ? DRAW(conditions) : "",
                     *group ? " group by " : "", group, *group ? DRAW(havings) : "", DRAW(orders),
                     DRAW(limits));
}

static void test_sums_change_nothing(void **state)
{
    _cleanup_(freep) char *text = random_trace();
    struct read_result r = read_text(text);
    sqlite3 *db = sql_over(&r);
    unsigned faster = 0;

    for (int i = 0; i < STATEMENTS; i++) {
        _cleanup_(freep) char *sql = random_statement();

        faster += assert_same_rows(db, sql);
    }
    print_message("%u of %u statements are faster\n", faster, STATEMENTS);
    assert_true(faster > STATEMENTS / 2);
    sqlite3_close(db);
    read_result_free(&r);
}

static void test_usual_statements_are_faster(void **state)
{
    static const char *const statements[] = {
        "SELECT name, count(*), sum(dur) FROM slice GROUP BY name",
        "SELECT name, count(*), sum(dur) FROM kernel GROUP BY name ORDER BY 3 DESC LIMIT 10;",
        "select count(*) from slice",
        "select count(*), sum(dur) from slice where ts >= 700000 and ts < 900000",
        "select category, avg(dur) / 1e3 as us from slice group by category having us > 1 order by us desc",
        "select min(ts), max(ts) from slices where dur > 1000",
    };
    _cleanup_(freep) char *text = random_trace();
    struct read_result r = read_text(text);
    sqlite3 *db = sql_over(&r);

    for (size_t i = 0; i < ARRAY_SIZE(statements); i++)
        assert_true(assert_same_rows(db, statements[i]));
    sqlite3_close(db);
    read_result_free(&r);
}

static void test_other_statements_are_left_alone(void **state)
{
    static const char *const statements[] = {
        "select name from slice",
        "select name from slice group by name",
        "select name, count(*) from slice",
        "select category, count(*) from slice group by name",
        "select name, count(*) from slice group by 1",
        "select name, count(*) from slice group by lower(name)",
        "select name, count(*) from slice group by name collate nocase",
        "select count(*) name from slice",
        "select count(*) as dur from slice order by dur + 1",
        "select count(*) as \"n\" from slice",
        "select name as n, count(*) from slice where n > 'a' group by name",
        "select distinct count(*) from slice",
        "select count(distinct name) from slice",
        "select count(*) filter (where dur > 0) from slice",
        "select count(*) over () from slice",
        "select sum(dur + 1) from slice",
        "select sum(ts) from slice",
        "select max(dur, 5), count(*) from slice group by dur",
        "select max(name) from slice",
        "select group_concat(name), count(*) from slice group by name",
        "select name, max(dur), ts from slice group by name",
        "select (select count(*) from slice)",
        "select count(*) from slice s",
        "select count(slice.name) from slice",
        "select count(*) from slice, track",
        "select count(*) from slice join track on track_id = track.id",
        "select count(*) from (select * from slice)",
        "select count(*) from slice where name in (select name from track)",
        "select count(*) from slice where random() > 0",
        "select count(*) from slice where \"name\" = 'a'",
        "select count(*) from slice where name = ?",
        "select count(*) from slice where name = x'61'",
        "select count(*) from slice where parent_id = 1",
        "select count(*) from slice -- all\n",
        "select /* all */ count(*) from slice",
        "select count(*) from slice union select 1",
        "with s as (select 1) select count(*) from slice",
        "values (1)",
        "explain select count(*) from slice",
        "select count(*) from gap",
        "select count(*) from descendant_slice(0)",
        "select * from slice",
        /* The slices of one name are found without a scan. */
        "select count(*), sum(dur) from slice where name = 'a'",
    };
    _cleanup_(freep) char *text = random_trace();
    struct read_result r = read_text(text);
    sqlite3 *db = sql_over(&r);

    for (size_t i = 0; i < ARRAY_SIZE(statements); i++) {
        if (assert_same_rows(db, statements[i]))
            fail_msg("%s", statements[i]);
    }
    sqlite3_close(db);
    read_result_free(&r);
}

/* A sum that overflows, or that depends on the order as a double, is left to SQLite. */
static void test_inexact_sums_are_left_alone(void **state)
{
    struct read_result r =
        read_text("[{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":5000000000000},"
                  "{\"ph\":\"X\",\"name\":\"b\",\"pid\":1,\"tid\":2,\"ts\":1,\"dur\":5000000000000.001}]");
    sqlite3 *db = sql_over(&r);

    assert_false(assert_same_rows(db, "select avg(dur) from slice"));
    assert_false(assert_same_rows(db, "select name, sum(dur) from slice group by name"));
    assert_true(assert_same_rows(db, "select name, max(dur) from slice group by name"));
    sqlite3_close(db);
    read_result_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_change_nothing),
        cmocka_unit_test(test_usual_statements_are_faster),
        cmocka_unit_test(test_other_statements_are_left_alone),
        cmocka_unit_test(test_inexact_sums_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
