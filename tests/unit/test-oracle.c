/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of real traces against what Perfetto's trace_processor made of the same files. Traces and results
 * lie beside the checkout and are not part of it.
 */
#include "base/util.h"
#include "tests/unit/cmocka-all.h"
#include "trace/columns/columns.h"
#include "trace/read/reader.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <sys/mman.h>

#define RESULTS_DIR ORACLE_DIR "/trace_processor"

/* trace_processor reads times as doubles, which cannot hold those of this trace (19 digits): it is off by up
 * to half a microsecond, so durations, nesting and gaps differ, and it is the one that is wrong. */
#define GAP_ERROR 2 /* of the first slice and of the last */
#define INEXACT   "hta__ns_resolution_rank0.json.gz.json"

struct compared {
    const struct columns *c;
    const struct merge_summary *sum;
    json_t *results;
    bool exact;
};

static json_t *rows_of(const struct compared *t, const char *query)
{
    json_t *rows = json_object_get(json_object_get(t->results, query), "rows");

    assert_true(json_is_array(rows));
    return rows;
}

static const char *cell(const json_t *rows, size_t row, size_t column)
{
    const char *text = json_string_value(json_array_get(json_array_get(rows, row), column));

    assert_non_null(text);
    return text;
}

/* The sum of nothing is 0 to us. */
static int64_t number(const json_t *rows, size_t row, size_t column)
{
    return strtoll(cell(rows, row, column), NULL, 10);
}

static int64_t value(const struct compared *t, enum column column, uint64_t row)
{
    return columns_get(t->c, column, row);
}

static void compare_totals(const struct compared *t)
{
    const json_t *rows = rows_of(t, "totals");
    uint64_t n = columns_rows(t->c, TABLE_slice);
    int64_t sum = 0;

    assert_int_equal(n, number(rows, 0, 0));
    assert_int_equal(t->sum->slices, n);
    assert_int_equal(t->sum->threads, number(rows_of(t, "threads"), 0, 0));
    assert_int_equal(t->sum->flows, number(rows_of(t, "flows"), 0, 0));
    assert_int_equal(columns_rows(t->c, TABLE_flow), t->sum->flows);
    if (n == 0)
        return;
    for (uint64_t i = 0; i < n; i++)
        sum += value(t, COL_slice_dur, i);
    assert_int_equal(sum, number(rows, 0, 1));
    if (!t->exact)
        return;
    assert_int_equal(value(t, COL_slice_ts, 0), number(rows, 0, 2));
    assert_int_equal(value(t, COL_slice_ts, n - 1), number(rows, 0, 3));
}

static size_t row_of_depth(const json_t *rows, int64_t depth)
{
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (number(rows, i, 0) == depth)
            return i;
    fail_msg("there is no slice at depth %lld", (long long)depth);
    return 0;
}

static size_t row_of_category(const struct compared *t, const json_t *rows, int64_t category)
{
    struct text text = columns_text(t->c, category);
    const char *wanted = category == COLUMN_NULL ? "[NULL]" : text.p;
    size_t size = category == COLUMN_NULL ? strlen(wanted) : text.size;

    for (size_t i = 0; i < json_array_size(rows); i++)
        if (strlen(cell(rows, i, 0)) == size && memcmp(cell(rows, i, 0), wanted, size) == 0)
            return i;
    fail_msg("there is no category %.*s", (int)size, wanted);
    return 0;
}

static void compare_groups(const struct compared *t, const json_t *rows, bool by_depth)
{
    _cleanup_(freep) int64_t *sums = calloc(2 * json_array_size(rows) + 1, sizeof(*sums));

    for (uint64_t i = 0; i < t->sum->slices; i++) {
        size_t row = by_depth ? row_of_depth(rows, value(t, COL_slice_depth, i))
                              : row_of_category(t, rows, value(t, COL_slice_category, i));

        sums[2 * row]++;
        sums[2 * row + 1] += value(t, COL_slice_dur, i);
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        assert_int_equal(sums[2 * i], number(rows, i, 1));
        assert_int_equal(sums[2 * i + 1], number(rows, i, 2));
    }
}

static bool has_text(const struct compared *t, int64_t text_number, const char *wanted)
{
    struct text text = columns_text(t->c, text_number);

    return text.size == strlen(wanted) && memcmp(text.p, wanted, text.size) == 0;
}

static bool is_gpu(const struct compared *t, int64_t category)
{
    return has_text(t, category, "kernel") || has_text(t, category, "gpu_memcpy");
}

static void compare_kernels(const struct compared *t)
{
    const json_t *rows = rows_of(t, "kernel_latencies");
    int64_t n_ours = 0, n_theirs = 0;

    for (uint64_t i = 0; i < columns_rows(t->c, TABLE_name); i++)
        n_ours += is_gpu(t, value(t, COL_name_category, i)) ? value(t, COL_name_count, i) : 0;
    for (size_t row = 0; row < json_array_size(rows); row++) {
        int64_t count = 0, sum = 0, min = INT64_MAX, max = 0;

        for (uint64_t i = 0; i < columns_rows(t->c, TABLE_name); i++) {
            if (!has_text(t, value(t, COL_name_name, i), cell(rows, row, 6)) ||
                !is_gpu(t, value(t, COL_name_category, i)))
                continue;
            count += value(t, COL_name_count, i);
            sum += value(t, COL_name_sum, i);
            min = MIN(min, value(t, COL_name_min, i));
            max = MAX(max, value(t, COL_name_max, i));
        }
        n_theirs += count;
        assert_int_equal(count, number(rows, row, 5));
        assert_int_equal(max / 1000, number(rows, row, 1));
        assert_int_equal(min / 1000, number(rows, row, 2));
        /* rounded to two decimals */
        assert_true(fabs((double)sum / (double)count / 1000 - atof(cell(rows, row, 0))) < 0.0051);
        assert_true(fabs((double)sum / 1e6 - atof(cell(rows, row, 3))) < 0.0051);
    }
    assert_int_equal(n_ours, n_theirs);
}

/* Between each GPU slice and the one before it, in order of rows: depends on the order at equal times. */
static void compare_gaps(const struct compared *t)
{
    int64_t sum = 0, before = -1;

    for (uint64_t i = 0; i < t->sum->slices; i++) {
        if (!is_gpu(t, value(t, COL_slice_category, i)))
            continue;
        if (before >= 0)
            sum += value(t, COL_slice_ts, i) - value(t, COL_slice_ts, (uint64_t)before) -
                   value(t, COL_slice_dur, (uint64_t)before);
        before = (int64_t)i;
    }
    assert_true(llabs(sum - number(rows_of(t, "empty_slots_sum"), 0, 0)) <= GAP_ERROR);
}

static void compare(const struct compared *t)
{
    compare_totals(t);
    compare_groups(t, rows_of(t, "by_category"), false);
    compare_kernels(t);
    if (!t->exact)
        return;
    compare_groups(t, rows_of(t, "by_depth"), true);
    compare_gaps(t);
}

/* "a__b.json.gz.json" has the results of "a/b.json.gz". */
static int open_trace(const char *results_name)
{
    char path[512];
    int fd, n = snprintf(path, sizeof(path), "%s/", TRACES_DIR);

    for (const char *p = results_name; p < results_name + strlen(results_name) - strlen(".json"); p++) {
        bool slash = starts_with(p, "__");

        assert_true((size_t)n + 1 < sizeof(path));
        path[n++] = slash ? '/' : *p;
        p += slash;
    }
    path[n] = '\0';
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static json_t *load_results(const char *name)
{
    char path[512];
    json_t *results;

    snprintf(path, sizeof(path), "%s/%s", RESULTS_DIR, name);
    results = json_load_file(path, 0, NULL);
    assert_non_null(results);
    return results;
}

static void compare_file(const char *name)
{
    _cleanup_(closep) int source = open_trace(name), fd = memfd_create("columns", MFD_CLOEXEC);
    _cleanup_(columns_closep) struct columns *c = NULL;
    json_t *results = load_results(name);
    struct read_options options = {.source_fd = source, .columns_fd = fd, .spill_fd = -1};
    struct read_summary sum;
    char *reason = NULL;

    print_message("%s\n", name);
    assert_int_equal(trace_read(&options, &sum), 0);
    if (sum.state == READ_REFUSED) {
        const json_t *totals = json_object_get(json_object_get(results, "totals"), "rows");

        /* not a trace of events: an error there, or nothing */
        assert_true(!totals || number(totals, 0, 0) == 0);
    } else {
        assert_int_equal(sum.state, READ_COMPLETE);
        assert_int_equal(columns_open(fd, &c, &reason), 0);
        compare(&(struct compared){c, &sum.columns, results, !streq(name, INEXACT)});
        assert_int_equal(columns_damage(c), -1);
    }
    json_decref(results);
}

static void test_agrees_with_trace_processor(void **state)
{
    DIR *dir = opendir(RESULTS_DIR);
    size_t n = 0;

    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (!ends_with(e->d_name, ".json"))
            continue;
        compare_file(e->d_name);
        n++;
    }
    closedir(dir);
    assert_true(n > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees_with_trace_processor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
