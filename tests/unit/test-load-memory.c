/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of this very process and of GPUs that are none, and the sampler that looks at both. */
#include "base/alloc.h"
#include "daemon/load/sampler.h"
#include "daemon/load/statistics.h"
#include "tests/unit/run-fixture.h"

#include <sys/mman.h>
#include <sys/wait.h>

static void test_texts_of_proc(void **state)
{
    static const char rollup[] = "55d0c1a00000-7ffd4b9fe000 ---p 00000000 00:00 0   [rollup]\n"
                                 "Rss:                1964 kB\n"
                                 "Pss:                 518 kB\n"
                                 "Pss_Dirty:           124 kB\n";

    assert_int_equal(smaps_rollup_bytes(rollup, "Pss"), 518 << 10);
    assert_int_equal(smaps_rollup_bytes(rollup, "Rss"), 1964 << 10);
    assert_int_equal(smaps_rollup_bytes(rollup, "Swap"), -1);
    assert_int_equal(smaps_rollup_bytes("Pss: 99999999999999999999 kB", "Pss"), -1);
    assert_int_equal(smaps_rollup_bytes("Pss: -1 kB", "Pss"), -1);
    assert_int_equal(smaps_rollup_bytes("", "Pss"), -1);
    assert_int_equal(statm_rss_bytes("1000 20 3 4 5 6 7\n"), 20 * sysconf(_SC_PAGESIZE));
    assert_int_equal(statm_rss_bytes("1000"), -1);
    assert_int_equal(statm_rss_bytes("1000 x"), -1);
}

static void test_a_process_that_grows(void **state)
{
    enum { SIZE = 64 << 20 };
    pid_t self = getpid();
    struct process_memory before, after;

    assert_int_equal(process_memory_read(&self, 1, true, &before), 0);
    char *grown = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(grown != MAP_FAILED);
    memset(grown, 1, SIZE);
    assert_int_equal(process_memory_read(&self, 1, true, &after), 0);
    munmap(grown, SIZE);
    /* Either counts what a thread has not yet told of, a few pages, as not there. */
    assert_true(after.rss_bytes - before.rss_bytes > SIZE * 9 / 10);
    assert_true(after.pss_bytes - before.pss_bytes > SIZE * 9 / 10);
    assert_true(after.pss_bytes <= after.rss_bytes + (1 << 20));
    assert_int_equal(process_memory_read(&self, 1, false, &after), 0);
    assert_int_equal(after.pss_bytes, -1);
}

static void test_a_process_that_is_gone(void **state)
{
    struct process_memory m;
    pid_t child = fork();

    if (child == 0)
        _exit(0);
    siginfo_t info;
    waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
    /* Ended, and still in the tree. */
    const pid_t both[] = {getpid(), child};
    assert_int_equal(process_memory_read(both, 2, true, &m), 0);
    assert_true(m.pss_bytes > 0);
    waitpid(child, NULL, 0);
    assert_int_equal(process_memory_read(&child, 1, true, &m), -ESRCH);
    assert_int_equal(process_memory_read(NULL, 0, true, &m), -ESRCH);
}

static void test_gpus(void **state)
{
    struct gpus *g = NULL;
    struct gpu_sample first, second;
    char reason[GPU_REASON_MAX];
    pid_t others[] = {1}, mine[] = {1, getpid()};

    assert_int_equal(gpus_open(FAKE_NVML, &g, reason), 0);
    assert_int_equal(gpus_count(g), 2);
    assert_string_equal(gpu_name(g, 1), "Fake 1");
    gpu_read(g, 0, &first);
    gpu_read(g, 1, &second);
    assert_int_equal(first.memory_total_bytes, 80LL << 30);
    assert_int_equal(first.memory_bytes, 1LL << 30);
    assert_int_equal(second.memory_bytes, 2LL << 30);
    assert_int_equal(first.utilisation_percent, 42);
    assert_int_equal(first.sm_clock_mhz, 1980);
    assert_int_equal(first.memory_clock_mhz, 2619);
    assert_int_equal(second.sm_clock_mhz, -1);
    assert_false(gpu_is_used_by(g, 0, mine, 2));
    assert_true(gpu_is_used_by(g, 1, mine, 2));
    assert_false(gpu_is_used_by(g, 1, others, 1));
    gpus_close(g);
}

static void test_no_gpus(void **state)
{
    struct gpus *g = NULL;
    char reason[GPU_REASON_MAX];

    assert_int_equal(gpus_open("libprofd-none.so.1", &g, reason), -ENOENT);
    assert_non_null(strstr(reason, "libprofd-none.so.1 is not installed"));
    assert_int_equal(gpus_open("libm.so.6", &g, reason), -ENOSYS);
    assert_non_null(strstr(reason, "too old"));
    assert_null(g);
}

static void test_series(void **state)
{
    struct series s = {0};
    _cleanup_json_ none = series_json(&s);

    assert_true(json_is_null(none));
    series_add(&s, 10);
    series_add(&s, -1);
    series_add(&s, 30);
    series_add(&s, 5);
    _cleanup_json_ j = series_json(&s);
    assert_near(j, "baseline", 10, 0);
    assert_near(j, "peak", 30, 0);
    assert_near(j, "difference", 20, 0);
    assert_near(j, "low", 5, 0);
    assert_near(j, "mean", 15, 0);
    assert_near(j, "std", 10.801234, 1e-5);
    assert_near(j, "n", 3, 0);
    assert_near(j, "end", 5, 0);
}

/* Grows a child while the sampler looks at it, and another that is on no host. */
static void test_sampler(void **state)
{
    enum { SIZE = 32 << 20 };
    struct event_base *base = event_base_new();
    struct sampler *s = NULL;
    int begin[2], grown[2];
    char byte = 0;

    assert_int_equal(pipe(begin) | pipe(grown), 0);
    pid_t child = fork();
    if (child == 0) {
        close(begin[1]);
        if (read(begin[0], &byte, 1) == 1) {
            mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
            if (write(grown[1], &byte, 1) == 1 && read(begin[0], &byte, 1) == 0)
                _exit(0);
        }
        _exit(1);
    }
    const struct sampler_target targets[] = {{"http://here:1", child}, {"http://there:2", 0}};
    assert_int_equal(sampler_new(base, targets, 2, &s), 0);
    assert_int_equal(write(begin[1], &byte, 1), 1);
    assert_int_equal(read(grown[0], &byte, 1), 1);
    _cleanup_json_ j = sampler_result(s);
    assert_null(sampler_free(s));
    close(begin[1]);
    waitpid(child, NULL, 0);
    event_base_free(base);
    close(begin[0]);
    close(grown[0]);
    close(grown[1]);
    assert_near(j, "samples", 2, 0);
    assert_text(j, "workers/0/url", "http://here:1");
    assert_true(json_number_value(json_at(j, "workers/0/rss_bytes/difference")) > SIZE * 9 / 10);
    assert_true(json_is_null(json_at(j, "workers/1/rss_bytes")));
    assert_text(j, "workers/1/reason", "the worker runs on another host");
    assert_int_equal(json_array_size(json_at(j, "timeline")), 2);
    assert_true(json_is_array(json_at(j, "gpus")) || json_is_string(json_at(j, "gpus_reason")));
}

static void test_sampler_looks_every_second(void **state)
{
    struct event_base *base = event_base_new();
    const struct sampler_target self = {"http://here:1", getpid()};
    const struct timeval a_little_more = {1, 300000};
    struct sampler *s = NULL;

    assert_int_equal(sampler_new(base, &self, 1, &s), 0);
    event_base_loopexit(base, &a_little_more);
    event_base_dispatch(base);
    _cleanup_json_ j = sampler_result(s);
    assert_true(json_integer_value(json_at(j, "samples")) >= 3);
    assert_null(sampler_free(s));
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_of_proc),
        cmocka_unit_test(test_a_process_that_grows),
        cmocka_unit_test(test_a_process_that_is_gone),
        cmocka_unit_test(test_gpus),
        cmocka_unit_test(test_no_gpus),
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_sampler),
        cmocka_unit_test(test_sampler_looks_every_second),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
