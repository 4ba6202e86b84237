/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real traces: all of them read without a defect, damaged ones with exactly theirs, and the same whatever the
 * processor and the pieces.
 */
#include "base/fs.h"
#include "tests/unit/real-traces.h"
#include "tests/unit/scan-fixture.h"
#include "trace/read/decompress.h"
#include <fcntl.h>

#define FILE_SIZE_MAX (64 << 20)
#define TEXT_SIZE_MAX (128 << 20)

struct text {
    char *p;
    size_t size;
};

static void text_free(struct text *t)
{
    free(t->p);
}

static struct text load(const char *name)
{
    _cleanup_(freep) char *data = NULL;
    _cleanup_(stream_freep) struct stream *stream = NULL;
    struct text t = {.p = malloc(TEXT_SIZE_MAX)};
    struct stream_io io = {.out = (uint8_t *)t.p, .out_size = TEXT_SIZE_MAX};
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", TRACES_DIR, name);
    assert_non_null(t.p);
    assert_int_equal(read_file(AT_FDCWD, path, FILE_SIZE_MAX, &data, &io.in_size), 0);
    io.in = (const uint8_t *)data;
    assert_int_equal(stream_new(STREAM_LIMITS_DEFAULT, &stream), 0);
    stream_decode(stream, &io);
    t.size = TEXT_SIZE_MAX - io.out_size;
    return t;
}

/* Events as Python's json module counts them. */
static void test_complete_traces(void **state)
{
    static const struct {
        const char *name;
        uint64_t events;
    } traces[] = {
        {"tracelens/xdit_flux_aiter_sage_rank0.json.gz", 229459},
        {"tracelens/b200_eager_rank0.json.gz", 24656},
        {"tracelens/h100_qwen15.json.gz", 18221},
        {"tracelens/vllm_piecewise_graph.json.gz", 19289},
        {"tracelens/torch_compile_triton.json.gz", 246},
        {"hta/trace_diff_control.json.gz", 109123},
        {"hta/ns_resolution_rank0.json.gz", 68692},
        {"hta/nccl_data_rank0.json.gz", 40573},
        {"hta/triton_example.json.gz", 71},
        {"hta/call_stack_backward_thread.json", 7},
        {"kineto/resnet50_2021_workers0.json.gz", 75718},
        {"kineto/chrome_generic_phases.json", 37},
        {"sglang_decode_8rank/rank0.pt.trace.json.gz", 5538},
    };

    for (size_t i = 0; i < ARRAY_SIZE(traces); i++) {
        if (!has_real_trace(traces[i].name))
            continue;
        _cleanup_(text_free) struct text t = load(traces[i].name);
        _cleanup_scanned_ struct scanned s = scan_in_pieces(t.p, t.size, SCAN_SIMD_BEST, 1 << 20, false);
        print_message("%s\n", traces[i].name);
        assert_int_equal(s.state, SCAN_AFTER);
        assert_int_equal(s.events, traces[i].events);
        for (int k = 0; k < _DEFECT_MAX; k++)
            assert_int_equal(s.in->defects.count[k], 0);
    }
}

static void test_damaged_traces(void **state)
{
    enum { WHOLE = 9452 };
    static const struct {
        const char *name;
        uint64_t events;
        enum scan_state state;
        uint64_t place;
        enum defect_kind defects[2];
        size_t n;
    } traces[] = {
        {"bad_escape", WHOLE, SCAN_AFTER, 4029, {DEFECT_bad_escape}, 1},
        {"bad_utf8", WHOLE, SCAN_AFTER, 4029, {DEFECT_bad_utf8}, 1},
        {"control_char", WHOLE, SCAN_AFTER, 4029, {DEFECT_control_char}, 1},
        {"newline_in_name", WHOLE, SCAN_AFTER, 4029, {DEFECT_control_char}, 1},
        {"dupkey", WHOLE, SCAN_AFTER, 3392, {DEFECT_duplicate_key}, 1},
        {"inf", WHOLE, SCAN_AFTER, 935055, {DEFECT_bad_number}, 1},
        {"missing_dur", WHOLE, SCAN_AFTER, 3392, {DEFECT_no_dur}, 1},
        {"nan", WHOLE, SCAN_AFTER, 8654, {DEFECT_bad_number, DEFECT_no_dur}, 2},
        {"neg_frac", WHOLE, SCAN_AFTER, 8654, {DEFECT_bad_number, DEFECT_no_dur}, 2},
        {"trailing_comma", WHOLE, SCAN_AFTER, 0, {0}, 0},
        {"truncated", 6869, SCAN_EVENTS, 1499899, {DEFECT_truncated}, 1},
        {"truncated_before_gzip", 6869, SCAN_EVENTS, 1499899, {DEFECT_truncated}, 1},
        {"truncated_gz", 9541, SCAN_EVENTS, 2303934, {DEFECT_truncated}, 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(traces); i++) {
        char name[64];
        uint64_t expected[_DEFECT_MAX] = {0};
        snprintf(name, sizeof(name), "malformed/%s.json.gz", traces[i].name);
        print_message("%s\n", name);
        for (size_t k = 0; k < traces[i].n; k++)
            expected[traces[i].defects[k]] = 1;
        _cleanup_(text_free) struct text t = load(name);
        _cleanup_scanned_ struct scanned s = scan_in_pieces(t.p, t.size, SCAN_SIMD_BEST, 1 << 16, false);
        assert_int_equal(s.events, traces[i].events);
        assert_int_equal(s.state, traces[i].state);
        for (int k = 0; k < _DEFECT_MAX; k++) {
            assert_int_equal(s.in->defects.count[k], expected[k]);
            if (expected[k])
                assert_int_equal(s.in->defects.first[k], traces[i].place);
        }
    }
}

static void test_any_pieces_and_processors(void **state)
{
    static const struct {
        const char *name;
        size_t least; /* pieces of this many bytes, and then of ever more */
    } traces[] = {
        {"kineto/chrome_generic_phases.json", 1},
        {"hta/triton_example.json.gz", 3},
        {"hta/event_sync_multi_stream.json.gz", 61},
        {"malformed/bad_utf8.json.gz", 30011},
        {"sglang_decode_8rank/rank3.pt.trace.json.gz", 30011},
        {"tracelens/mi210_gpu_only.json.gz", 30011},
        {"kineto/resnet50_2021_workers0.json.gz", 1 << 20},
    };

    for (size_t i = 0; i < ARRAY_SIZE(traces); i++) {
        _cleanup_(text_free) struct text t = load(traces[i].name);
        _cleanup_scanned_ struct scanned whole = scan_in_pieces(t.p, t.size, SCAN_SIMD_PLAIN, t.size, false);
        print_message("%s\n", traces[i].name);
        for (size_t k = 0; k < ARRAY_SIZE(all_simds); k++) {
            if (!has_simd(all_simds[k]))
                continue;
            for (size_t more = traces[i].least; more < 2 * t.size; more += more / 2 + 1) {
                _cleanup_scanned_ struct scanned s = scan_in_pieces(t.p, t.size, all_simds[k], more, false);
                assert_int_equal(s.digest, whole.digest);
                assert_int_equal(s.events, whole.events);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete_traces),
        cmocka_unit_test(test_damaged_traces),
        cmocka_unit_test(test_any_pieces_and_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
