/* SPDX-License-Identifier: Apache-2.0 */
/* The text that makes Kineto record: only what Kineto reads as it is meant. */
#include "base/alloc.h"
#include "daemon/kineto/config_text.h"
#include "tests/unit/cmocka-all.h"

static const struct kineto_recording recording = {
    .trace_file = "/tmp/profd-s7/t1.pt.trace.json",
    .trace_root = "/tmp",
    .trace_id = "s7.t1",
    .start_ms = 1700000012000,
    .duration_ms = 2000,
    .warmup_s = 5,
};

static void test_text(void **state)
{
    _cleanup_(freep) char *text = kineto_config_text(&recording, NULL);

    assert_string_equal(text, "ACTIVITIES_LOG_FILE=/tmp/profd-s7/t1.pt.trace.json\n"
                              "REQUEST_TRACE_ID=s7.t1\n"
                              "PROFILE_START_TIME=1700000012000\n"
                              "ACTIVITIES_DURATION_MSECS=2000\n"
                              "ACTIVITIES_WARMUP_PERIOD_SECS=5\n"
                              "PROFILE_REPORT_INPUT_SHAPES=false\n"
                              "PROFILE_PROFILE_MEMORY=false\n"
                              "PROFILE_WITH_STACK=false\n"
                              "PROFILE_WITH_FLOPS=false\n"
                              "PROFILE_WITH_MODULES=false\n");
}

static void test_options(void **state)
{
    struct kineto_recording r = recording;

    r.types = "cpu_op,kernel";
    r.buffer_mib = 512;
    r.warmup_s = 0;
    r.with_stack = r.with_shapes = true;
    _cleanup_(freep) char *text = kineto_config_text(&r, NULL);
    assert_non_null(strstr(text,
                           "\nACTIVITIES_WARMUP_PERIOD_SECS=0\nACTIVITY_TYPES=cpu_op,kernel\n"
                           "ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB=512\nPROFILE_REPORT_INPUT_SHAPES=true\n"));
    assert_non_null(strstr(text, "\nPROFILE_WITH_STACK=true\n"));
}

static void check_refused(const struct kineto_recording *r, const char *part)
{
    _cleanup_(problem_done) struct problem p = {0};

    assert_null(kineto_config_text(r, &p));
    assert_non_null(strstr(p.what, part));
}

static void test_files(void **state)
{
    static const struct {
        const char *path, *part;
    } cases[] = {
        {NULL, "is not set"},
        {"tmp/a.json", "is not absolute"},
        {"/tmp/a=b/a.json", "contains \"=\""},
        {"/tmp/a#b/a.json", "contains"},
        {"/tmp/a\nb/a.json", "contains"},
        {"/tmp/a\tb/a.json", "contains"},
        {"/tmp/a\x7f/a.json", "contains"},
        {"/tmp/../etc/a.json", "\"..\""},
        {"/tmp/a..b.json", "\"..\""},
        {"/tmp/a.json ", "ends in a space"},
        {"/tmp/a", "\".json\" at the end"},
        {"/tmp/a.json/b.json", "\".json\" at the end"},
        {"/tmp/a.json.gz", "\".json\" at the end"},
        {"/tmpx/a.json", "below /tmp only"},
        {"/tmp.json", "below /tmp only"},
        {"/var/a.json", "below /tmp only"},
    };
    struct kineto_recording r = recording;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        r.trace_file = cases[i].path;
        check_refused(&r, cases[i].part);
    }
    _cleanup_(freep) char *path = xcalloc(KINETO_PATH_MAX + 2, 1);
    memset(path, 'a', KINETO_PATH_MAX + 1);
    path[0] = '/';
    memcpy(path + KINETO_PATH_MAX - 4, ".json", 5);
    r.trace_file = path;
    check_refused(&r, "longer than 1024 bytes");
}

static void test_allowed_files(void **state)
{
    static const struct {
        const char *path, *root;
    } cases[] = {{"/tmp/a b.json", "/tmp/"},
                 {"/srv/traces/a.pt.trace.json", "/srv/traces"},
                 {"/x/a.json", NULL},
                 {"/a.json", "/"}};
    struct kineto_recording r = recording;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        r.trace_file = cases[i].path;
        r.trace_root = cases[i].root;
        _cleanup_(freep) char *text = kineto_config_text(&r, NULL);
        assert_non_null(text);
    }
}

static void test_values(void **state)
{
    struct kineto_recording r = recording;

#define REFUSED(member, value, part)                                                                         \
    do {                                                                                                     \
        r = recording;                                                                                       \
        r.member = (value);                                                                                  \
        check_refused(&r, part);                                                                             \
    } while (0)
    REFUSED(trace_id, NULL, "id of the trace");
    REFUSED(trace_id, "", "id of the trace");
    REFUSED(trace_id, "a=b", "id of the trace");
    REFUSED(trace_id, "a b", "id of the trace");
    REFUSED(duration_ms, 0, "needs a duration");
    REFUSED(duration_ms, KINETO_DURATION_MAX_MS + 1, "needs a duration");
    REFUSED(start_ms, 0, "needs a start time");
    REFUSED(warmup_s, -1, "warm-up");
    REFUSED(warmup_s, KINETO_WARMUP_MAX_S + 1, "warm-up");
    REFUSED(types, "", "list of activity types");
    REFUSED(types, "kernel\nPROFILE_WITH_STACK=true", "list of activity types");
    REFUSED(buffer_mib, -1, "buffer");
}

static void check_written(const char *path, const char *expected)
{
    _cleanup_(freep) char *file = kineto_written_file(path, 17);
    assert_string_equal(file, expected);
}

static void test_written_file(void **state)
{
    check_written("/t/a.pt.trace.json", "/t/a_17.pt.trace.json");
    check_written("/t/a.json", "/t/a_17.json");
    check_written("/t/a.txt", "/t/a.txt");
    check_written("/t/a.json/b.pt.trace.json", "/t/a.json/b_17.pt.trace.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),   cmocka_unit_test(test_options),
        cmocka_unit_test(test_files),  cmocka_unit_test(test_allowed_files),
        cmocka_unit_test(test_values), cmocka_unit_test(test_written_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
