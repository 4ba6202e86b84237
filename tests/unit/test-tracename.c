/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "trace/read/tracename.h"

#define UNKNOWN                                                                                              \
    .dp = -1, .pp = -1, .tp = -1, .dcp = -1, .ep = -1, .rank = -1, .local_rank = -1, .count = -1, .pid = -1, \
    .time_ns = -1

#pragma GCC diagnostic ignored "-Woverride-init"
#ifdef __clang__
#pragma clang diagnostic ignored "-Winitializer-overrides"
#endif

static const struct {
    const char *path;
    struct trace_name want;
} cases[] = {
    {"dp0_pp0_tp3_dcp0_ep3_rank3.1763647331123456789.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_VLLM, .dp = 0, .pp = 0, .tp = 3, .dcp = 0,
      .ep = 3, .rank = 3, .time_ns = 1763647331123456789}},
    {"run_7_dp12_pp1_tp0_dcp2_ep4_rank9.17.pt.trace.json",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_VLLM, .dp = 12, .pp = 1, .tp = 0, .dcp = 2,
      .ep = 4, .rank = 9, .time_ns = 17000000, .prefix = "run_7"}},
    {"rank5.1763647331123456789.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_VLLM, .rank = 5,
      .time_ns = 1763647331123456789}},
    {"warm_rank5.1763647331123456789.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_VLLM, .rank = 5,
      .time_ns = 1763647331123456789, .prefix = "warm"}},
    {"vllm-engine-rank-11.1763647331123456789.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_VLLM, .rank = 11,
      .time_ns = 1763647331123456789, .prefix = "vllm-engine"}},
    {"gpu-07_3090494.1743406976912802812.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_TORCH, .pid = 3090494,
      .time_ns = 1743406976912802812, .host = "gpu-07"}},
    {"ip-172-31-16-248.us-east-2.compute.internal_44237.1698957662168769395.pt.trace.json",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_TORCH, .pid = 44237,
      .time_ns = 1698957662168769395, .host = "ip-172-31-16-248.us-east-2.compute.internal"}},
    {"gpu_07_815.async_llm.1763647331123456789.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_FRONTEND, .writer = TRACE_WRITER_VLLM, .pid = 815,
      .time_ns = 1763647331123456789, .host = "gpu_07"}},
    {"worker0.1623143089861.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_TORCH, .time_ns = 1623143089861000000,
      .host = "worker0"}},
    {"libkineto_activities_2910249.json",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_TORCH, .pid = 2910249}},
    {"gpu-07_77.1763647331123456789.pt.trace.json.tmp",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_TORCH, .unfinished = true, .pid = 77,
      .time_ns = 1763647331123456789, .host = "gpu-07"}},
    {"profiler_out_3.txt",
     {UNKNOWN, .kind = TRACE_NAME_ATTACHMENT, .writer = TRACE_WRITER_VLLM, .local_rank = 3}},
    {"proton_dp0_pp1_tp2_dcp3_ep4_rank5_pid678_0123456789abcdef0123456789abcdef_run2.hatchet",
     {UNKNOWN, .kind = TRACE_NAME_ATTACHMENT, .writer = TRACE_WRITER_VLLM, .dp = 0, .pp = 1, .tp = 2,
      .dcp = 3, .ep = 4, .rank = 5, .pid = 678}},
    {"capture_traces/dp0_pp0_tp0_dcp0_ep0_rank0.5000000000000000.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_CAPTURE, .writer = TRACE_WRITER_VLLM, .dp = 0, .pp = 0, .tp = 0, .dcp = 0,
      .ep = 0, .rank = 0, .time_ns = 5000000000000000}},
    {"/traces/capture_traces/sub/whatever.bin", {UNKNOWN, .kind = TRACE_NAME_CAPTURE}},
    {"1763647331.25-TP-1.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_SGLANG, .tp = 1,
      .time_ns = 1763647331250000000, .profile_id = "1763647331.25"}},
    {"s7-w3-TP-1-DP-2-PP-3-EP-4.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_SGLANG, .tp = 1, .dp = 2, .pp = 3, .ep = 4,
      .profile_id = "s7-w3"}},
    {"s7-TP-1-EP-4-DECODE.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_SGLANG, .tp = 1, .ep = 4,
      .stage = TRACE_STAGE_DECODE, .profile_id = "s7"}},
    {"pre-s7-TP-0-EXTEND.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_SGLANG, .tp = 0, .stage = TRACE_STAGE_PREFILL,
      .profile_id = "pre-s7"}},
    {"s7-TP-0-prefill.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_SGLANG, .tp = 0, .stage = TRACE_STAGE_PREFILL,
      .profile_id = "s7"}},
    {"a-TP-9-TP-2-DP-1-decode.trace.json",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_SGLANG, .tp = 2, .dp = 1,
      .stage = TRACE_STAGE_DECODE, .profile_id = "a-TP-9"}},
    {"merged-s7.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_ATTACHMENT, .writer = TRACE_WRITER_SGLANG, .profile_id = "s7"}},
    {"1763647331-TP-0-memory-DECODE.pickle",
     {UNKNOWN, .kind = TRACE_NAME_ATTACHMENT, .writer = TRACE_WRITER_SGLANG, .tp = 0,
      .stage = TRACE_STAGE_DECODE, .time_ns = 1763647331000000000, .profile_id = "1763647331"}},
    {"rpd-1763647331.5-TP-6.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_ATTACHMENT, .writer = TRACE_WRITER_SGLANG, .tp = 6,
      .time_ns = 1763647331500000000, .profile_id = "1763647331.5"}},
    {"graph_capture_profile/cuda_graph_capture-EagleRunner-TP-2.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_CAPTURE, .writer = TRACE_WRITER_SGLANG, .tp = 2}},
    {"s7-w0-1763647331123_wr3_12.json",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_RTP_LLM, .rank = 3, .count = 12,
      .profile_id = "s7-w0-1763647331123"}},
    {"profiler_ts1763647331123456_wr0_1.json",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_RTP_LLM, .rank = 0, .count = 1,
      .time_ns = 1763647331123456000}},
    {"profiler_ts9999999999999999999_wr0_1.json",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_RTP_LLM, .rank = 0, .count = 1,
      .profile_id = "profiler_ts9999999999999999999"}},
    {"my_wr1.json", {UNKNOWN, .kind = TRACE_NAME_OTHER}},
    {"mine.trace.json.zst", {UNKNOWN, .kind = TRACE_NAME_RANK}},
    {"snapshot.pickle", {UNKNOWN, .kind = TRACE_NAME_ATTACHMENT}},
    {"decode_1.nsys-rep",
     {UNKNOWN, .kind = TRACE_NAME_ATTACHMENT, .writer = TRACE_WRITER_SRTCTL, .rank = 1,
      .stage = TRACE_STAGE_DECODE}},
    {"gb-01_prefill_w2_profile_gpu0-1-2-3.nsys-rep",
     {UNKNOWN, .kind = TRACE_NAME_ATTACHMENT, .writer = TRACE_WRITER_SRTCTL, .host = "gb-01",
      .stage = TRACE_STAGE_PREFILL}},
    {"n_agg_w0_profile_rank12.nsys-rep",
     {UNKNOWN, .kind = TRACE_NAME_ATTACHMENT, .writer = TRACE_WRITER_SRTCTL, .host = "n", .rank = 12}},
    {"decode_1.sqlite",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_SRTCTL, .rank = 1,
      .stage = TRACE_STAGE_DECODE}},
    {"n_agg_w0_profile_rank12.sqlite",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_SRTCTL, .host = "n", .rank = 12}},
    {"trtllm-trace-1770372002-9f3a01bc-rank-3.json",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_TENSORRT_LLM, .rank = 3,
      .time_ns = 1770372002000000000, .profile_id = "1770372002-9f3a01bc"}},
    {"/tmp/trace-rank-12.json",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_TENSORRT_LLM, .rank = 12}},
    {"trace.json-rank-1.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_TENSORRT_LLM, .rank = 1}},
    {"/t/rank_3/Qwen3-8B_ts_20260822_213144_123.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_ATOM, .rank = 3}},
    {"dp1_tp2/Qwen3-8B_ts_20260822_213144_123.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_ATOM, .dp = 1, .tp = 2}},
    {"/t/decode/pp1_dp0_tp3/DeepSeek-R1_ts_20260822_213144_123.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_ATOM, .pp = 1, .dp = 0, .tp = 3,
      .stage = TRACE_STAGE_DECODE}},
    {"/t/pp1_rank_0/m_ts_20260822_213144_123.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_ATOM, .pp = 1, .tp = 0}},
    {"/other/m_ts_20260822_213144_123.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_ATOM}},
    {"rank_3-Qwen3-8B_ts_20260822_213144_123.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_ATOM, .rank = 3}},
    {"prefill-dp1_tp2-m_ts_20260822_213144_123.pt.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_ATOM, .dp = 1, .tp = 2,
      .stage = TRACE_STAGE_PREFILL}},
    {"rank_0/m_ts_20260822_213144_123.pt.trace.json",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_ATOM, .rank = 0, .intermediate = true}},
    {"rank_0/capture_traces/bs_8_q_1_rank0.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_CAPTURE, .writer = TRACE_WRITER_ATOM, .rank = 0}},
    {"20260822-213144-TP3.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_TOKENSPEED, .tp = 3,
      .profile_id = "20260822-213144"}},
    {"20260822-213144-DP1-TP0-EXTEND.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_TOKENSPEED, .dp = 1, .tp = 0,
      .stage = TRACE_STAGE_PREFILL, .profile_id = "20260822-213144"}},
    {"s1-w0-CP2-TP0-DECODE.trace.json.gz",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_TOKENSPEED, .tp = 0,
      .stage = TRACE_STAGE_DECODE, .profile_id = "s1-w0"}},
    {"20260822-213144-TP0-memory.pickle",
     {UNKNOWN, .kind = TRACE_NAME_ATTACHMENT, .writer = TRACE_WRITER_TOKENSPEED, .tp = 0,
      .profile_id = "20260822-213144"}},
    {"20260822-213144-TP0.proton.hatchet",
     {UNKNOWN, .kind = TRACE_NAME_ATTACHMENT, .writer = TRACE_WRITER_TOKENSPEED, .tp = 0,
      .profile_id = "20260822-213144"}},
    {"20260822-213144-TP1.viztracer.json",
     {UNKNOWN, .kind = TRACE_NAME_ATTACHMENT, .writer = TRACE_WRITER_TOKENSPEED, .tp = 1,
      .profile_id = "20260822-213144"}},
    {"m_ts_2026_1.pt.trace.json", {UNKNOWN, .kind = TRACE_NAME_RANK}},
    {"report1.nsys-rep", {UNKNOWN, .kind = TRACE_NAME_ATTACHMENT}},
    {"run.hatchet", {UNKNOWN, .kind = TRACE_NAME_ATTACHMENT}},
    {"server_args.json", {UNKNOWN, .kind = TRACE_NAME_OTHER}},
    {"notes.txt", {UNKNOWN, .kind = TRACE_NAME_OTHER}},
    {"rank99999999999999999999.1.pt.trace.json",
     {UNKNOWN, .kind = TRACE_NAME_RANK, .writer = TRACE_WRITER_TORCH, .time_ns = 1000000,
      .host = "rank99999999999999999999"}},
    {"", {UNKNOWN, .kind = TRACE_NAME_OTHER}},
    {"-TP-1.trace.json", {UNKNOWN, .kind = TRACE_NAME_RANK}},
};

static void test_every_pattern(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct trace_name *want = &cases[i].want;
        struct trace_name n;

        print_message("%s\n", cases[i].path);
        trace_name_parse(cases[i].path, &n);
        assert_int_equal(n.kind, want->kind);
        assert_int_equal(n.writer, want->writer);
        assert_string_equal(trace_stage_name(n.stage), trace_stage_name(want->stage));
        assert_int_equal(n.unfinished, want->unfinished);
        assert_int_equal(n.intermediate, want->intermediate);
        assert_int_equal(n.dp, want->dp);
        assert_int_equal(n.pp, want->pp);
        assert_int_equal(n.tp, want->tp);
        assert_int_equal(n.dcp, want->dcp);
        assert_int_equal(n.ep, want->ep);
        assert_int_equal(n.rank, want->rank);
        assert_int_equal(n.local_rank, want->local_rank);
        assert_int_equal(n.count, want->count);
        assert_int_equal(n.pid, want->pid);
        assert_int_equal(n.time_ns, want->time_ns);
        assert_string_equal(n.host, want->host);
        assert_string_equal(n.prefix, want->prefix);
        assert_string_equal(n.profile_id, want->profile_id);
    }
}

static void test_directories_of_ranks(void **state)
{
    static const char *const yes[] = {"rank_0", "rank_127", "dp0_tp3", "pp1_rank_0", "pp0_dp1_tp2"},
                             *const no[] = {"rank0", "rank_",          "traces", "rank_0x",
                                            "dp1",   "capture_traces", "",       "rank_99999999999999999999"};

    for (size_t i = 0; i < ARRAY_SIZE(yes); i++)
        assert_true(trace_name_is_rank_dir(yes[i]));
    for (size_t i = 0; i < ARRAY_SIZE(no); i++)
        assert_false(trace_name_is_rank_dir(no[i]));
    assert_true(trace_name_is_stage_dir("prefill") && trace_name_is_stage_dir("decode"));
    assert_false(trace_name_is_stage_dir("rank_0"));
}

static void test_too_long(void **state)
{
    char name[400];
    struct trace_name n;

    memset(name, 'a', sizeof(name));
    strcpy(name + sizeof(name) - 12, ".trace.json");
    trace_name_parse(name, &n);
    assert_int_equal(n.kind, TRACE_NAME_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pattern),
        cmocka_unit_test(test_directories_of_ranks),
        cmocka_unit_test(test_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
