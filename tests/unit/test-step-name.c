/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "trace/reports/step_name.h"

#define NONE COLUMN_NULL

static const struct {
    const char *name;
    struct step_name expected;
} names[] = {
    {"execute_context_2(14721)_generation_0(0)", {STEP_VLLM, PHASE_PREFILL, NONE, 14721, 2}},
    {"execute_context_0(0)_generation_64(64)", {STEP_VLLM, PHASE_DECODE, NONE, 64, 64}},
    {"execute_context_2(6144)_generation_3(3)", {STEP_VLLM, PHASE_MIXED, NONE, 6147, 5}},
    {"execute_context_1(888_788544)_generation_0(0)", {STEP_VLLM, PHASE_PREFILL, NONE, 888, 1}},
    {"execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
     {STEP_VLLM, PHASE_DECODE, NONE, 32, 32}},
    {"execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)",
     {STEP_VLLM, PHASE_MIXED, NONE, 8192, 46}},
    {"execute_new_1_cached_0", {STEP_VLLM, PHASE_PREFILL, NONE, NONE, 1}},
    {"execute_new_0_cached_9", {STEP_VLLM, PHASE_DECODE, NONE, NONE, 9}},
    {"step[DECODE bs=32]", {STEP_SGLANG, PHASE_DECODE, NONE, 32, 32}},
    {"step[EXTEND bs=2 toks=14721]", {STEP_SGLANG, PHASE_PREFILL, NONE, 14721, 2}},
    {"step[MIXED bs=2]", {STEP_SGLANG, PHASE_MIXED, NONE, NONE, 2}},
    {"step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]",
     {STEP_SGLANG, PHASE_MIXED, NONE, 6, 2}},
    {"step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=262144 g_sk=131072]",
     {STEP_SGLANG, PHASE_DECODE, NONE, 128, 64}},
    {"step[IDLE bs=0]", {STEP_SGLANG, PHASE_UNKNOWN, NONE, NONE, 0}},
    {"prefill[bs=6 tok=17408 ctx=[4096, 4096, 4096]...+3]", {STEP_ATOM, PHASE_PREFILL, NONE, 17408, 6}},
    {"decode[bs=117/128 tok=117 d=117]", {STEP_ATOM, PHASE_DECODE, NONE, 117, 117}},
    {"[Executor] _forward_step 12: 1 ctx reqs, 7 gen reqs", {STEP_TENSORRT, PHASE_MIXED, 12, NONE, 8}},
    {"[Executor] _forward_step 3: 0 ctx reqs, 0 ctx tokens, 32 gen reqs",
     {STEP_TENSORRT, PHASE_DECODE, 3, 0, 32}},
    {"executor.mtp.prefill_step(prefill_stream_size=3)", {STEP_RTP_PHASE, PHASE_PREFILL, NONE, NONE, 3}},
    {"executor.mtp.decode_step(decode_stream_size=32)", {STEP_RTP_PHASE, PHASE_DECODE, NONE, NONE, 32}},
    {"rtp.execution(id=41)", {STEP_RTP_EXECUTION, PHASE_UNKNOWN, 41, NONE, NONE}},
    {"engine.normal.step_work", {STEP_RTP_ENGINE, PHASE_UNKNOWN, NONE, NONE, NONE}},
    {"execute_diffusion_1_256x256", {STEP_XDIT, PHASE_UNKNOWN, NONE, NONE, 1}},
    {"[pl][profile]run_training_batch", {STEP_LIGHTNING, PHASE_TRAINING, NONE, NONE, NONE}},
    {"ProfilerStep#1009", {STEP_PROFILER, PHASE_UNKNOWN, 1009, NONE, NONE}},
};

static void parse_names(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        struct step_name found = {0};
        const struct step_name *expected = &names[i].expected;
        if (!step_name_parse((struct text){names[i].name, strlen(names[i].name)}, &found))
            fail_msg("%s", names[i].name);
        if (found.source != expected->source || found.phase != expected->phase ||
            found.index != expected->index || found.tokens != expected->tokens ||
            found.requests != expected->requests)
            fail_msg("%s: %d %d %lld %lld %lld", names[i].name, (int)found.source, (int)found.phase,
                     (long long)found.index, (long long)found.tokens, (long long)found.requests);
    }
}

static void refuse_others(void **state)
{
    static const char *const others[] = {
        "",
        "step",
        "step[",
        "step[]",
        "step[DECODE]",
        "step[DECODE bs=]",
        "ProfilerStep",
        "ProfilerStep#",
        "ProfilerStep#1x",
        "ProfilerStep#12345678901234567890",
        "execute_context_1(2)_generation_0(0) ",
        "execute_context_(2)_generation_0(0)",
        "executor.mtp.decode_step(consume_accept_len_metrics)",
        "Optimizer.step#SGD.step",
        "decode[bs=",
        "scheduler.step",
    };
    struct step_name found;

    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (step_name_parse((struct text){others[i], strlen(others[i])}, &found))
            fail_msg("%s", others[i]);
    assert_false(step_name_parse((struct text){NULL, 0}, &found));
}

/* Every beginning of a name is refused without reading beyond it. */
static void refuse_beginnings(void **state)
{
    struct step_name found;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        for (size_t n = 0; n < strlen(names[i].name); n++) {
            char *part = malloc(n + 1);
            memcpy(part, names[i].name, n);
            char *exact = realloc(part, n ? n : 1);
            bool is_one = step_name_parse((struct text){exact, n}, &found);
            free(exact);
            if (is_one && found.source != STEP_PROFILER && found.source != STEP_VLLM &&
                found.source != STEP_XDIT && found.source != STEP_ATOM)
                fail_msg("%.*s", (int)n, names[i].name);
        }
}

static void find_phases(void **state)
{
    assert_int_equal(step_phase_find("decode"), PHASE_DECODE);
    assert_int_equal(step_phase_find("training"), PHASE_TRAINING);
    assert_int_equal(step_phase_find(""), _STEP_PHASE_MAX);
    assert_int_equal(step_phase_find("Decode"), _STEP_PHASE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_names),
        cmocka_unit_test(refuse_others),
        cmocka_unit_test(refuse_beginnings),
        cmocka_unit_test(find_phases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
