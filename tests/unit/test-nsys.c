/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/fs.h"
#include "tests/unit/intake-fixture.h"
#include "trace/read/decompress.h"
#include "trace/sql/nsys.h"
#include <fcntl.h>
#include <sqlite3.h>

#define REAL_SIZE_MAX (16 << 20)

/* A database, serialised, and what was read of it. */
struct reading {
    unsigned char *data;
    size_t size;
    struct intake *in;
    int r;
    char reason[256];
};

static struct reading read_bytes(unsigned char *data, size_t size)
{
    struct reading reading = {.data = data, .size = size, .in = fixture_new()};

    reading.r = nsys_read(data, size, reading.in, reading.reason, sizeof(reading.reason));
    return reading;
}

static struct reading read_sql(const char *sql, const char *more)
{
    sqlite3 *db = NULL;
    sqlite3_int64 size;

    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, more, NULL, NULL, NULL), SQLITE_OK);
    unsigned char *serialized = sqlite3_serialize(db, "main", &size, 0);
    unsigned char *data = xcalloc((size_t)size, 1);
    memcpy(data, serialized, (size_t)size);
    sqlite3_free(serialized);
    sqlite3_close(db);
    return read_bytes(data, (size_t)size);
}

static void reading_done(struct reading *reading)
{
    intake_free(reading->in);
    free(reading->data);
}

/* Of machine 1. */
#define PID(process)         "281474976710656 + (" #process " << 24)"
#define TID(process, thread) PID(process) " + " #thread
#define TABLE(name, columns, rows)                                                                           \
    "CREATE TABLE " name " (" columns "); INSERT INTO " name " VALUES " rows ";"
#define KERNEL  "CUPTI_ACTIVITY_KIND_KERNEL"
#define RUNTIME "CUPTI_ACTIVITY_KIND_RUNTIME"

/* clang-format off */
static const char strings_sql[] =
    "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT); INSERT INTO StringIds VALUES"
    " (1, 'void gemm<float>()'), (2, 'cudaLaunchKernel_v7000'), (3, 'cuLaunchKernel'), (4, 'python'),"
    " (5, 'from an id'), (6, CAST(x'61FF62' AS TEXT));";
static const char kernel_sql[] =
    TABLE(KERNEL, "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, shortName,"
          " registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory,"
          " dynamicSharedMemory, graphNodeId",
          "(1000, 1500, 2, 1, 7, 33, " PID(7) ", 1, 4, 40, 5, 6, 7, 128, 2, 1, 100, 200, NULL)")
    TABLE("TARGET_INFO_GPU", "id, name, smCount", "(2, 'H100', 132)");
static const char copies_sql[] =
    TABLE("CUPTI_ACTIVITY_KIND_MEMCPY",
          "start, end, deviceId, contextId, streamId, globalPid, bytes, copyKind, srcKind, dstKind",
          "(1, 2, 3, 5, 7, " PID(7) ", 4096, 2, 2, 1), (3, 4, 3, 5, 7, " PID(7) ", 1, 99, -1, 77)")
    TABLE("CUPTI_ACTIVITY_KIND_MEMSET", "start, end, deviceId, contextId, streamId, globalPid, bytes, memKind",
          "(5, 6, 3, 5, 7, " PID(7) ", 64, 2)")
    TABLE("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
          "start, end, deviceId, contextId, streamId, globalPid, syncType",
          "(7, 9, 0, 5, 4294967295, " PID(7) ", 4)");
static const char calls_sql[] =
    TABLE(RUNTIME, "start, end, eventClass, globalTid, correlationId, nameId",
          "(10, 20, 0, " TID(7, 9) ", 33, 2), (30, 40, 1, " TID(7, 9) ", 34, 3)")
    TABLE("ThreadNames", "nameId, globalTid", "(4, " TID(7, 9) "), (1, " TID(8, 9) ")")
    TABLE("PROCESSES", "globalPid, pid, name", "(1, 7, 'vllm'), (1, 8, 'bash')");
static const char nvtx_sql[] =
    TABLE("NVTX_EVENTS", "start, end, eventType, text, textId, globalTid",
          "(1, 5, 59, 'pushed', NULL, " TID(7, 9) "), (2, NULL, 60, 'open', NULL, " TID(7, 9) "),"
          "(3, NULL, 34, NULL, 5, " TID(7, 9) "), (4, NULL, 75, 'domain', NULL, " TID(7, 9) "),"
          "(6, 7, 59, NULL, 6, " TID(7, 9) ")");
/* An old export: no process, no context, only short names; and values that are no numbers. */
static const char old_sql[] =
    TABLE(KERNEL, "start, end, deviceId, streamId, correlationId, shortName",
          "(1, 3, 1, 7, 5, 1), (NULL, 3, 1, 7, 5, 1), (4, 'x', 1, 7, 5, 1), (9, 8, 1, 7, 5, 99)")
    TABLE(RUNTIME, "start, end, globalTid, correlationId, nameId", "(10, 20, " TID(7, 9) ", 5, 2)");
static const char two_processes_sql[] =
    TABLE(KERNEL, "start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName",
          "(1, 3, 0, 1, 7, 5, " PID(7) ", 1), (2, 4, 0, 1, 7, 5, " PID(8) ", 1)")
    TABLE(RUNTIME, "start, end, globalTid, correlationId, nameId", "(0, 1, " TID(8, 9) ", 5, 2)");
static const char devices_sql[] = TABLE("TARGET_INFO_CUDA_DEVICE", "gpuId, cudaId, pid", "(4, 0, 7), (5, 0, 8)");
/* clang-format on */

static void test_kernel(void **state)
{
    _cleanup_(reading_done) struct reading reading = read_sql(strings_sql, kernel_sql);
    struct intake *in = reading.in;

    assert_int_equal(reading.r, 0);
    assert_int_equal(in->batch->n, 1);
    const struct event *e = fixture_find(in, "void gemm<float>()");
    assert_int_equal(e->ts, 1000);
    assert_int_equal(e->dur, 500);
    assert_int_equal(e->phase, EVENT_COMPLETE);
    assert_string_equal(fixture_category(in, e), "kernel");

    const struct thread_entry *thread = &in->threads[e->thread];
    const struct process_entry *process = &in->processes[thread->process];
    assert_int_equal(thread->tid, 7);
    assert_string_equal(fixture_text(in, thread->name), "stream 7 ");
    assert_int_equal(process->pid, 2);
    assert_string_equal(fixture_text(in, process->labels), "GPU 2");
    assert_string_equal(fixture_text(in, process->name), "H100");

    static const struct {
        enum column column;
        int64_t value;
    } wanted[] = {
        {COL_gpu_correlation, 33},
        {COL_gpu_device, 2},
        {COL_gpu_context, 1},
        {COL_gpu_stream, 7},
        {COL_gpu_registers, 40},
        {COL_gpu_grid_x, 5},
        {COL_gpu_grid_y, 6},
        {COL_gpu_grid_z, 7},
        {COL_gpu_block_x, 128},
        {COL_gpu_block_y, 2},
        {COL_gpu_block_z, 1},
        {COL_gpu_shared_memory, 300},
        {COL_gpu_graph_node_id, COLUMN_NULL},
        {COL_gpu_bytes, COLUMN_NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        assert_int_equal(fixture_arg(in, e, wanted[i].column), wanted[i].value);
    assert_int_equal(in->meta[META_devices], 1);
    assert_int_equal(in->meta[META_sm_count], 132);
    assert_string_equal(fixture_text(in, (uint32_t)in->meta[META_device_name]), "H100");
}

static void test_copies_sets_and_syncs(void **state)
{
    _cleanup_(reading_done) struct reading reading = read_sql(copies_sql, "");
    struct intake *in = reading.in;

    assert_int_equal(reading.r, 0);
    const struct event *e = fixture_find(in, "Memcpy DtoH (Device -> Pinned)");
    assert_string_equal(fixture_category(in, e), "gpu_memcpy");
    assert_int_equal(fixture_arg(in, e, COL_gpu_bytes), 4096);
    fixture_find(in, "Memcpy Unknown (Unknown -> Unknown)");
    e = fixture_find(in, "Memset (Device)");
    assert_string_equal(fixture_category(in, e), "gpu_memset");

    /* The context says which GPU it is, the row does not. */
    e = fixture_find(in, "Context Sync");
    assert_string_equal(fixture_category(in, e), "cuda_sync");
    assert_int_equal(in->threads[e->thread].tid, -1);
    assert_int_equal(in->processes[in->threads[e->thread].process].pid, 3);
    assert_int_equal(fixture_arg(in, e, COL_gpu_device), 3);
    assert_int_equal(fixture_arg(in, e, COL_gpu_stream), -1);
    assert_string_equal(fixture_text(in, (uint32_t)fixture_arg(in, e, COL_gpu_sync_kind)), "Context Sync");
    assert_int_equal(in->n_processes, 1);
}

static void test_calls_and_names(void **state)
{
    _cleanup_(reading_done) struct reading reading = read_sql(strings_sql, calls_sql);
    struct intake *in = reading.in;

    assert_int_equal(reading.r, 0);
    const struct event *e = fixture_find(in, "cudaLaunchKernel");
    assert_string_equal(fixture_category(in, e), "cuda_runtime");
    assert_int_equal(fixture_arg(in, e, COL_runtime_correlation), 33);
    assert_string_equal(fixture_category(in, fixture_find(in, "cuLaunchKernel")), "cuda_driver");
    assert_int_equal(in->n_threads, 1);
    assert_int_equal(in->threads[0].tid, 9);
    assert_string_equal(fixture_text(in, in->threads[0].name), "python");
    assert_int_equal(in->processes[0].pid, 7);
    assert_string_equal(fixture_text(in, in->processes[0].name), "vllm");
}

static void test_nvtx(void **state)
{
    _cleanup_(reading_done) struct reading reading = read_sql(strings_sql, nvtx_sql);
    struct intake *in = reading.in;

    assert_int_equal(reading.r, 0);
    assert_int_equal(in->batch->n, 4);
    assert_int_equal(fixture_find(in, "pushed")->dur, 4);
    assert_int_equal(fixture_find(in, "open")->phase, EVENT_BEGIN);
    assert_int_equal(fixture_find(in, "from an id")->phase, EVENT_INSTANT);
    assert_string_equal(fixture_category(in, fixture_find(in, "a\xEF\xBF\xBD\x62")), "user_annotation");
    assert_int_equal(in->defects.count[DEFECT_bad_utf8], 1);
}

static void test_missing_columns(void **state)
{
    _cleanup_(reading_done) struct reading reading = read_sql(strings_sql, old_sql);
    struct intake *in = reading.in;

    assert_int_equal(reading.r, 0);
    assert_int_equal(fixture_sum(in, "kernel").count, 2);
    assert_int_equal(fixture_sum(in, "kernel").ns, 2);
    assert_int_equal(in->defects.count[DEFECT_no_ts], 1);
    assert_int_equal(in->defects.count[DEFECT_no_dur], 1);
    assert_int_equal(in->defects.count[DEFECT_negative_dur], 1);
    assert_int_equal(fixture_arg(in, fixture_find(in, "void gemm<float>()"), COL_gpu_correlation), 5);
    assert_int_equal(fixture_arg(in, fixture_find(in, "cudaLaunchKernel"), COL_runtime_correlation), 5);
    assert_int_equal(fixture_arg(in, fixture_find(in, "void gemm<float>()"), COL_gpu_grid_x), COLUMN_NULL);
}

/* Ids and streams that two processes both use are two. */
static void test_processes_distinguished(void **state)
{
    _cleanup_(reading_done) struct reading reading = read_sql(strings_sql, two_processes_sql);
    struct intake *in = reading.in;

    assert_int_equal(reading.r, 0);
    const struct event *a = &in->batch->events[0], *b = &in->batch->events[1], *call = &in->batch->events[2];
    assert_int_not_equal(a->thread, b->thread);
    assert_int_equal(in->threads[a->thread].process, in->threads[b->thread].process);
    assert_int_equal(fixture_arg(in, a, COL_gpu_correlation), 5);
    assert_int_equal(fixture_arg(in, b, COL_gpu_correlation), 5 + NSYS_CORRELATION_STEP);
    assert_int_equal(fixture_arg(in, call, COL_runtime_correlation), 5 + NSYS_CORRELATION_STEP);
    assert_int_equal(fixture_arg(in, b, COL_gpu_stream), 7);
}

/* Each process counts the GPUs that it may use from 0. */
static void test_visible_devices(void **state)
{
    _cleanup_(reading_done) struct reading reading = read_sql(two_processes_sql, devices_sql);

    assert_int_equal(reading.r, 0);
    assert_int_equal(fixture_arg(reading.in, &reading.in->batch->events[0], COL_gpu_device), 4);
    assert_int_equal(fixture_arg(reading.in, &reading.in->batch->events[1], COL_gpu_device), 5);
    assert_int_equal(reading.in->meta[META_devices], 2);
}

static void test_time_base(void **state)
{
    static const char tables[] = TABLE("TARGET_INFO_SESSION_START_TIME", "utcEpochNs",
                                       "(1779630014975716426)") TABLE(KERNEL, "start, end", "(1, 2)");
#define SETTINGS(normalize, shift)                                                                           \
    TABLE("META_DATA_EXPORT", "name, value",                                                                 \
          "('EXPORT_PARAM_TIME_NORMALIZE', '" normalize "'), ('EXPORT_PARAM_TIME_SHIFT', '" shift "')")
    static const struct {
        const char *settings;
        int64_t base;
    } cases[] = {
        {"", 1779630014975716426},
        {SETTINGS("false", "0"), 1779630014975716426},
        {SETTINGS("false", "26"), 1779630014975716400},
        {SETTINGS("true", "0"), COLUMN_NULL},
        {"DROP TABLE TARGET_INFO_SESSION_START_TIME", COLUMN_NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(reading_done) struct reading reading = read_sql(tables, cases[i].settings);
        assert_int_equal(reading.r, 0);
        assert_int_equal(reading.in->meta[META_base_time_ns], cases[i].base);
    }
}

static void test_refused(void **state)
{
    static const char *const sql[] = {
        "CREATE TABLE other (x)",
        ("CREATE TABLE a (start, end); INSERT INTO a VALUES (1, 2);"
         "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS SELECT start, end FROM a"),
        "CREATE VIRTUAL TABLE CUPTI_ACTIVITY_KIND_KERNEL USING fts5(start, end)",
    };
    for (size_t i = 0; i < ARRAY_SIZE(sql); i++) {
        _cleanup_(reading_done) struct reading reading = read_sql(sql[i], "");
        assert_int_equal(reading.r, -EBADMSG);
        assert_non_null(strstr(reading.reason, "none of the tables"));
        assert_int_equal(reading.in->batch->n, 0);
    }

    unsigned char *garbage = xcalloc(100, 1);
    _cleanup_(reading_done) struct reading reading = read_bytes(garbage, 100);
    assert_int_equal(reading.r, -EBADMSG);
    assert_non_null(strstr(reading.reason, "cannot be read"));
}

/* A view in the place of the strings is not asked. */
static void test_strings_view(void **state)
{
    _cleanup_(reading_done) struct reading reading =
        read_sql("CREATE VIEW StringIds AS SELECT 1 AS id, 'x' AS value",
                 TABLE(KERNEL, "start, end, demangledName", "(1, 3, 1)"));

    assert_int_equal(reading.r, 0);
    assert_int_equal(reading.in->batch->events[0].name, 0);
}

static unsigned char *real_database(const char *name, size_t *ret_size)
{
    _cleanup_(freep) char *path = xasprintf("%s/nsys/%s.sqlite.gz", TRACES_DIR, name), *packed = NULL;
    _cleanup_(stream_freep) struct stream *s = NULL;
    struct stream_summary sum;
    size_t size;

    if (read_file(AT_FDCWD, path, REAL_SIZE_MAX, &packed, &size) < 0)
        return NULL;
    unsigned char *data = xcalloc(REAL_SIZE_MAX, 1);
    struct stream_io io = {(const uint8_t *)packed, size, data, REAL_SIZE_MAX};
    assert_int_equal(stream_new(STREAM_LIMITS_DEFAULT, &s), 0);
    stream_decode(s, &io);
    stream_finish(s, &sum);
    assert_int_equal(sum.result, STREAM_COMPLETE);
    *ret_size = sum.out;
    return data;
}

static int64_t ask(sqlite3 *db, const char *sql, const char *table)
{
    _cleanup_(freep) char *whole = xasprintf(sql, table);
    sqlite3_stmt *s = NULL;
    int64_t value = 0;

    if (sqlite3_prepare_v2(db, whole, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        value = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return value;
}

/* Counts and sums beside those that SQL takes from the same file. */
static void test_real(void **state)
{
    static const struct {
        const char *category;
        const char *tables[2];
    } kinds[] = {
        {"kernel", {"CUPTI_ACTIVITY_KIND_KERNEL"}},
        {"gpu_memcpy", {"CUPTI_ACTIVITY_KIND_MEMCPY"}},
        {"gpu_memset", {"CUPTI_ACTIVITY_KIND_MEMSET"}},
        {"cuda_sync", {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"}},
        {"cuda_runtime", {"CUPTI_ACTIVITY_KIND_RUNTIME WHERE eventClass = 0"}},
        {"cuda_driver", {"CUPTI_ACTIVITY_KIND_RUNTIME WHERE eventClass = 1"}},
        {"user_annotation", {"NVTX_EVENTS"}},
        {"overhead", {"PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"}},
    };
    static const char *const names[] = {"h100_2gpu_1s", "mock"};

    for (size_t k = 0; k < ARRAY_SIZE(names); k++) {
        size_t size;
        unsigned char *data = real_database(names[k], &size);
        sqlite3 *db = NULL;

        if (!data) {
            print_message("no real databases beside the checkout\n");
            skip();
        }
        _cleanup_(reading_done) struct reading reading = read_bytes(data, size);
        assert_int_equal(reading.r, 0);
        assert_string_equal(reading.reason, "");
        assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
        sqlite3_deserialize(db, "main", data, (sqlite3_int64)size, (sqlite3_int64)size,
                            SQLITE_DESERIALIZE_READONLY);
        for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
            struct fixture_sum wanted = {0}, got = fixture_sum(reading.in, kinds[i].category);
            for (size_t t = 0; t < 2 && kinds[i].tables[t]; t++) {
                wanted.count += ask(db, "SELECT count(*) FROM %s", kinds[i].tables[t]);
                wanted.ns += ask(db, "SELECT sum(end - start) FROM %s", kinds[i].tables[t]);
                wanted.ts += ask(db, "SELECT sum(start) FROM %s", kinds[i].tables[t]);
            }
            assert_int_equal(got.count, wanted.count);
            assert_int_equal(got.ns, wanted.ns);
            assert_int_equal(got.ts, wanted.ts);
        }
        assert_true(reading.in->batch->n > 0);
        sqlite3_close(db);
    }
}

/* A byte wrong, each time another one: an answer. */
static void test_damaged(void **state)
{
    size_t size;
    _cleanup_(freep) unsigned char *data = real_database("mock", &size);

    if (!data) {
        print_message("no real databases beside the checkout\n");
        skip();
    }
    for (size_t at = 100; at < size; at += 1009) {
        unsigned char *copy = xcalloc(size, 1);
        memcpy(copy, data, size);
        copy[at] ^= 0xFF;
        _cleanup_(reading_done) struct reading reading = read_bytes(copy, size);
        assert_true(reading.r == 0 || reading.r == -EBADMSG);
        if (reading.in->defects.count[DEFECT_corrupt_stream] > 0)
            assert_string_not_equal(reading.reason, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel),
        cmocka_unit_test(test_copies_sets_and_syncs),
        cmocka_unit_test(test_calls_and_names),
        cmocka_unit_test(test_nvtx),
        cmocka_unit_test(test_missing_columns),
        cmocka_unit_test(test_processes_distinguished),
        cmocka_unit_test(test_visible_devices),
        cmocka_unit_test(test_time_base),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_strings_view),
        cmocka_unit_test(test_real),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
