/* SPDX-License-Identifier: Apache-2.0 */
/* What trace_processor computed from real traces, computed from their columns. */
#include "base/json.h"
#include "tests/unit/sql-fixture.h"

#include <dirent.h>
#include <inttypes.h>

#define RESULTS_DIR ORACLE_DIR "/trace_processor"
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#endif
/* Above, two of the statements take more than seconds, here as there: their join is quadratic. */
#ifdef SANITIZED
#define GPU_EVENTS_MAX 1500
#else
#define GPU_EVENTS_MAX 2500
#endif
#define TRACE_MAX (64 << 20)

#define GPU       "(category = 'kernel' OR category = 'gpu_memcpy')"
#define CTE                                                                                                  \
    "WITH cte AS (SELECT name, ts, dur, ROW_NUMBER() OVER (ORDER BY ts) AS seqnum FROM slice WHERE " GPU ")" \
    " "
#define DIFF      "slice.ts - COALESCE(tprev.ts, 0) - tprev.dur AS diff"
#define NEIGHBOUR "FROM cte slice LEFT OUTER JOIN cte tprev ON slice.seqnum = tprev.seqnum + 1"
/* Trace processor keeps equal sets of arguments once. */
#define ARG_SETS                                                                                             \
    "(SELECT count(*) AS n, group_concat(key || char(1) || value_type || char(1) || display_value, "         \
    "char(2)) AS all_args "                                                                                  \
    "FROM (SELECT * FROM args ORDER BY arg_set_id, key) GROUP BY arg_set_id)"

static const struct {
    const char *key, *sql;
    bool quadratic;
} questions[] = {
    {"kernel_latencies",
     "SELECT ROUND(AVG(dur) / 1000, 2) AS avg_us, MAX(dur) / 1000 AS max_us, MIN(dur) / 1000 AS min_us, "
     "ROUND(SUM(dur) / 1000.0 / 1000, 2) AS sum_ms, ROUND(SUM(dur) * 100.0 / (SELECT SUM(dur) FROM slice "
     "WHERE "
     "(category = 'kernel' OR category = 'gpu_memcpy')), 1) AS percent, COUNT(name) AS count, name "
     "FROM (SELECT * FROM slice) WHERE (category = 'kernel' OR category = 'gpu_memcpy') "
     "GROUP BY name ORDER BY SUM(dur) DESC;"},
    {"empty_slots_top20",
     CTE "SELECT slice.ts, slice.name, tprev.name, " DIFF " " NEIGHBOUR " ORDER BY diff DESC LIMIT 20", true},
    {"empty_slots_sum", "SELECT SUM(diff) FROM (" CTE "SELECT slice.name, " DIFF " " NEIGHBOUR ")", true},
    {"empty_slots_top20", "SELECT ts, name, prev_name, diff FROM gap ORDER BY diff DESC LIMIT 20"},
    {"empty_slots_sum", "SELECT SUM(diff) FROM gap"},
    {"totals", "SELECT count(*), sum(dur), min(ts), max(ts) FROM slice"},
    {"by_category", "SELECT category, count(*), sum(dur) FROM slice GROUP BY category ORDER BY category"},
    {"by_depth", "SELECT depth, count(*), sum(dur) FROM slice GROUP BY depth ORDER BY depth"},
    {"threads", "SELECT count(DISTINCT utid) FROM slice JOIN thread_track ON track_id = thread_track.id"},
    {"flows", "SELECT count(*) FROM flow"},
    {"args", "SELECT sum(n), (SELECT count(DISTINCT key) FROM args) FROM (SELECT n FROM " ARG_SETS
             " GROUP BY all_args)"},
};

/*
 * Stamps that trace_processor rounds to what a double of microseconds can hold: by a nanosecond in the first,
 * by up to 256 in the second, so that their gaps, and the second's nesting, are not the exact ones.
 */
static const struct {
    const char *trace, *key;
} inexact[] = {
    {"hta__nccl_data_rank0.json.gz", "empty_slots_top20"},
    {"hta__nccl_data_rank0.json.gz", "empty_slots_sum"},
    {"hta__ns_resolution_rank0.json.gz", "empty_slots_top20"},
    {"hta__ns_resolution_rank0.json.gz", "empty_slots_sum"},
    {"hta__ns_resolution_rank0.json.gz", "totals"},
    {"hta__ns_resolution_rank0.json.gz", "by_depth"},
};

/*
 * Torch 1.9 called its categories otherwise. Table gap knows both names; the statement that it stands for
 * asks by the later ones alone, and so finds nothing in this trace.
 */
#define WITH_OLD_NAMES "kineto__resnet50_2021_workers0.json.gz"

static bool asks_by_both_names(const char *trace, const char *sql)
{
    return starts_with(trace, WITH_OLD_NAMES) && strstr(sql, " FROM gap");
}

static bool is_inexact(const char *trace, const char *key)
{
    for (size_t i = 0; i < ARRAY_SIZE(inexact); i++) {
        if (starts_with(trace, inexact[i].trace) && streq(inexact[i].key, key))
            return true;
    }
    return false;
}

/* As trace_processor prints it. */
static void print_value(sqlite3_stmt *s, int i, char *ret, size_t size)
{
    if (sqlite3_column_type(s, i) == SQLITE_NULL)
        snprintf(ret, size, "[NULL]");
    else if (sqlite3_column_type(s, i) == SQLITE_FLOAT)
        snprintf(ret, size, "%f", sqlite3_column_double(s, i));
    else
        snprintf(ret, size, "%s", (const char *)sqlite3_column_text(s, i));
}

static void compare_row(sqlite3_stmt *s, const json_t *expected)
{
    static char value[64 << 10];

    assert_int_equal(sqlite3_column_count(s), json_array_size(expected));
    for (int i = 0; i < sqlite3_column_count(s); i++) {
        print_value(s, i, value, sizeof(value));
        assert_string_equal(value, json_string_value(json_array_get(expected, (size_t)i)));
    }
}

static void compare(sqlite3 *db, const char *sql, const json_t *rows)
{
    sqlite3_stmt *s = NULL;
    size_t n = 0;
    int r;

    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    while ((r = sqlite3_step(s)) == SQLITE_ROW) {
        assert_true(n < json_array_size(rows));
        compare_row(s, json_array_get(rows, n++));
    }
    assert_int_equal(r, SQLITE_DONE);
    assert_int_equal(n, json_array_size(rows));
    sqlite3_finalize(s);
}

static int64_t gpu_events(sqlite3 *db)
{
    _cleanup_(freep) char *answer = ask(db, "SELECT count(*) FROM slice WHERE " GPU);

    return atoll(answer);
}

static void compare_trace(const char *name, const json_t *oracle, struct read_result *capacity)
{
    sqlite3 *db = sql_over(capacity);
    int64_t n_gpu_events = gpu_events(db);

    for (size_t i = 0; i < ARRAY_SIZE(questions); i++) {
        const json_t *rows = json_object_get(json_object_get(oracle, questions[i].key), "rows");

        if (!rows || is_inexact(name, questions[i].key) || asks_by_both_names(name, questions[i].sql))
            continue;
        if (questions[i].quadratic && n_gpu_events > GPU_EVENTS_MAX) {
            print_message("%s: %s left out: quadratic, and %" PRId64 " GPU events are more than %d\n", name,
                          questions[i].key, n_gpu_events, GPU_EVENTS_MAX);
            continue;
        }
        print_message("%s: %s\n", name, questions[i].key);
        compare(db, questions[i].sql, rows);
    }
    sqlite3_close(db);
}

/* "hta__x.json.gz.json" is about "hta/x.json.gz". */
static char *path_of_trace(const char *oracle_name)
{
    char *path = xasprintf("%s/%.*s", TRACES_DIR, (int)(strlen(oracle_name) - strlen(".json")), oracle_name);
    char *p = strstr(path + strlen(TRACES_DIR), "__");

    if (p) {
        *p = '/';
        memmove(p + 1, p + 2, strlen(p + 2) + 1);
    }
    return path;
}

static bool compare_file(const char *oracle_name)
{
    _cleanup_(freep) char *oracle_path = xasprintf("%s/%s", RESULTS_DIR, oracle_name);
    _cleanup_(freep) char *path = path_of_trace(oracle_name), *trace = NULL;
    _cleanup_json_ oracle = json_load_file(oracle_path, 0, NULL);
    struct read_result capacity;
    size_t size;

    assert_non_null(oracle);
    if (read_file(AT_FDCWD, path, TRACE_MAX, &trace, &size) < 0)
        return false;
    capacity = read_in(trace, size, (struct read_options){0});
    assert_int_equal(capacity.result, 0);
    if (capacity.sum.state != READ_REFUSED && json_object_get(oracle, "totals"))
        compare_trace(oracle_name, oracle, &capacity);
    read_result_free(&capacity);
    return true;
}

static void test_real_traces(void **state)
{
    DIR *d = opendir(RESULTS_DIR);
    unsigned compared = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (ends_with(e->d_name, ".json"))
            compared += compare_file(e->d_name);
    }
    closedir(d);
    assert_true(compared > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_real_traces)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
