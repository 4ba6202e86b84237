/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is read of real trace files at collection, against values that Python's gzip, json and decimal modules
 * gave for the same files.
 */
#include "base/fs.h"
#include "tests/unit/cmocka-all.h"
#include "tests/unit/real-traces.h"
#include "trace/read/decompress.h"
#include "trace/read/format.h"
#include "trace/read/span.h"
#include <fcntl.h>

#define FILE_SIZE_MAX (64 << 20)

struct reading {
    struct stream_summary sum;
    struct trace_ends ends;
    struct span span;
};

static void decode(struct stream *s, struct text_window *w, struct span *span, const char *data, size_t size)
{
    struct stream_io io = {.in = (const uint8_t *)data, .in_size = size};
    do {
        size_t capacity;
        uint8_t *out = window_room(w, &capacity);
        io.out = out;
        io.out_size = capacity;
        stream_decode(s, &io);
        span_feed(span, (const char *)out, capacity - io.out_size);
        window_filled(w, capacity - io.out_size);
    } while (io.in_size > 0 || io.out_size == 0);
}

static struct reading read_trace(const char *data, size_t size)
{
    struct reading r = {0};
    _cleanup_(stream_freep) struct stream *s = NULL;
    _cleanup_(window_freep) struct text_window *w = NULL;
    struct ends_input in;

    assert_int_equal(stream_new(STREAM_LIMITS_DEFAULT, &s), 0);
    assert_int_equal(window_new(&w), 0);
    decode(s, w, &r.span, data, size);
    stream_finish(s, &r.sum);
    span_finish(&r.span);
    assert_int_equal(window_total(w), r.sum.out);
    in.total = r.sum.out;
    in.head = window_head(w, &in.head_size);
    in.tail = window_tail(w, &in.tail_size);
    ends_read(&in, &r.ends);
    return r;
}

static struct reading read_file_of(const char *name)
{
    char path[512];
    _cleanup_(freep) char *data = NULL;
    size_t size;

    snprintf(path, sizeof(path), "%s/%s", TRACES_DIR, name);
    print_message("%s\n", name);
    assert_int_equal(read_file(AT_FDCWD, path, FILE_SIZE_MAX, &data, &size), 0);
    return read_trace(data, size);
}

static void test_complete_traces(void **state)
{
    static const struct {
        const char *name;
        uint64_t size;
        int64_t rank, world_size, pid, devices, base_time_ns;
        uint64_t events;
        int64_t first_ns, length_ns;
        const char *device_name;
    } cases[] = {
        {"hta/mtia_rank_0.json.gz", 86940133, 0, 1, 3100453, 0, 1727743122000000000, 138373, 3605054728338344,
         13621658448, ""},
        {"tracelens/xdit_flux_aiter_sage_rank0.json.gz", 63473039, 0, 1, 425, 1, 1782967788000000000, 218573,
         4026150068462228, 250360312, "AMD Instinct MI300X"},
        {"lightllm_decode_8rank/rank1.pt.trace.json.gz", 1747541, 1, 8, 3090495, 8, 1735632360000000000, 2421,
         7774616687689555, 211065735, "NVIDIA H200"},
        {"torchrec_sst4_4rank/rank1.pt.trace.json.gz", 2215048, 1, 4, 44238, 8, -1, 7013, 1698957660982238000,
         747903000, "Tesla V100-SXM2-16GB"},
        {"hta/ns_resolution_rank0.json.gz", 15377659, 0, 1, 1102, 8, -1, 45420, 1712195495406752797,
         590344145, "Tesla V100-SXM2-32GB"},
        {"hta/cpu_only_rank34.json.gz", 2587530, 34, 300, 1074, 0, 1719853884000000000, 7480,
         1212075525586016, 1289526102, ""},
        {"hta/rank_not_found.json.gz", 1043430, -1, -1, 3113936, -1, -1, 2467, 1661203462598738000, 75542000,
         ""},
        {"hta/critical_path_alexnet.json.gz", 319512, 0, -1, 2869224, 8, -1, 868, 1695835542481129000,
         43458523000, "NVIDIA A100-PG509-200"},
        {"kineto/resnet50_2021_workers0.json.gz", 35154637, -1, -1, 25738, 4, -1, 44666, 1623142623460016000,
         1065723000, "Tesla V100-DGXS-32GB"},
        {"tracelens/b200_eager_rank0.json.gz", 14243142, 0, 8, 6583, 8, 1767189312000000000, 22355,
         1365627862757064, 87412863, "NVIDIA B200"},
        {"tracelens/h100_qwen15.json.gz", 8647357, -1, -1, 25286, 1, 1751410836000000000, 12080,
         1428625731456483, 49840032, "NVIDIA H100 80GB HBM3"},
        {"hta/call_stack_backward_thread.json", 4369, 0, -1, 3914, -1, -1, 7, 1666149715033200000, 413451000,
         ""},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (!has_real_trace(cases[i].name))
            continue;
        struct reading r = read_file_of(cases[i].name);
        assert_int_equal(r.sum.result, STREAM_COMPLETE);
        assert_int_equal(r.sum.out, cases[i].size);
        assert_int_equal(r.ends.format, FORMAT_KINETO);
        assert_true(r.ends.closes);
        assert_int_equal(r.ends.rank, cases[i].rank);
        assert_int_equal(r.ends.world_size, cases[i].world_size);
        assert_int_equal(r.ends.pid, cases[i].pid);
        assert_int_equal(r.ends.devices, cases[i].devices);
        assert_int_equal(r.ends.base_time_ns, cases[i].base_time_ns);
        assert_string_equal(r.ends.device_name, cases[i].device_name);
        assert_int_equal(r.span.events, cases[i].events);
        assert_int_equal(r.span.first_ns, cases[i].first_ns);
        assert_int_equal(r.span.last_ns - r.span.first_ns, cases[i].length_ns);
    }
}

static void test_other_formats(void **state)
{
    static const struct {
        const char *name, *format;
    } cases[] = {
        {"tracelens/rocprofv3_908_results.json.gz", "rocprofv3"},
        {"hta/memory_timeline.raw.json.gz", "memory-timeline"},
        {"ao/memory_timeline.json.gz", "memory-timeline"},
        {"nsys/h100_2gpu_1s.sqlite.gz", "nsys-sqlite"},
        {"nsys/mock.sqlite.gz", "nsys-sqlite"},
        {"kineto/chrome_generic_phases.json", "chrome"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (!has_real_trace(cases[i].name))
            continue;
        struct reading r = read_file_of(cases[i].name);
        assert_string_equal(format_name(r.ends.format), cases[i].format);
        assert_int_equal(r.sum.result, STREAM_COMPLETE);
        assert_true(r.ends.closes);
    }
}

/* One defect each, which costs no more than the event that it is in. */
static void test_malformed_traces(void **state)
{
    static const struct {
        const char *name;
        bool closes;
        uint64_t events;
    } cases[] = {
        {"malformed/bad_escape.json.gz", true, 6813},
        {"malformed/bad_utf8.json.gz", true, 6813},
        {"malformed/control_char.json.gz", true, 6813},
        {"malformed/dupkey.json.gz", true, 6813},
        {"malformed/inf.json.gz", true, 6813},
        {"malformed/newline_in_name.json.gz", true, 6813},
        {"malformed/trailing_comma.json.gz", true, 6813},
        {"malformed/missing_dur.json.gz", true, 6812},
        {"malformed/nan.json.gz", true, 6812},
        {"malformed/neg_frac.json.gz", true, 6812},
        {"malformed/truncated.json.gz", false, 5545},
        {"malformed/truncated_before_gzip.json.gz", false, 5545},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (!has_real_trace(cases[i].name))
            continue;
        struct reading r = read_file_of(cases[i].name);
        assert_int_equal(r.sum.result, STREAM_COMPLETE);
        assert_int_equal(r.ends.closes, cases[i].closes);
        assert_int_equal(r.span.events, cases[i].events);
        assert_int_equal(r.ends.rank, 0);
        assert_int_equal(r.ends.world_size, 4);
        assert_int_equal(r.ends.pid, 45920);
    }
    struct reading cut = read_file_of("malformed/truncated_gz.json.gz");
    assert_int_equal(cut.sum.result, STREAM_TRUNCATED);
    assert_string_equal(cut.sum.reason, "gzip ends after 200000 bytes");
    assert_int_equal(cut.ends.rank, 0);
    assert_true(cut.span.events > 8000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete_traces),
        cmocka_unit_test(test_other_formats),
        cmocka_unit_test(test_malformed_traces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
