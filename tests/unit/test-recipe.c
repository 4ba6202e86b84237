/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "extras/srtctl/launch.h"
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

    if (recipe_parse("job.yaml", text, strlen(text), NULL, ret, &p) < 0)
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

static void test_load_during_the_phases(void **state)
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
        {AGGREGATED("2", STEPS, "{type: sa-bench, isl: '1000', osl: 500.0, concurrencies: ['3']}"), 3},
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
        assert_int_equal(recipe_check(&r, 0, &p), 0);
    }
}

/* "job.yaml:3:5: TEXT" as "job.yaml:3: TEXT": where columns are of no interest. The caller frees it. */
static char *without_column(const char *what)
{
    unsigned line, column;
    int n = 0;

    if (what && sscanf(what, "job.yaml:%u:%u:%n", &line, &column, &n) == 2 && n > 0)
        return xasprintf("job.yaml:%u:%s", line, what + n);
    return xstrdup(what ? what : "");
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
        {"profiling:\n  prefill:\n    isl: -3\n",
         "job.yaml:3: profiling.prefill.isl must be an integer from 0"},
        {"profiling:\n  prefill:\n    isl: many\n", "job.yaml:3: profiling.prefill.isl must be an integer"},
        {"resources: {agg_workers: 1.5}\n", "job.yaml:1: resources.agg_workers must be an integer"},
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
                    BENCHMARK) "backend:\n  type: vllm\n  vllm_config:\n    aggregated: "
                               "{profiler-config.profiler: cuda}\n",
         "job.yaml:6: vllm_config.aggregated sets ['profiler-config.profiler'], but profiler-config.* is"},
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
        {AGGREGATED("1", "{type: none}", "{type: manual}"),
         "job.yaml:3: benchmark names no load, and profiling.type is none: there is nothing to do"},
        {AGGREGATED("1", "{type: torch, aggregated: {start_step: 9, stop_step: 9}}", BENCHMARK),
         "job.yaml:2: invalid step range: start=9 stop=9"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(problem_done) struct problem p = {0};
        _cleanup_(recipe_done) struct recipe r = {0};
        int err = recipe_parse("job.yaml", cases[i].text, strlen(cases[i].text), NULL, &r, &p);
        if (err == 0)
            err = recipe_check(&r, 0, &p);
        _cleanup_(freep) char *what = without_column(p.what);
        if (err != -EINVAL || !starts_with(what, cases[i].what))
            fail_msg("case %zu: '%s' instead of '%s'", i, what, cases[i].what);
    }
}

static void test_only_the_worker_limit_is_lifted(void **state)
{
    static const char text[] =
        AGGREGATED("2", "{type: torch, isl: 1, osl: 1, concurrency: 1, aggregated: {}}", "{type: manual}");
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(recipe_done) struct recipe r = {0};

    parse(text, &r);
    assert_int_equal(recipe_check(&r, 0, &p), -EINVAL);
    assert_non_null(strstr(p.remedy, "--no-single-worker-limit"));
    assert_int_equal(recipe_check(&r, RECIPE_ANY_WORKERS, NULL), 0);
}

static char *nsys_text(const char *text, const struct launch_target *place, int n, char *const *command)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(recipe_done) struct recipe r = {0};
    _cleanup_(launch_done) struct recipe_launch l = {0};

    parse(text, &r);
    return launch_nsys(&r, place, n, command, &l, &p) < 0 ? xstrdup(p.what) : launch_text(&l);
}

static void assert_nsys(const char *text, const struct launch_target *place, const char *expected)
{
    _cleanup_(freep) char *line = nsys_text(text, place, 1, (char *const[]){(char *)"serve it", NULL});
    /* What goes before it are the variables of the worker. */
    size_t n = strlen(expected);
    if (strlen(line) < n || !streq(line + strlen(line) - n, expected))
        fail_msg("%s\ndoes not end with\n%s", line, expected);
}

/* Compared with what get_nsys_prefix() of srt-slurm returns. */
static void test_nsys_lines(void **state)
{
    const struct launch_target decode = {.mode = RECIPE_DECODE, .rank = 1, .node = "n3"},
                               aggregated = {.mode = RECIPE_AGGREGATED, .worker = 2, .node = "n3"},
                               first = {.mode = RECIPE_AGGREGATED, .node = "n3"},
                               second = {.mode = RECIPE_AGGREGATED, .worker = 1, .node = "n3"},
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
        AGGREGATED("4", "{type: nsys, aggregated: {}}", BENCHMARK), &second,
        "nsys profile -t cuda,nvtx --cuda-graph-trace=node -c cudaProfilerApi --capture-range-end stop "
        "--force-overwrite true --trace-fork-before-exec=true -o "
        "/logs/profiles/agg/n3_agg_w1_profile_gpu2-3 'serve it'");
    assert_nsys(
        AGGREGATED("1", "{type: nsys-time, delay_secs: 60, duration_secs: 5}",
                   BENCHMARK) "frontend: {type: sglang}\n",
        &unnamed,
        "nsys profile -t cuda,nvtx --cuda-graph-trace=node --force-overwrite true --delay 60 --duration 5 "
        "-o \"/logs/profiles/agg/${SLURMD_NODENAME}_agg_w0_profile_gpu0-1-2-3\" 'serve it'");
    assert_nsys(
        AGGREGATED("1", "{type: nsys, aggregated: {}}", BENCHMARK) "backend: {type: trtllm}\n", &first,
        "TLLM_PROFILE_START_STOP=0-50 TLLM_LLMAPI_ENABLE_NVTX=1 nsys profile -t cuda,nvtx,ucx --sample=none "
        "--cuda-graph-trace=node -c cudaProfilerApi --capture-range-end stop --kill none --wait all "
        "--force-overwrite true -o /logs/profiles/agg/n3_agg_w0_profile_gpu0-1-2-3 'serve it'");
    assert_nsys(IN_PHASE("torch"), &decode, "job.yaml:12:3: profiling.type is torch, which needs no nsys");
    assert_nsys(IN_PHASE("nsys"), &aggregated, "job.yaml has no aggregated workers");
}

static void test_a_worker_that_cannot_be_identified(void **state)
{
    _cleanup_(freep) char *line =
        nsys_text(AGGREGATED("1", "{type: nsys, aggregated: {}}", BENCHMARK) "backend: {type: trtllm}\n",
                  &(struct launch_target){.mode = RECIPE_AGGREGATED}, 0, NULL);
    assert_string_equal(line, "job.yaml: the command of a worker of trtllm is configured by a file that "
                              "srtctl writes when it starts it");
}

static void test_vllm_line(void **state)
{
    _cleanup_(freep) char *line = nsys_text(
        AGGREGATED("1", "{type: nsys, aggregated: {start_step: 5, stop_step: 45}}",
                   BENCHMARK) "model: {path: m}\nbackend:\n  type: vllm\n  vllm_config:\n    aggregated: "
                              "{tensor_parallel_size: 2, connector: x}\n",
        &(struct launch_target){.mode = RECIPE_AGGREGATED, .node = "n"}, 0, NULL);
    assert_non_null(strstr(
        line, " python3 -m dynamo.vllm --model /model --served-model-name m --kv-transfer-config x "
              "--device-ids 0,1,2,3 "
              "--master-addr \"${LEADER_IP}\" --nnodes 2 --node-rank 0 --request-plane tcp --dump-config-to "
              "/logs/n_config.json --profiler-config "
              "'{\"profiler\": \"cuda\", \"delay_iterations\": 5, \"max_iterations\": 40}' "
              "--tensor-parallel-size 2"));
}

static void test_torch_line(void **state)
{
    _cleanup_(recipe_done) struct recipe r = {0};
    _cleanup_(launch_done) struct recipe_launch l = {0};

    parse(IN_PHASE("torch") SGLANG, &r);
    assert_int_equal(launch_torch(&r, &(struct launch_target){.mode = RECIPE_PREFILL}, &l, NULL), 0);
    _cleanup_(freep) char *line = launch_text(&l);
    assert_string_equal(line, "B='1 2' A=True SGLANG_TORCH_PROFILER_DIR=/logs/profiles/prefill python3 -m "
                              "sglang.launch_server --lora a b --model-path /model/ --tensor-parallel-size 4 "
                              "--trust-remote-code");
}

static void test_a_name_that_would_be_a_command(void **state)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(recipe_done) struct recipe r = {0};
    _cleanup_(launch_done) struct recipe_launch l = {0};

    parse(IN_PHASE("torch") "backend:\n  prefill_environment:\n    'A; rm x;': 1\n", &r);
    assert_int_equal(launch_torch(&r, &(struct launch_target){.mode = RECIPE_PREFILL}, &l, &p), -EINVAL);
    assert_string_equal(p.what, "job.yaml:23:1: 'A; rm x;' is not the name of an environment variable");
}

static void test_quotes(void **state)
{
    _cleanup_(recipe_done) struct recipe r = {0};
    _cleanup_(launch_done) struct recipe_launch l = {0};

    parse(IN_PHASE("torch") "backend:\n  prefill_environment:\n    A: \"it's $(x)\"\n    B: ''\n"
                            "  sglang_config:\n    prefill:\n      'x;y': '`z`'\n",
          &r);
    assert_int_equal(launch_torch(&r, &(struct launch_target){.mode = RECIPE_PREFILL}, &l, NULL), 0);
    _cleanup_(freep) char *line = launch_text(&l);
    assert_string_equal(line,
                        "A='it'\\''s $(x)' B= SGLANG_TORCH_PROFILER_DIR=/logs/profiles/prefill python3 -m "
                        "sglang.launch_server '--x;y' '`z`'");
}

/* Seen by bash as they were, by a terminal as nothing that it obeys. */
static void test_what_terminals_obey_is_escaped(void **state)
{
    _cleanup_(recipe_done) struct recipe r = {0};
    _cleanup_(launch_done) struct recipe_launch l = {0};

    parse(IN_PHASE("torch") "backend:\n  prefill_environment:\n    A: \"\\e[2J1'\\\\\\n\"\n"
                            "  sglang_config:\n    prefill:\n      x: \"\\u009b\"\n",
          &r);
    assert_int_equal(launch_torch(&r, &(struct launch_target){.mode = RECIPE_PREFILL}, &l, NULL), 0);
    _cleanup_(freep) char *line = launch_text(&l);
    assert_string_equal(line,
                        "A=$'\\033[2J1\\047\\134\\012' SGLANG_TORCH_PROFILER_DIR=/logs/profiles/prefill "
                        "python3 -m sglang.launch_server --x $'\\302\\233'");
}

#define DISAGGREGATED                                                                                        \
    "model: {path: org/model}\nresources: {gpus_per_node: 8, prefill_nodes: 1, prefill_workers: 2, "         \
    "decode_nodes: 2, decode_workers: 1}\nbenchmark: {type: gsm8k}\n"

/* As SGLangProtocol.build_worker_command() of srt-slurm has it, without isl and osl. */
static void test_worker_of_today(void **state)
{
    static const char text[] =
        DISAGGREGATED "profiling: {type: torch, prefill: {start_step: 1, stop_step: 9}, decode: {}}\n"
                      "environment: {WHERE: '{node} {node_id} {other}', HERE: \"$(x) {node}\"}\n"
                      "backend:\n  prefill_environment: {A: b}\n  sglang_config:\n    prefill: {tp-size: 4, "
                      "model-path: dropped}\n    decode: {served_model_name: m, x: true, y: false}\n";
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(recipe_done) struct recipe r = {0};
    _cleanup_(launch_done) struct recipe_launch l = {0}, second = {0};

    parse(text, &r);
    assert_int_equal(recipe_check(&r, RECIPE_ANY_LOAD, &p), 0);
    assert_int_equal(launch_torch(&r, &(struct launch_target){.mode = RECIPE_PREFILL, .worker = 1}, &l, &p),
                     0);
    _cleanup_(freep) char *prefill = launch_text(&l);
    assert_string_equal(
        prefill,
        "ETCD_ENDPOINTS=\"http://${HEAD_NODE_IP}:2379\" NATS_SERVER=\"nats://${HEAD_NODE_IP}:4222\" "
        "DYN_SYSTEM_PORT=7501 DYN_REQUEST_PLANE=tcp CUDA_VISIBLE_DEVICES=4,5,6,7 A=b "
        "WHERE=\"${SLURMD_NODENAME} 0 {other}\" HERE=\"\\$(x) ${SLURMD_NODENAME}\" PROFILING_MODE=prefill "
        "PROFILE_TYPE=torch PROFILE_PREFILL_START_STEP=1 PROFILE_PREFILL_STOP_STEP=9 "
        "SGLANG_TORCH_PROFILER_DIR=/logs/profiles/prefill python3 -m dynamo.sglang --model-path /model "
        "--served-model-name m --host 0.0.0.0 --port 6132 --nccl-port 17501 --disaggregation-mode prefill "
        "--disaggregation-bootstrap-port 7201 --dump-config-to \"/logs/${SLURMD_NODENAME}_config.json\" "
        "--request-plane tcp --tp-size 4");
    assert_int_equal(launch_torch(&r, &(struct launch_target){.mode = RECIPE_DECODE, .rank = 1, .node = "n2"},
                                  &second, &p),
                     0);
    _cleanup_(freep) char *decode = launch_text(&second);
    assert_non_null(strstr(decode, "WHERE='n2 2 {other}' HERE='$(x) n2' "));
    assert_non_null(strstr(decode, "--port 0 --nccl-port 17503 --disaggregation-mode decode --dist-init-addr "
                                   "\"${LEADER_IP}:8300\" --nnodes 2 --node-rank 1 --dump-config-to "
                                   "/logs/n2_config.json --request-plane tcp --x"));
}

static void test_keys_and_types(void **state)
{
    static const struct {
        const char *text, *what, *remedy;
    } cases[] = {
        {"profilng: {}\n", "job.yaml:1:1: profilng: srtctl has no such key", "Did you mean profiling?"},
        {"profiling:\n  type: torch\n  decode:\n    strat_step: 3\n",
         "job.yaml:4:5: profiling.decode.strat_step: srtctl has no such key", "Did you mean start_step?"},
        {"resources:\n  gpus_per_node: many\n", "job.yaml:2:3: resources.gpus_per_node must be an integer",
         NULL},
        {"backend:\n  decode_environment:\n    A: 1\n",
         "job.yaml:3:5: backend.decode_environment.A must be a text", "Quote it: A: \"1\"."},
        {"backend: {type: sglagn}\n", "job.yaml:1:11: backend.type is 'sglagn'", "Did you mean sglang?"},
        {"slurm:\n", "job.yaml:1:1: slurm must be a section", "It is empty"},
        {"benchmark: {concurrencies: 4}\n",
         "job.yaml:1:13: benchmark.concurrencies must be a list of integers", NULL},
        {"profiling: {isl: 3}\nbenchmark: {isl: 3, tpye: x}\n", "job.yaml:2:21: benchmark.tpye",
         "Did you mean type?"},
        {"profiling: {prefill: {isl: 3}}\nbackend: {use_sglang_router: true}\nnope: 1\n",
         "job.yaml:3:1: nope", NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(problem_done) struct problem p = {0};
        _cleanup_(recipe_done) struct recipe r = {0};
        assert_int_equal(recipe_parse("job.yaml", cases[i].text, strlen(cases[i].text), NULL, &r, &p),
                         -EINVAL);
        if (!starts_with(p.what, cases[i].what) || !p.remedy ||
            (cases[i].remedy && !starts_with(p.remedy, cases[i].remedy)))
            fail_msg("case %zu: %s / %s", i, p.what, p.remedy);
    }
}

static void test_benchmarks_that_are_no_load(void **state)
{
    static const struct {
        const char *benchmark, *what;
    } cases[] = {
        {"{type: gsm8k}",
         "job.yaml:3:13: benchmark.type is gsm8k, an accuracy evaluation that srtctl runs in its "
         "container by /srtctl-benchmarks/gsm8k/sglang-bench.sh, and that profd does not run"},
        {"{type: custom, command: x}",
         "job.yaml:3:13: benchmark.type is custom: srtctl runs benchmark.command"},
        {"{type: trace-replay}",
         "job.yaml:3:13: benchmark.type is trace-replay, a replay of a recorded trace"},
        {"{type: gsm8k-bench}",
         "job.yaml:3:13: benchmark.type is 'gsm8k-bench', which srtctl does not have; did you "
         "mean gsm8k?"},
        {"{type: sa-bench, dataset_name: custom, isl: 1, osl: 1, concurrencies: '1'}",
         "job.yaml:3:29: benchmark.dataset_name is custom"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(freep) char *text = xasprintf(
            "resources: {agg_nodes: 1, agg_workers: 1}\nprofiling: {}\nbenchmark: %s\n", cases[i].benchmark);
        _cleanup_(problem_done) struct problem p = {0};
        _cleanup_(recipe_done) struct recipe r = {0};
        parse(text, &r);
        assert_int_equal(recipe_check(&r, RECIPE_ANY_LOAD, NULL), 0);
        assert_int_equal(recipe_check(&r, 0, &p), -EINVAL);
        if (!starts_with(p.what, cases[i].what) || !p.remedy)
            fail_msg("case %zu: %s", i, p.what);
    }
}

#define VARIANTS                                                                                             \
    "base:\n  name: job\n  slurm: {account: a, partition: p}\n  resources: {gpu_type: h100, agg_nodes: 1}\n" \
    "override_low:\n  slurm:\n    account: null\n    partition: q\n"                                         \
    "override_named:\n  name: own\n"                                                                         \
    "zip_override_tp:\n  resources:\n    agg_nodes: [1, 2]\n    agg_workers: [7]\n"                          \
    "  benchmark: {concurrencies: [[4, 8], [16]]}\n"

static void test_variants(void **state)
{
    static const struct {
        const char *name, *job, *member, *value;
    } cases[] = {
        {"base", "job", "slurm", "{\"account\":\"a\",\"partition\":\"p\"}"},
        {"low", "job_low", "slurm", "{\"partition\":\"q\"}"},
        {"override_low", "job_low", "slurm", "{\"partition\":\"q\"}"},
        {"named", "own", "resources", "{\"agg_nodes\":1,\"gpu_type\":\"h100\"}"},
        {"tp_0", "job_tp_0", "benchmark", "{\"concurrencies\":[4,8]}"},
        {"zip_override_tp[1]", "job_tp_1", "benchmark", "{\"concurrencies\":[16]}"},
        {"tp_1", "job_tp_1", "resources", "{\"agg_nodes\":2,\"agg_workers\":7,\"gpu_type\":\"h100\"}"},
    };
    _cleanup_(problem_done) struct problem p = {0}, nothing = {0};
    _cleanup_(recipe_done) struct recipe r = {0};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(recipe_done) struct recipe one = {0};
        assert_int_equal(recipe_parse("job.yaml", VARIANTS, strlen(VARIANTS), cases[i].name, &one, NULL), 0);
        _cleanup_(freep) char *value =
            json_dumps(json_object_get(one.root, cases[i].member), JSON_COMPACT | JSON_SORT_KEYS);
        assert_string_equal(one.name, cases[i].job);
        assert_string_equal(value, cases[i].value);
    }
    assert_int_equal(recipe_parse("job.yaml", VARIANTS, strlen(VARIANTS), NULL, &r, &p), -EINVAL);
    assert_string_equal(p.what, "job.yaml describes 4 jobs");
    assert_string_equal(p.remedy, "Choose one by --variant: base, low, named, tp_0, tp_1.");
    assert_int_equal(recipe_parse("job.yaml", VARIANTS, strlen(VARIANTS), "x", &r, &nothing), -EINVAL);
    assert_string_equal(nothing.what, "job.yaml has no variant 'x'");
}

static void test_sweeps(void **state)
{
    static const char text[] =
        "name: \"s-{mem}\"\nbackend:\n  sglang_config:\n    decode:\n      mem: \"{mem}\"\n"
        "      two: \"{mem}/{conc}\"\n      bare: { mem }\n"
        "benchmark: {concurrencies: [{ conc }]}\nsweep: {mem: [0.85, 0.9], conc: [8, 16]}\n";
    _cleanup_(recipe_variants_done) struct recipe_variants v = {0};
    _cleanup_(recipe_done) struct recipe r = {0};

    assert_int_equal(recipe_variants_read("job.yaml", text, strlen(text), &v, NULL), 0);
    assert_int_equal(v.n, 4);
    assert_string_equal(v.items[0].name, "mem0.85_conc8");
    assert_string_equal(v.items[1].name, "mem0.85_conc16");
    assert_int_equal(recipe_parse("job.yaml", text, strlen(text), "mem0.9_conc16", &r, NULL), 0);
    assert_string_equal(r.name, "s-0.9_mem0.9_conc16");
    _cleanup_(freep) char *decode =
        json_dumps(r.phases[RECIPE_DECODE].config, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(15));
    assert_string_equal(decode, "{\"bare\":0.9,\"mem\":0.9,\"two\":\"0.9/16\"}");
    assert_int_equal(r.phases[RECIPE_DECODE].concurrency, 16);
}

/* A kilobyte that stands for 10^12 bytes, and a base of which 1000 copies have no room. */
static void test_variants_that_are_too_large(void **state)
{
    char *bomb = NULL, *zip = NULL;
    size_t size;
    FILE *out = open_memstream(&bomb, &size);

    fputs("name: '{a}'\nsweep:\n", out);
    for (char c = 'a'; c < 'm'; c++) {
        fprintf(out, "  %c: ['", c);
        for (int i = 0; i < 10; i++)
            fprintf(out, c == 'l' ? "z" : "{%c}", c + 1);
        fputs("']\n", out);
    }
    fclose(out);
    out = open_memstream(&zip, &size);
    fputs("base:\n", out);
    for (int i = 0; i < 20000; i++)
        fprintf(out, "  k%d: v\n", i);
    fputs("zip_override_z:\n  q: [0", out);
    for (int i = 1; i < 900; i++)
        fprintf(out, ", %d", i);
    fputs("]\n", out);
    fclose(out);
    for (int i = 0; i < 2; i++) {
        _cleanup_(recipe_variants_done) struct recipe_variants v = {0};
        _cleanup_(problem_done) struct problem p = {0};
        const char *text = i == 0 ? bomb : zip;
        assert_int_equal(recipe_variants_read("job.yaml", text, strlen(text), &v, &p), -EINVAL);
        assert_string_equal(p.what, "job.yaml:1:1: all variants together are larger than 16 MiB");
    }
    free(bomb);
    free(zip);
}

static void test_variants_that_are_refused(void **state)
{
    static const struct {
        const char *text, *what;
    } cases[] = {
        {"base: {}\nzip_override_a: {x: [1, 2], y: [1, 2, 3]}\n",
         "job.yaml:2:29: Incompatible zip lengths 2 and 3."},
        {"base: {}\nzip_override_a:\n  x: []\n", "job.yaml:3:3: zip_override contains an empty list"},
        {"base: {}\nzip_override_a:\n  x: 1\n", "job.yaml:2:1: zip_override section contains no list values"},
        {"base: {}\noveride_a: {}\n", "job.yaml:2:1: overide_a: next to base srtctl ignores such a key"},
        {"base: {}\noverride_a: 3\n", "job.yaml:2:1: override_a must be a section"},
        {"name: x\nsweep: {a: 3}\n", "job.yaml:2:9: sweep.a must be a list of values"},
        {"name: x\nsweep: 3\n", "job.yaml:2:1: sweep must be a section of parameters"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(problem_done) struct problem p = {0};
        _cleanup_(recipe_variants_done) struct recipe_variants v = {0};
        assert_int_equal(recipe_variants_read("job.yaml", cases[i].text, strlen(cases[i].text), &v, &p),
                         -EINVAL);
        if (!starts_with(p.what, cases[i].what) || !p.remedy)
            fail_msg("case %zu: %s", i, p.what);
    }
    /* What an override says has its own place. */
    static const char wrong[] = "base: {name: x}\noverride_a:\n  slurm:\n    acount: y\n";
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(recipe_done) struct recipe r = {0};
    assert_int_equal(recipe_parse("job.yaml", wrong, strlen(wrong), NULL, &r, &p), -EINVAL);
    assert_string_equal(p.what, "job.yaml:4:5: slurm.acount: srtctl has no such key");
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
        cmocka_unit_test(test_load_during_the_phases),
        cmocka_unit_test(test_load_in_the_benchmark),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_only_the_worker_limit_is_lifted),
        cmocka_unit_test(test_nsys_lines),
        cmocka_unit_test(test_a_worker_that_cannot_be_identified),
        cmocka_unit_test(test_vllm_line),
        cmocka_unit_test(test_torch_line),
        cmocka_unit_test(test_a_name_that_would_be_a_command),
        cmocka_unit_test(test_quotes),
        cmocka_unit_test(test_what_terminals_obey_is_escaped),
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_worker_of_today),
        cmocka_unit_test(test_keys_and_types),
        cmocka_unit_test(test_benchmarks_that_are_no_load),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_sweeps),
        cmocka_unit_test(test_variants_that_are_refused),
        cmocka_unit_test(test_variants_that_are_too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
