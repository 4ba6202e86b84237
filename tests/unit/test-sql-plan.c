/* SPDX-License-Identifier: Apache-2.0 */
/* What SQLite leaves to the tables (conditions, orders, relatives, gaps) gives the rows that it would find
 * itself. */
#include "tests/unit/sql-fixture.h"
#include "tests/unit/sql-small.h"

/* Some thousand slices that nest, repeat, share times and lack categories, always the same ones. */
static char *random_trace(void)
{
    static const char *const categories[] = {"kernel", "gpu_memcpy", "cpu_op", NULL, "kernel"};
    static const char *const names[] = {"a", "b", "B", "c c", "5", "5.0", "", "\303\251"};
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    uint64_t seed = 1;

    fputc('[', f);
    for (int i = 0; i < 3000; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        unsigned bits = (unsigned)(seed >> 33);
        const char *category = categories[bits % ARRAY_SIZE(categories)];

        fprintf(f, "{\"ph\":\"X\",\"name\":\"%s\",\"pid\":1,\"tid\":%u,\"ts\":%u,\"dur\":%u%s%s%s%s},",
                names[bits / 8 % ARRAY_SIZE(names)], bits / 64 % 5, i / 2, bits / 512 % 4,
                category ? ",\"cat\":\"" : "", category ? category : "", category ? "\"" : "",
                bits % 3 ? ",\"args\":{\"stream\":3}" : "");
    }
    fputs("{}]", f);
    fclose(f);
    return text;
}

/* The same rows in a table of SQLite's own, where nothing is pushed down. */
static sqlite3 *beside_plain_rows(struct read_result *r)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sql_register(db, (struct sql_source){.open = open_read_result, .arg = r}), SQLITE_OK);
    assert_answer(db,
                  "create table plain(id integer, ts integer, dur integer, track_id integer, category text, "
                  "name text, depth integer, parent_id integer, arg_set_id integer)",
                  "");
    assert_answer(
        db,
        "insert into plain select id, ts, dur, track_id, category, name, depth, parent_id, arg_set_id "
        "from slice",
        "");
    return db;
}

/* query has %s for the table. */
static void assert_same(sqlite3 *db, const char *query)
{
    _cleanup_(freep) char *plain_sql = xasprintf(query, "plain"), *slice_sql = xasprintf(query, "slice");
    _cleanup_(freep) char *expected = ask(db, plain_sql), *answer = ask(db, slice_sql);

    assert_false(is_error(expected));
    if (!streq(expected, answer))
        print_message("%s\n", slice_sql);
    assert_string_equal(expected, answer);
}

static void test_pushdown_changes_nothing(void **state)
{
    static const char *const conditions[] = {
        "1",
        "id = 17",
        "id = 17.0",
        "id = 17.5",
        "id = '17'",
        "id = 'x'",
        "id < 'x' and id > 2990",
        "id > 'x'",
        "id = null",
        "id in (1, 5, 2999, 3000, -1)",
        "id > 2990",
        "id >= 2990.5",
        "id < 3.5",
        "id <= -1",
        "id < 9223372036854775807 and id > 2990",
        "id > 1e300",
        "id < -1e300",
        "id < 1e300 and id > 2995",
        "ts = 700000",
        "ts >= 700000 and ts < 720000",
        "ts > 700000 and ts <= 720000 and track_id = 2",
        "ts between '700000' and 720000.0",
        "ts > 1e18",
        "ts > 700000 and ts < 600000",
        "track_id = 1",
        "track_id = 99",
        "track_id = -1",
        "track_id in (0, 2)",
        "track_id = 1 and id > 1000 and name = 'a'",
        "name = 'a'",
        "name = 'A' collate nocase",
        "name = 'nothing'",
        "name = 5",
        "name = 5.0",
        "name = x'61'",
        "name = null",
        "name = ''",
        "name in ('a', 'c c', 'a', 'nothing', null)",
        "name in (select name from plain where id < 3)",
        "name = 'a' and name = 'b'",
        "name = 'a' or name = 'b'",
        "name = 'a' or category = 'kernel'",
        "name > 'a'",
        "name = '\303\251' and category = 'kernel' and ts > 900000",
        "category = 'kernel'",
        "category = 'kernel' or category = 'gpu_memcpy'",
        "category in ('kernel', 'cpu_op') and name in ('b', 'B') and track_id = 3",
        "category is null",
        "category is null and name = 'a'",
        "category = 'nothing'",
        "category <> 'kernel'",
        "arg_set_id = 5",
        "arg_set_id = 6",
        "arg_set_id > 2000 and category = 'kernel'",
        "arg_set_id is null",
        "dur > 2000 and name = 'b'",
        "not name = 'b'",
        "depth = 1 and ts < 50000",
    };
    static const char *const queries[] = {
        "select id, ts, dur, track_id, category, name, depth, parent_id, arg_set_id from %%s where %s order "
        "by id",
        "select id, ts from %%s where %s order by ts, id limit 20",
        "select id, ts from %%s where %s order by ts desc, id desc limit 20",
        "select id, ts from %%s where %s order by ts desc, id limit 20",
        "select count(*), sum(dur), min(ts), max(ts), min(name), max(category) from %%s where %s",
        "select name, count(*), sum(dur), min(id), max(category) from %%s where %s group by name order by "
        "name",
        "select name, count(*), sum(dur) from %%s where %s group by name order by name desc",
        "select name, sum(dur) from %%s where %s group by name order by sum(dur) desc, name",
        "select category, name, count(*) from %%s where %s group by category, name order by category, name",
        "select category, name, count(*) from %%s where %s group by name, category order by category desc, "
        "name",
        "select category, count(*), sum(dur) from %%s where %s group by category order by category desc",
        "select category, count(*) from %%s where %s group by 1 order by 2, 1",
        "select * from (select distinct name from %%s where %s) order by name",
        "select * from (select distinct category, name from %%s where %s) order by 1, 2",
        "select distinct name from %%s where %s order by name",
        "select distinct name, category from %%s where %s order by name desc, category desc",
        "select name, category, id from %%s where %s order by name, category, id",
        "select count(distinct name) from %%s where %s and dur %%%% 2000 = 0",
        "select * from (select distinct name from %%s where %s and dur = 3000) order by name",
        "select x.id, y.id from plain x join %%s y on x.parent_id = y.id and y.ts <= x.ts where x.%s order "
        "by 1, 2",
    };
    _cleanup_(freep) char *text = random_trace();
    struct read_result r = read_text(text);
    sqlite3 *db = beside_plain_rows(&r);

    for (size_t i = 0; i < ARRAY_SIZE(conditions); i++) {
        for (size_t k = 0; k < ARRAY_SIZE(queries); k++) {
            _cleanup_(freep) char *query = NULL;

            /* The last one is a join, for conditions that are one column's. */
            if (k + 1 == ARRAY_SIZE(queries) && !starts_with(conditions[i], "id ="))
                continue;
            query = xasprintf(queries[k], conditions[i]);
            assert_same(db, query);
        }
    }
    assert_answer(db, "select id, rowid from slice where rowid = 5", "5|5\n");
    sqlite3_close(db);
    read_result_free(&r);
}

static void test_relatives_are_those_of_the_parents(void **state)
{
    _cleanup_(freep) char *text = random_trace();
    struct read_result r = read_text(text);
    sqlite3 *db = beside_plain_rows(&r);

    assert_answer(
        db,
        "with recursive up(id, above) as (select id, parent_id from plain where parent_id is not null "
        "union all select up.id, parent_id from up join plain on plain.id = up.above where parent_id is not "
        "null) select (select count(*) from up) > 100, "
        "(select count(*) from (select id, above from up except select p.id, a.id from plain p, "
        "ancestor_slice(p.id) a)), "
        "(select count(*) from (select p.id, a.id from plain p, ancestor_slice(p.id) a except select id, "
        "above from up)), "
        "(select count(*) from (select above, id from up except select p.id, d.id from plain p, "
        "descendant_slice(p.id) d)), "
        "(select count(*) from (select p.id, d.id from plain p, descendant_slice(p.id) d except select "
        "above, id from up))",
        "1|0|0|0|0\n");
    sqlite3_close(db);
    read_result_free(&r);
}

#define GPU "(category = 'kernel' OR category = 'gpu_memcpy')"
#define CTE                                                                                                  \
    "WITH cte AS (SELECT name, ts, dur, ROW_NUMBER() OVER (ORDER BY ts) AS seqnum FROM slice WHERE " GPU ")" \
    " "

static void test_gap_is_the_statement(void **state)
{
    _cleanup_(freep) char *text = random_trace(), *statement = NULL, *table = NULL;
    struct read_result r = read_text(text);
    sqlite3 *db = sql_over(&r);

    statement =
        ask(db, CTE "SELECT slice.ts, slice.name, tprev.name, slice.ts - COALESCE(tprev.ts, 0) - tprev.dur "
                    "AS diff FROM cte slice LEFT OUTER JOIN cte tprev ON slice.seqnum = tprev.seqnum + 1 "
                    "ORDER BY diff DESC");
    table = ask(db, "select ts, name, prev_name, diff from gap order by diff desc");
    assert_true(strlen(statement) > 1000);
    assert_string_equal(statement, table);
    sqlite3_close(db);
    read_result_free(&r);
}

static void assert_plan(sqlite3 *db, const char *sql, const char *unwanted)
{
    _cleanup_(freep) char *query = xasprintf("explain query plan %s", sql), *plan = ask(db, query);

    assert_false(is_error(plan));
    if (strstr(plan, unwanted))
        print_message("%s\n%s", sql, plan);
    assert_null(strstr(plan, unwanted));
}

static void test_nothing_is_sorted_that_lies_sorted(void **state)
{
    struct read_result r = read_text(small);
    sqlite3 *db = sql_over(&r);

    assert_plan(
        db,
        "SELECT ROUND(AVG(dur) / 1000, 2) AS avg_us, COUNT(name) AS count, name FROM (SELECT * FROM slice) "
        "WHERE " GPU " GROUP BY name ORDER BY SUM(dur) DESC",
        "FOR GROUP BY");
    assert_plan(db, "select category, name, sum(dur) from slice group by category, name", "TEMP B-TREE");
    assert_plan(db, "select name from kernel group by name order by name desc", "TEMP B-TREE");
    assert_plan(db, "select ts from slice where " GPU " order by ts", "TEMP B-TREE");
    assert_plan(db, "select ts from slice where track_id = 1 order by ts desc", "TEMP B-TREE");
    assert_plan(db, CTE "select * from cte", "TEMP B-TREE");
    sqlite3_close(db);
    read_result_free(&r);
}

/* Beyond 2^53 a double plus one is no other number, or the second after it. */
static void test_real_bounds_of_big_times(void **state)
{
    static const char *const bounds[] = {
        "9007199254740991.0",    "9007199254740992.0",    "9007199254740994.0",    "9007199254740996.0",
        "4000000000000000000.5", "9223372036854775808.0", "-9223372036854775808.0"};
    static const char *const comparisons[] = {"=", "<", "<=", ">", ">="};
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    fputc('[', f);
    for (int i = 0; i < 9; i++)
        fprintf(f, "{\"ph\":\"X\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":9007199254740.99%d,\"dur\":0},",
                i);
    fputs("{\"ph\":\"X\",\"name\":\"b\",\"pid\":1,\"tid\":2,\"ts\":4000000000000000,\"dur\":1}]", f);
    fclose(f);
    struct read_result r = read_text(text);
    sqlite3 *db = beside_plain_rows(&r);
    for (size_t i = 0; i < ARRAY_SIZE(bounds); i++)
        for (size_t k = 0; k < ARRAY_SIZE(comparisons); k++) {
            _cleanup_(freep) char *query =
                xasprintf("select id, ts from %%s where ts %s %s order by id", comparisons[k], bounds[i]);
            assert_same(db, query);
        }
    sqlite3_close(db);
    read_result_free(&r);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pushdown_changes_nothing),
        cmocka_unit_test(test_real_bounds_of_big_times),
        cmocka_unit_test(test_relatives_are_those_of_the_parents),
        cmocka_unit_test(test_gap_is_the_statement),
        cmocka_unit_test(test_nothing_is_sorted_that_lies_sorted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
