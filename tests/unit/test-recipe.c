/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "client/recipe/launch.h"
#include "client/recipe/rules.h"
#include "tests/unit/cmocka-all.h"
#include <stdlib.h>
#include <time.h>

/* The job of srtctl's own documentation of December 2025. */
#define RESOURCES                                                                                            \
    "resources:\n  gpu_type: gb200\n  prefill_nodes: 1\n  decode_nodes: 1\n  prefill_workers: 1\n"           \
    "  decode_workers: 1\n  gpus_per_node: 4\n"
#define IN_PHASE(type)                                                                                       \
    "name: profiling-torch\nmodel:\n  path: dsfp8\n" RESOURCES "profiling:\n  type: " type "\n"              \
    "  prefill:\n    isl: 1024\n    osl: 128\n    concurrency: 24\n    start_step: 10\n    stop_step: 40\n"  \
    "  decode:\n    isl: 1024\n    osl: 64\n    concurrency: 256\n"
#define SGLANG                                                                                               \
    "backend:\n  prefill_environment:\n    B: 1 2\n    A: yes\n  sglang_config:\n    prefill:\n"             \
    "      tensor-parallel-size: 4\n      model-path: /model/\n      disaggregation_mode: prefill\n"         \
    "      trust_remote_code: true\n      disable_x: false\n      lora: [a, b]\n"
#define AGGREGATED(workers, profiling, benchmark)                                                            \
    "resources: {agg_nodes: 2, agg_workers: " workers "}\nprofiling: " profiling "\nbenchmark: " benchmark   \
    "\n"
#define STEPS     "{type: torch, aggregated: {start_step: 10, stop_step: 20}}"
#define BENCHMARK "{type: sa-bench, isl: 1000, osl: 500, concurrencies: 4x8}"

static void parse(const char *text, struct recipe *ret)
{
    _cleanup_(problem_done) struct problem p = {0};

    if (recipe_parse("job.yaml", text, strlen(text), ret, &p) < 0)
        fail_msg("%s", p.what);
}

static void test_load_in_the_phases(void **state)
{
    _cleanup_(recipe_done) struct recipe r = {0};
    const struct recipe_phase *prefill = &r.phases[RECIPE_PREFILL], *decode = &r.phases[RECIPE_DECODE];

    parse(IN_PHASE("torch"), &r);
    assert_int_equal(r.type, RECIPE_TORCH);
    assert_int_equal(r.generation, RECIPE_LOAD_IN_PHASE);
    assert_true(r.disaggregated);
    assert_int_equal(prefill->isl, 1024);
    assert_int_equal(prefill->osl, 128);
    assert_int_equal(prefill->concurrency, 24);
    assert_int_equal(prefill->start_step, 10);
    assert_int_equal(prefill->stop_step, 40);
    assert_int_equal(decode->concurrency, 256);
    assert_int_equal(decode->start_step, 0);
    assert_int_equal(decode->stop_step, 50);
    assert_int_equal(decode->gpus, 4);
    assert_false(r.phases[RECIPE_AGGREGATED].present);
}

static void test_load_beside_the_phases(void **state)
{
    _cleanup_(recipe_done) struct recipe r = {0};

    parse(RESOURCES "profiling:\n  type: nsys\n  isl: 7\n  osl: 8\n  concurrency: 9\n  prefill: {}\n"
                    "  decode: {start_step: 1, stop_step: 2}\n",
          &r);
    assert_int_equal(r.generation, RECIPE_LOAD_IN_PROFILING);
    assert_int_equal(r.phases[RECIPE_PREFILL].isl, 7);
    assert_int_equal(r.phases[RECIPE_DECODE].concurrency, 9);
}

static void test_load_in_the_benchmark(void **state)
{
    static const struct {
        const char *text;
        int64_t concurrency;
    } cases[] = {
        {AGGREGATED("2", STEPS, BENCHMARK), 4},
        {AGGREGATED("2", STEPS, "{type: sa-bench, isl: 1000, osl: 500, concurrencies: [16, 32]}"), 16},
        {AGGREGATED("2", STEPS, "{type: sa-bench, isl: 1000, osl: 500, concurrencies: 3}"), 3},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(problem_done) struct problem p = {0};
        _cleanup_(recipe_done) struct recipe r = {0};
        const struct recipe_phase *phase = &r.phases[RECIPE_AGGREGATED];
        parse(cases[i].text, &r);
        assert_int_equal(r.generation, RECIPE_LOAD_IN_BENCHMARK);
        assert_false(r.disaggregated);
        assert_int_equal(phase->isl, 1000);
        assert_int_equal(phase->osl, 500);
        assert_int_equal(phase->concurrency, cases[i].concurrency);
        assert_int_equal(recipe_check(&r, false, &p), 0);
    }
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *text, *what;
    } cases[] = {
        {"profiling: [", "job.yaml: "},
        {"- a", "job.yaml:1: this is no job of srtctl"},
        {"name: x\nprofiling: 3\n", "job.yaml:2: profiling must be a section"},
        {"name: x\nprofiling:\n  type: torsch\n",
         "job.yaml:3: profiling.type is 'torsch', but must be one of"},
        {"profiling:\n  prefill: 3\n", "job.yaml:2: profiling.prefill must be a section"},
        {"profiling:\n  prefill:\n    isl: -3\n", "job.yaml:3: profiling.prefill.isl must be a whole number"},
        {"profiling:\n  prefill:\n    isl: many\n",
         "job.yaml:3: profiling.prefill.isl must be a whole number"},
        {"resources: {agg_workers: 1.5}\n", "job.yaml:1: resources.agg_workers must be a whole number"},
        {"resources: {gpus_per_node: 1025}\n", "job.yaml:1: resources.gpus_per_node must be at most 1024"},
        {IN_PHASE("torch") "backend: {type: trtllm}\n",
         "job.yaml:12: torch profiling is not supported for the trtllm backend; use nsys instead"},
        {AGGREGATED("1", "{type: nsys-time, delay_secs: 3}", BENCHMARK),
         "job.yaml:2: profiling.delay_secs and profiling.duration_secs are required for nsys-time mode"},
        {IN_PHASE("torch") "  aggregated: {}\n", "job.yaml:23: Disaggregated mode only supports "
                                                 "profiling.prefill/decode; profiling.aggregated is not "
                                                 "allowed."},
        {RESOURCES "profiling: {type: torch, prefill: {}}\nbenchmark: " BENCHMARK "\n",
         "job.yaml:8: Disaggregated mode requires both profiling.prefill and profiling.decode to be set"},
        {AGGREGATED("1", "{type: torch, decode: {}}", BENCHMARK),
         "job.yaml:2: Aggregated mode only supports profiling.aggregated; profiling.prefill/decode are not "
         "allowed."},
        {AGGREGATED("1", "{type: torch}", BENCHMARK),
         "job.yaml:2: Aggregated mode requires profiling.aggregated to be set"},
        {AGGREGATED("0", STEPS, BENCHMARK), "job.yaml:1: Aggregated mode requires agg_workers to be > 0."},
        {"resources: {prefill_nodes: 1}\nprofiling: {type: torch, prefill: {}, decode: "
         "{}}\nbenchmark: " BENCHMARK "\n",
         "job.yaml:1: Disaggregated mode requires prefill_workers and decode_workers to be > 0."},
        {AGGREGATED("1", "{type: nsys, aggregated: {}}",
                    BENCHMARK) "backend:\n  vllm_config:\n    aggregated: {profiler-config.profiler: cuda}\n",
         "job.yaml:5: vllm_config.aggregated sets ['profiler-config.profiler'], but profiler-config.* is"},
        {IN_PHASE("torch") "benchmark:\n  type: mmlu\n",
         "job.yaml:24: Cannot enable profiling with benchmark type 'mmlu'. Profiling mode is mutually "
         "exclusive "
         "with benchmarking."},
        {AGGREGATED("2", "{type: torch, isl: 1, osl: 1, concurrency: 1, aggregated: {}}", "{type: manual}"),
         "job.yaml:1: Profiling mode requires single worker only. Got agg_workers=2"},
        {AGGREGATED("1", STEPS, "{type: manual}"), "job.yaml:2: profiling.isl/osl/concurrency must be set "
                                                   "when profiling is enabled. Got isl=None, osl=None, "
                                                   "concurrency=None"},
        {RESOURCES
         "profiling:\n  type: torch\n  prefill: {isl: 1, osl: 2, concurrency: 3}\n  decode: {isl: 5}\n",
         "job.yaml:11: profiling.decode.isl/osl/concurrency must be set when profiling is enabled. Got "
         "isl=5, "
         "osl=None, concurrency=None"},
        {AGGREGATED("1", "{type: none}", "{type: custom}"),
         "job.yaml:3: benchmark names no load, and profiling.type is none: there is nothing to do"},
        {AGGREGATED("1", "{type: torch, aggregated: {start_step: 9, stop_step: 9}}", BENCHMARK),
         "job.yaml:2: invalid step range: start=9 stop=9"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(problem_done) struct problem p = {0};
        _cleanup_(recipe_done) struct recipe r = {0};
        int err = recipe_parse("job.yaml", cases[i].text, strlen(cases[i].text), &r, &p);
        if (err == 0)
            err = recipe_check(&r, false, &p);
        if (err != -EINVAL || !p.what || !starts_with(p.what, cases[i].what))
            fail_msg("case %zu: '%s' instead of '%s'", i, p.what, cases[i].what);
    }
}

static void test_only_the_worker_limit_is_lifted(void **state)
{
    static const char text[] =
        AGGREGATED("2", "{type: torch, isl: 1, osl: 1, concurrency: 1, aggregated: {}}", "{type: manual}");
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(recipe_done) struct recipe r = {0};

    parse(text, &r);
    assert_int_equal(recipe_check(&r, false, &p), -EINVAL);
    assert_non_null(strstr(p.remedy, "--no-single-worker-limit"));
    assert_int_equal(recipe_check(&r, true, NULL), 0);
}

static char *nsys_text(const char *text, const struct launch_place *place, int n, char *const *command)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(recipe_done) struct recipe r = {0};
    _cleanup_(launch_done) struct launch l = {0};

    parse(text, &r);
    return launch_nsys(&r, place, n, command, &l, &p) < 0 ? xstrdup(p.what) : launch_text(&l);
}

static void assert_nsys(const char *text, const struct launch_place *place, const char *expected)
{
    _cleanup_(freep) char *line = nsys_text(text, place, 1, (char *const[]){(char *)"serve it", NULL});
    assert_string_equal(line, expected);
}

/* Compared with what get_nsys_prefix() of srt-slurm returns. */
static void test_nsys_lines(void **state)
{
    const struct launch_place decode = {.mode = RECIPE_DECODE, .rank = 1, .node = "n3"},
                              aggregated = {.mode = RECIPE_AGGREGATED, .worker = 2, .node = "n3"},
                              unnamed = {.mode = RECIPE_AGGREGATED};

    assert_nsys(
        IN_PHASE("nsys"), &decode,
        "nsys profile -t cuda,nvtx --cuda-graph-trace=node -c cudaProfilerApi --capture-range-end stop "
        "--force-overwrite true -o /logs/profiles/decode_1 'serve it'");
    assert_nsys(
        AGGREGATED("4", "{type: nsys, aggregated: {}, extra_nsys_args: [--stats=true]}", BENCHMARK),
        &aggregated,
        "nsys profile -t cuda,nvtx --cuda-graph-trace=node -c cudaProfilerApi --capture-range-end stop "
        "--force-overwrite true --stats=true --trace-fork-before-exec=true -o "
        "/logs/profiles/agg/n3_agg_w2_profile_gpu0-1 'serve it'");
    assert_nsys(
        AGGREGATED("1", "{type: nsys-time, delay_secs: 60, duration_secs: 5}",
                   BENCHMARK) "frontend: {type: sglang}\n",
        &unnamed,
        "nsys profile -t cuda,nvtx --cuda-graph-trace=node --force-overwrite true --delay 60 --duration 5 "
        "-o \"/logs/profiles/agg/${SLURMD_NODENAME}_agg_w0_profile_gpu0-1-2-3\" 'serve it'");
    assert_nsys(
        AGGREGATED("1", "{type: nsys, aggregated: {}}", BENCHMARK) "backend: {type: trtllm}\n", &aggregated,
        "TLLM_PROFILE_START_STOP=0-50 TLLM_LLMAPI_ENABLE_NVTX=1 nsys profile -t cuda,nvtx,ucx --sample=none "
        "--cuda-graph-trace=node -c cudaProfilerApi --capture-range-end stop --kill none --wait all "
        "--force-overwrite true -o /logs/profiles/agg/n3_agg_w2_profile_gpu0-1-2-3 'serve it'");
    assert_nsys(IN_PHASE("torch"), &decode, "job.yaml:12: profiling.type is torch, which needs no nsys");
    assert_nsys(IN_PHASE("nsys"), &aggregated, "job.yaml has no aggregated workers");
}

static void test_a_worker_that_cannot_be_told(void **state)
{
    _cleanup_(freep) char *line =
        nsys_text(AGGREGATED("1", "{type: nsys, aggregated: {}}", BENCHMARK) "backend: {type: trtllm}\n",
                  &(struct launch_place){.mode = RECIPE_AGGREGATED}, 0, NULL);
    assert_string_equal(line, "job.yaml: the command of a worker of trtllm cannot be told from it");
}

static void test_vllm_line(void **state)
{
    _cleanup_(freep) char *line =
        nsys_text(AGGREGATED("1", "{type: nsys, aggregated: {start_step: 5, stop_step: 45}}",
                             BENCHMARK) "model: {path: m}\nbackend:\n  vllm_config:\n    aggregated: "
                                        "{tensor_parallel_size: 2, connector: x}\n",
                  &(struct launch_place){.mode = RECIPE_AGGREGATED, .node = "n"}, 0, NULL);
    assert_non_null(strstr(line,
                           " vllm serve m --tensor-parallel-size 2 --profiler-config "
                           "'{\"profiler\": \"cuda\", \"delay_iterations\": 5, \"max_iterations\": 40}'"));
}

static void test_torch_line(void **state)
{
    _cleanup_(recipe_done) struct recipe r = {0};
    _cleanup_(launch_done) struct launch l = {0};

    parse(IN_PHASE("torch") SGLANG, &r);
    assert_int_equal(launch_torch(&r, &(struct launch_place){.mode = RECIPE_PREFILL}, &l, NULL), 0);
    _cleanup_(freep) char *line = launch_text(&l);
    assert_string_equal(line, "B='1 2' A=True SGLANG_TORCH_PROFILER_DIR=/logs/profiles/prefill python3 -m "
                              "sglang.launch_server --lora a b --model-path /model/ --tensor-parallel-size 4 "
                              "--trust-remote-code");
}

static void test_a_name_that_would_be_a_command(void **state)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(recipe_done) struct recipe r = {0};
    _cleanup_(launch_done) struct launch l = {0};

    parse(IN_PHASE("torch") "backend:\n  prefill_environment:\n    'A; rm x;': 1\n", &r);
    assert_int_equal(launch_torch(&r, &(struct launch_place){.mode = RECIPE_PREFILL}, &l, &p), -EINVAL);
    assert_string_equal(p.what, "job.yaml:23: 'A; rm x;' is no name of an environment variable");
}

static void test_quotes(void **state)
{
    _cleanup_(recipe_done) struct recipe r = {0};
    _cleanup_(launch_done) struct launch l = {0};

    parse(IN_PHASE("torch") "backend:\n  prefill_environment:\n    A: \"it's $(x)\"\n    B: ''\n"
                            "  sglang_config:\n    prefill:\n      'x;y': '`z`'\n",
          &r);
    assert_int_equal(launch_torch(&r, &(struct launch_place){.mode = RECIPE_PREFILL}, &l, NULL), 0);
    _cleanup_(freep) char *line = launch_text(&l);
    assert_string_equal(line,
                        "A='it'\\''s $(x)' B= SGLANG_TORCH_PROFILER_DIR=/logs/profiles/prefill python3 -m "
                        "sglang.launch_server '--x;y' '`z`'");
}

/* Seen by bash as they were, by a terminal as nothing that it obeys. */
static void test_what_terminals_obey_is_escaped(void **state)
{
    _cleanup_(recipe_done) struct recipe r = {0};
    _cleanup_(launch_done) struct launch l = {0};

    parse(IN_PHASE("torch") "backend:\n  prefill_environment:\n    A: \"\\e[2J1'\\\\\\n\"\n"
                            "  sglang_config:\n    prefill:\n      x: \"\\u009b\"\n",
          &r);
    assert_int_equal(launch_torch(&r, &(struct launch_place){.mode = RECIPE_PREFILL}, &l, NULL), 0);
    _cleanup_(freep) char *line = launch_text(&l);
    assert_string_equal(line,
                        "A=$'\\033[2J1\\047\\134\\012' SGLANG_TORCH_PROFILER_DIR=/logs/profiles/prefill "
                        "python3 -m sglang.launch_server --x $'\\302\\233'");
}

static void test_folder(void **state)
{
    _cleanup_(recipe_done) struct recipe r = {0}, a = {0};

    setenv("TZ", "UTC", 1);
    tzset();
    parse(IN_PHASE("torch"), &r);
    parse(AGGREGATED("2", STEPS, BENCHMARK), &a);
    _cleanup_(freep) char *disaggregated = recipe_folder(&r, "3667", INT64_C(1762802505) * NS_PER_S),
                          *aggregated = recipe_folder(&a, "3667", INT64_C(1762802505) * NS_PER_S);
    assert_string_equal(disaggregated, "3667_1P_1D_20251110_192145");
    assert_string_equal(aggregated, "3667_2A_20251110_192145");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load_in_the_phases),
        cmocka_unit_test(test_load_beside_the_phases),
        cmocka_unit_test(test_load_in_the_benchmark),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_only_the_worker_limit_is_lifted),
        cmocka_unit_test(test_nsys_lines),
        cmocka_unit_test(test_a_worker_that_cannot_be_told),
        cmocka_unit_test(test_vllm_line),
        cmocka_unit_test(test_torch_line),
        cmocka_unit_test(test_a_name_that_would_be_a_command),
        cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_what_terminals_obey_is_escaped),
        cmocka_unit_test(test_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
