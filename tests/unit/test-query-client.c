/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/cli/text.h"
#include "client/query/result.h"
#include "client/traces/columns_cache.h"
#include "tests/unit/cmocka-all.h"
#include <dirent.h>
#include <fcntl.h>

/* -- Names -------------------------------------------------------------------------------------------- */

static const char *nearest(const char *word)
{
    static const char *const names[] = {"name", "category", "slice", "SELECT", "ts", "track_id"};
    return nearest_name(word, names, ARRAY_SIZE(names));
}

static void test_nearest(void **state)
{
    assert_string_equal(nearest("nam"), "name");
    assert_string_equal(nearest("nmae"), "name");
    assert_string_equal(nearest("catgeory"), "category");
    assert_string_equal(nearest("slect"), "SELECT");
    assert_string_equal(nearest("trackid"), "track_id");
    assert_null(nearest("zzzzz"));
    assert_null(nearest("x"));
    /* At most two mistakes, and in at most a third of the word. */
    assert_null(nearest("tz"));
    assert_null(nearest("sxlect_it"));
    assert_null(nearest("cxtxgxry"));
    assert_string_equal(nearest("cxtegxry"), "category");
    assert_null(nearest_name("foo", (const char *const[]){"FOR"}, 1));
    assert_null(nearest_name("bogus", (const char *const[]){"bus"}, 1));
    assert_null(nearest(""));

    _cleanup_(freep) char *endless = xcalloc(100001, 1);
    memset(endless, 'a', 100000);
    assert_null(nearest(endless));
    assert_null(nearest_name("name", NULL, 0));
}

/* -- Rows --------------------------------------------------------------------------------------------- */

/* What a statement prints; *end is how it went. */
static char *print(enum table_format format, const char *sql, int64_t rows_max, struct result_end *end)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    struct screen screen = {.file = out};
    struct result_options options = {.format = format, .with_heading = true, .rows_max = rows_max};
    sqlite3_stmt *statement = NULL;
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    *end = result_print(&screen, &options, statement);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    fclose(out);
    return text;
}

static void assert_prints(enum table_format format, const char *sql, const char *expected)
{
    struct result_end end;
    _cleanup_(freep) char *text = print(format, sql, INT64_MAX, &end);

    assert_string_equal(text, expected);
    assert_int_equal(end.code, SQLITE_DONE);
}

static void test_formats(void **state)
{
    const char *sql = "SELECT 'a,\"b\"' AS t, 10 AS n, NULL AS x UNION ALL SELECT '', -5, 2.5";

    assert_prints(TABLE_FITTED, sql, "t       n     x\na,\"b\"  10  NULL\n       -5   2.5\n");
    assert_prints(TABLE_CSV, sql, "t,n,x\r\n\"a,\"\"b\"\"\",10,\r\n\"\",-5,2.5\r\n");
    assert_prints(TABLE_TSV, sql, "t\tn\tx\na,\"b\"\t10\t\\N\n\t-5\t2.5\n");
    assert_prints(TABLE_JSON, sql,
                  "[\n{\"t\":\"a,\\\"b\\\"\",\"n\":10,\"x\":null},\n{\"t\":\"\",\"n\":-5,\"x\":2.5}\n]\n");
    assert_prints(TABLE_TSV, "SELECT 'a\tb\nc\\d' AS t", "t\na\\tb\\nc\\\\d\n");
    assert_prints(TABLE_CSV, "SELECT 'a\nb' AS t", "t\r\n\"a\nb\"\r\n");
    assert_prints(TABLE_JSON, "SELECT 1 AS a, 2 AS a, 3 AS \"a:1\", 4 AS a",
                  "[\n{\"a\":1,\"a:1\":2,\"a:1:1\":3,\"a:2\":4}\n]\n");
    assert_prints(TABLE_JSON, "SELECT CAST(x'61ff62' AS TEXT) AS t",
                  "[\n{\"t\":\"a\xef\xbf\xbd"
                  "b\"}\n]\n");
}

static void test_numbers_are_exact(void **state)
{
    assert_prints(TABLE_JSON, "SELECT 0.1 + 0.2 AS r, 1.0 AS w, 1e22 AS b, 9e999 AS i, -9e999 AS j",
                  "[\n{\"r\":0.30000000000000004,\"w\":1.0,\"b\":1e+22,\"i\":1e999,\"j\":-1e999}\n]\n");
    assert_prints(TABLE_CSV, "SELECT -9223372036854775808 AS i", "i\r\n-9223372036854775808\r\n");
}

static void test_no_rows(void **state)
{
    assert_prints(TABLE_FITTED, "SELECT 1 AS a WHERE 0", "");
    assert_prints(TABLE_JSON, "SELECT 1 AS a WHERE 0", "[]\n");
    assert_prints(TABLE_CSV, "SELECT 1 AS a WHERE 0", "a\r\n");
    assert_prints(TABLE_FITTED, "CREATE TABLE t (a)", "");
}

static void test_limit(void **state)
{
    const char *sql =
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 3) SELECT n FROM c";
    struct result_end end;
    _cleanup_(freep) char *two = print(TABLE_TSV, sql, 2, &end);

    assert_string_equal(two, "n\n1\n2\n");
    assert_int_equal(end.code, SQLITE_ROW);
    assert_int_equal(end.rows, 2);
    _cleanup_(freep) char *three = print(TABLE_TSV, sql, 3, &end);
    assert_string_equal(three, "n\n1\n2\n3\n");
    assert_int_equal(end.code, SQLITE_DONE);
    assert_int_equal(end.rows, 3);
}

static void test_rows_before_an_error(void **state)
{
    /* The second row overflows. */
    const char *sql = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 2) "
                      "SELECT iif(n = 1, 1, abs(-9223372036854775808)) AS a FROM c";
    struct result_end end;
    _cleanup_(freep) char *json = print(TABLE_JSON, sql, INT64_MAX, &end);

    assert_int_equal(end.code, SQLITE_ERROR);
    assert_string_equal(json, "[\n{\"a\":1}");
    _cleanup_(freep) char *table = print(TABLE_FITTED, sql, INT64_MAX, &end);
    assert_string_equal(table, "a\n1\n");
}

static void test_long_tables_keep_every_row(void **state)
{
    struct result_end end;
    _cleanup_(freep) char *text =
        print(TABLE_FITTED,
              "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT "
              "10000) SELECT n FROM c",
              INT64_MAX, &end);
    int64_t next = 1;

    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (!strstr(line, "n"))
            assert_int_equal(atoll(line), next++);
    assert_int_equal(next, 10001);
    assert_int_equal(end.rows, 10000);
}

/* -- The cache ---------------------------------------------------------------------------------------- */

static int cache_new(void **state)
{
    char *home = xstrdup("/tmp/test-query-client-XXXXXX");

    assert_non_null(mkdtemp(home));
    setenv("XDG_CACHE_HOME", home, 1);
    *state = home;
    return 0;
}

static int cache_end(void **state)
{
    _cleanup_(freep) char *home = *state, *command = xasprintf("rm -rf %s", home);
    return system(command);
}

static void keep(const char *key, const char *text, off_t size)
{
    _cleanup_(columns_draft_done) struct columns_draft draft;

    assert_int_equal(columns_draft_new(&draft, NULL), 0);
    assert_int_equal(write(draft.fd, text, strlen(text)), strlen(text));
    if (size > 0)
        assert_int_equal(ftruncate(draft.fd, size), 0);
    columns_draft_keep(&draft, key);
}

static bool has(const char *key)
{
    _cleanup_(closep) int fd = columns_cache_open(key);
    assert_true(fd >= 0 || fd == -ENOENT);
    return fd >= 0;
}

static void set_used(const char *home, const char *key, time_t at)
{
    _cleanup_(freep) char *directory = xasprintf("%s/profd/columns", home);
    DIR *dir = opendir(directory);

    for (struct dirent *d; (d = readdir(dir));)
        if (starts_with(d->d_name, key))
            utimensat(dirfd(dir), d->d_name, (struct timespec[]){{.tv_sec = at}, {.tv_sec = at}}, 0);
    closedir(dir);
}

static void test_cache_keeps(void **state)
{
    char text[8] = "";

    assert_false(has("a"));
    keep("a", "first", 0);
    assert_true(has("a"));
    assert_false(has("b"));
    keep("a", "second", 0);
    _cleanup_(closep) int fd = columns_cache_open("a");
    assert_int_equal(read(fd, text, sizeof(text)), 6);
    assert_string_equal(text, "second");
    columns_cache_drop("a");
    assert_false(has("a"));
    assert_false(has("../a"));
}

static void test_cache_forgets_the_oldest(void **state)
{
    const off_t big = COLUMNS_CACHE_BYTES / 3;

    keep("a", "x", big);
    keep("b", "x", big);
    set_used(*state, "a-", 1000);
    set_used(*state, "b-", 2000);
    keep("c", "x", big);
    assert_true(has("a") && has("b") && has("c"));
    /* Asking made a the youngest but one. */
    set_used(*state, "b-", 2000);
    keep("d", "x", big);
    assert_true(has("a") && !has("b") && has("c") && has("d"));
    /* One that is too large for the cache stays until another comes. */
    keep("e", "x", COLUMNS_CACHE_BYTES + 1);
    assert_true(!has("a") && !has("c") && !has("d") && has("e"));
}

static void test_draft_that_is_not_kept_is_gone(void **state)
{
    _cleanup_(freep) char *directory = xasprintf("%s/profd/columns", (char *)*state);
    struct columns_draft draft;

    assert_int_equal(columns_draft_new(&draft, NULL), 0);
    columns_draft_done(&draft);
    assert_int_equal(rmdir(directory), 0);
}

static void test_keys_distinguish_files(void **state)
{
    const struct stat a = {.st_dev = 1, .st_ino = 2, .st_size = 3, .st_mtim = {4, 5}};
    const struct stat others[] = {
        {.st_dev = 9, .st_ino = 2, .st_size = 3, .st_mtim = {4, 5}},
        {.st_dev = 1, .st_ino = 9, .st_size = 3, .st_mtim = {4, 5}},
        {.st_dev = 1, .st_ino = 2, .st_size = 9, .st_mtim = {4, 5}},
        {.st_dev = 1, .st_ino = 2, .st_size = 3, .st_mtim = {9, 5}},
        {.st_dev = 1, .st_ino = 2, .st_size = 3, .st_mtim = {4, 9}},
    };
    _cleanup_(freep) char *key = columns_key_of_file(&a), *same = columns_key_of_file(&a);

    assert_string_equal(key, same);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        _cleanup_(freep) char *other = columns_key_of_file(&others[i]);
        assert_string_not_equal(key, other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_numbers_are_exact),
        cmocka_unit_test(test_no_rows),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_rows_before_an_error),
        cmocka_unit_test(test_long_tables_keep_every_row),
        cmocka_unit_test_setup_teardown(test_cache_keeps, cache_new, cache_end),
        cmocka_unit_test_setup_teardown(test_cache_forgets_the_oldest, cache_new, cache_end),
        cmocka_unit_test_setup_teardown(test_draft_that_is_not_kept_is_gone, cache_new, cache_end),
        cmocka_unit_test(test_keys_distinguish_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
