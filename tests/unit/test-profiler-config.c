/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"
#include "daemon/fleet/profiler_config.h"
#include "tests/unit/cmocka-all.h"

/* Strings with their NULs; the literal's own NUL ends the last one. */
#define STRINGS(text) ((struct string_list){(text), sizeof(text)})
#define NOTHING       STRINGS("x\0")

struct expected {
    const char *dir, *source, *kind;
    int with_stack;
};

static void check(enum engine engine, const char *version, struct worker_launch launch, struct expected want)
{
    struct profiler_launch got;
    profiler_launch_read(engine, version, &launch, &got);
    assert_true(streq(got.dir, want.dir));
    assert_true(streq(got.source, want.source));
    assert_true(streq(got.setup.kind, want.kind));
    assert_int_equal(got.setup.with_stack, want.with_stack);
    profiler_launch_done(&got);
}

static void check_args(struct string_list args, struct expected want)
{
    check(ENGINE_VLLM, "0.19.1", (struct worker_launch){.args = args, .env = NOTHING}, want);
}

static void test_vllm_json(void **state)
{
    const struct expected torch = {"/d", "--profiler-config", "torch", 0};

    check_args(
        STRINGS("vllm\0serve\0m\0--profiler-config\0"
                "{\"profiler\":\"torch\",\"torch_profiler_dir\":\"/d\",\"torch_profiler_with_stack\":false}"),
        torch);
    check_args(
        STRINGS("python3\0-m\0vllm\0--profiler_config="
                "{\"profiler\":\"torch\",\"torch_profiler_dir\":\"/d\",\"torch_profiler_with_stack\":0}"),
        torch);
    /* Of two the last is the one that the engine takes. */
    check_args(
        STRINGS(
            "vllm\0--profiler-config\0{\"profiler\":\"cuda\"}\0--profiler-config\0"
            "{\"profiler\":\"torch\",\"torch_profiler_dir\":\"/d\",\"torch_profiler_with_stack\":\"False\"}"),
        torch);
    check_args(
        STRINGS("vllm\0--profiler-config\0"
                "{\"profiler\":\"proton\",\"proton_profiler_dir\":\"/p\",\"torch_profiler_dir\":\"/t\"}"),
        (struct expected){"/p", "--profiler-config", "proton", 1});
    check_args(STRINGS("vllm\0--profiler-config\0{\"profiler\":\"cuda\"}"),
               (struct expected){NULL, "--profiler-config", "cuda", 1});
}

static void test_vllm_dotted(void **state)
{
    const struct expected torch = {"/d", "--profiler-config.*", "torch", 0};

    check_args(STRINGS("vllm\0--profiler-config.profiler=torch\0--profiler-config.torch_profiler_dir=/d\0"
                       "--profiler-config.torch_profiler_with_stack=false"),
               torch);
    check_args(STRINGS("vllm\0--profiler_config.profiler\0torch\0--profiler_config.torch_profiler_dir\0/d\0"
                       "--profiler_config.torch_profiler_with_stack\0false"),
               torch);
    /* The engine puts all dotted options behind the whole one, which they replace. */
    check_args(STRINGS("vllm\0--profiler-config.profiler=torch\0--profiler-config.torch_profiler_dir=/e\0"
                       "--profiler-config\0{\"profiler\":\"torch\",\"torch_profiler_dir\":\"/d\"}"),
               (struct expected){"/e", "--profiler-config.*", "torch", 1});
    /* A dot in the value makes no dotted option. */
    check_args(STRINGS("vllm\0--model=a.b\0--profiler-config.\0"), (struct expected){.with_stack = -1});
}

static void test_vllm_sends_nothing(void **state)
{
    const struct expected none = {.with_stack = -1};

    check_args(STRINGS("vllm\0serve\0m"), none);
    check_args(STRINGS("vllm\0--profiler-config"), none);
    check_args(STRINGS("vllm\0--profiler-configuration\0{\"profiler\":\"torch\"}"), none);
    check_args((struct string_list){NULL, 0}, none);
    /* One argument of a shell is not an option of its own. */
    check_args(STRINGS("bash\0-c\0vllm serve --profiler-config {}"), none);
}

static void test_vllm_errors(void **state)
{
    static const char *const bad[] = {"{\"profiler\":", "[1]", "torch", ""};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        char args[128];
        int n = snprintf(args, sizeof(args), "vllm%c--profiler-config%c%s", 0, 0, bad[i]);
        const struct worker_launch launch = {.args = {args, (size_t)n + 1}, .env = NOTHING};
        struct profiler_launch got;
        profiler_launch_read(ENGINE_VLLM, NULL, &launch, &got);
        assert_non_null(got.error);
        assert_non_null(strstr(got.error, "--profiler-config"));
        assert_null(got.dir);
        profiler_launch_done(&got);
    }
}

static void check_file(const char *yaml, struct string_list args, struct expected want)
{
    check(ENGINE_VLLM, "0.19.1",
          (struct worker_launch){.args = args, .env = NOTHING, .config = yaml, .config_size = strlen(yaml)},
          want);
}

static void test_vllm_config_file(void **state)
{
    static const char *const file = "--profiler-config in the --config file";
    const struct string_list args = STRINGS("vllm\0serve\0--config\0c.yaml");

    check_file("model: m\n# comment\nprofiler-config:\n  profiler: torch\n  torch_profiler_dir: \"/d\"\n"
               "  torch_profiler_with_stack: off\n",
               args, (struct expected){"/d", file, "torch", 0});
    check_file("profiler_config: '{\"profiler\": \"torch\", \"torch_profiler_dir\": \"/d\"}'\n", args,
               (struct expected){"/d", file, "torch", 1});
    check_file("profiler-config.profiler: torch\nprofiler-config.torch_profiler_dir: /d\n", args,
               (struct expected){"/d", file, "torch", 1});
    /* The command line wins over the file. */
    check_file("profiler-config: {profiler: torch, torch_profiler_dir: /f}\n",
               STRINGS("vllm\0--config\0c.yaml\0--profiler-config={\"profiler\":\"torch\",\"torch_profiler_"
                       "dir\":\"/a\"}"),
               (struct expected){"/a", "--profiler-config", "torch", 1});
    check_file("- a list\n", args, (struct expected){.with_stack = -1});
}

static void check_env(enum engine engine, const char *version, struct string_list env, struct expected want)
{
    check(engine, version, (struct worker_launch){.args = NOTHING, .env = env}, want);
}

static void test_vllm_variables(void **state)
{
    const struct string_list env =
        STRINGS("PATH=/bin\0VLLM_TORCH_PROFILER_DIR=/e\0VLLM_TORCH_PROFILER_WITH_STACK=0");
    const struct expected honoured = {"/e", "VLLM_TORCH_PROFILER_DIR", "torch", 0},
                          ignored = {.with_stack = -1};

    check_env(ENGINE_VLLM, "0.15.1", env, honoured);
    check_env(ENGINE_VLLM, "v0.9.0.1rc1", env, honoured);
    check_env(ENGINE_VLLM, NULL, env, honoured);
    check_env(ENGINE_VLLM, "0.16.0", env, ignored);
    check_env(ENGINE_VLLM, "0.16.0rc2.dev7+gabc", env, ignored);
    check_env(ENGINE_VLLM, "1.0.0", env, ignored);
    check_env(ENGINE_VLLM, "0.15.1", STRINGS("VLLM_TORCH_PROFILER_DIR="), ignored);
    check_env(ENGINE_VLLM, "0.15.1", STRINGS("XVLLM_TORCH_PROFILER_DIR=/e"), ignored);
    check_env(ENGINE_VLLM, "0.14.0", STRINGS("VLLM_TORCH_CUDA_PROFILE=1"),
              (struct expected){NULL, "VLLM_TORCH_CUDA_PROFILE", "cuda", 1});
    /* Where they count, the variables win over the option. */
    check(ENGINE_VLLM, "0.15.0",
          (struct worker_launch){
              .args =
                  STRINGS("vllm\0--profiler-config\0{\"profiler\":\"torch\",\"torch_profiler_dir\":\"/a\"}"),
              .env = env},
          honoured);
}

static void test_vllm_counts(void **state)
{
    const struct worker_launch launch = {
        .args = STRINGS("vllm\0--profiler-config\0{\"profiler\":\"torch\",\"torch_profiler_dir\":\"/d\","
                        "\"ignore_frontend\":true,\"delay_iterations\":3,\"max_iterations\":\"7\","
                        "\"wait_iterations\":-1,\"torch_profiler_use_gzip\":\"maybe\"}"),
        .env = NOTHING};
    struct profiler_launch got;

    profiler_launch_read(ENGINE_VLLM, "0.19.1", &launch, &got);
    assert_int_equal(got.setup.ignore_frontend, 1);
    assert_int_equal(got.setup.record_shapes, 0);
    assert_int_equal(got.setup.use_gzip, -1);
    assert_int_equal(got.setup.delay_iterations, 3);
    assert_int_equal(got.setup.max_iterations, 7);
    assert_int_equal(got.setup.wait_iterations, -1);
    assert_int_equal(got.setup.warmup_iterations, 0);
    assert_int_equal(got.setup.active_iterations, 5);
    profiler_launch_done(&got);
}

static void test_sglang(void **state)
{
    check_env(ENGINE_SGLANG, "0.5.1",
              STRINGS("SGLANG_TORCH_PROFILER_DIR=/s\0SGLANG_PROFILE_WITH_STACK=False"),
              (struct expected){"/s", "SGLANG_TORCH_PROFILER_DIR", "torch", 0});
    check_env(ENGINE_SGLANG, "0.5.1", STRINGS("PATH=/bin"), (struct expected){NULL, NULL, "torch", 1});
    check_env(ENGINE_SGLANG, "0.5.1", (struct string_list){NULL, 0}, (struct expected){.with_stack = -1});
}

static void test_rtp_llm(void **state)
{
    check_env(ENGINE_RTP_LLM, NULL, STRINGS("TORCH_CUDA_PROFILER_DIR=/t"),
              (struct expected){"/t", "TORCH_CUDA_PROFILER_DIR", "torch", -1});
    check_env(ENGINE_RTP_LLM, NULL, STRINGS("PATH=/bin"), (struct expected){.with_stack = -1});
    check(ENGINE_RTP_LLM, NULL,
          (struct worker_launch){.args = STRINGS("rtp\0--torch_cuda_profiler_dir\0/a"),
                                 .env = STRINGS("TORCH_CUDA_PROFILER_DIR=/t")},
          (struct expected){"/a", "--torch-cuda-profiler-dir", "torch", -1});
}

static void test_rtp_llm_records_each_request(void **state)
{
    const struct {
        struct string_list args, env;
        int each_request;
    } cases[] = {
        {STRINGS("rtp\0--gen_timeline_sync"), NOTHING, 1},
        {STRINGS("rtp\0--gen_timeline_sync\0--port\0"
                 "1"),
         NOTHING, 1},
        {STRINGS("rtp\0--gen_timeline_sync=0"), STRINGS("GEN_TIMELINE_SYNC=1"), 0},
        {NOTHING, STRINGS("GEN_TIMELINE_SYNC=true"), 1},
        {NOTHING, STRINGS("GEN_TIMELINE_SYNC=0"), 0},
        {NOTHING, NOTHING, -1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct profiler_launch got;
        profiler_launch_read(ENGINE_RTP_LLM, NULL,
                             &(struct worker_launch){.args = cases[i].args, .env = cases[i].env}, &got);
        assert_int_equal(got.setup.each_request, cases[i].each_request);
        profiler_launch_done(&got);
    }
}

static void test_tensorrt_llm(void **state)
{
    check_env(ENGINE_TENSORRT_LLM, NULL, STRINGS("TLLM_TORCH_PROFILER_DIR=/t"),
              (struct expected){"/t", "TLLM_TORCH_PROFILER_DIR", "torch", 0});
    check_env(ENGINE_TENSORRT_LLM, NULL, STRINGS("PATH=/bin"), (struct expected){NULL, NULL, "torch", 0});
    check_env(ENGINE_TENSORRT_LLM, NULL, (struct string_list){NULL, 0}, (struct expected){.with_stack = -1});
    /* AutoDeploy has the PyTorch backend's executor, TensorRT's own has none. */
    check(ENGINE_TENSORRT_LLM, NULL,
          (struct worker_launch){.args = STRINGS("trtllm-serve\0--backend\0_autodeploy"),
                                 .env = STRINGS("A=b")},
          (struct expected){NULL, NULL, "torch", 0});
    check(ENGINE_TENSORRT_LLM, NULL,
          (struct worker_launch){.args = STRINGS("trtllm-serve\0--backend=tensorrt"), .env = STRINGS("A=b")},
          (struct expected){NULL, NULL, "none", 0});
}

/* The variable does nothing; only the command line of ATOM's own server proves that it has no directory. */
static void test_atom(void **state)
{
    check(ENGINE_ATOM, NULL,
          (struct worker_launch){.args = STRINGS("python\0-m\0atom.entrypoints.openai_server\0"
                                                 "--torch-profiler-dir\0/a"),
                                 .env = STRINGS("ATOM_PROFILER_MORE=1")},
          (struct expected){"/a", "--torch-profiler-dir", "torch", 1});
    check(ENGINE_ATOM, NULL,
          (struct worker_launch){.args = STRINGS("python\0/opt/atom/entrypoints/openai_server.py"),
                                 .env = STRINGS("ATOM_TORCH_PROFILER_DIR=/t")},
          (struct expected){NULL, NULL, "none", 0});
    check(ENGINE_ATOM, NULL,
          (struct worker_launch){.args = STRINGS("docker-proxy\0-container-port\0"
                                                 "8000"),
                                 .env = STRINGS("A=b")},
          (struct expected){.with_stack = -1});
}

static void test_tokenspeed(void **state)
{
    check_env(ENGINE_TOKENSPEED, NULL, STRINGS("TOKENSPEED_PROFILER_DIR=/t"),
              (struct expected){"/t", "TOKENSPEED_PROFILER_DIR", "torch", 1});
    check_env(ENGINE_TOKENSPEED, NULL, STRINGS("TOKENSPEED_PROFILE_WITH_STACK=no"),
              (struct expected){NULL, NULL, "torch", 0});
}

static void test_sizes(void **state)
{
    static const struct {
        enum engine engine;
        struct string_list args;
        int tp, pp, dp;
    } cases[] = {
        {ENGINE_TENSORRT_LLM,
         STRINGS("trtllm-serve\0m\0--tp_size\0"
                 "4\0--pp_size=2"),
         4, 2, 0},
        {ENGINE_TENSORRT_LLM, STRINGS("trtllm-serve\0--tensor_parallel_size=8"), 8, 0, 0},
        {ENGINE_TENSORRT_LLM, STRINGS("trtllm-serve\0--tp_size=99999999999999999999\0--pp_size=-2"), 0, 0, 0},
        {ENGINE_TENSORRT_LLM, STRINGS("trtllm-serve\0--tp_size"), 0, 0, 0},
        {ENGINE_ATOM,
         STRINGS("-m\0atom.entrypoints.openai_server\0-tp\0"
                 "8\0--data-parallel-size\0"
                 "2"),
         8, 0, 2},
        {ENGINE_TOKENSPEED,
         STRINGS("ts\0serve\0m\0--tensor-parallel-size\0"
                 "2"),
         2, 0, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct profiler_launch got;
        profiler_launch_read(cases[i].engine, NULL, &(struct worker_launch){.args = cases[i].args}, &got);
        assert_int_equal(got.sizes.tp, cases[i].tp);
        assert_int_equal(got.sizes.pp, cases[i].pp);
        assert_int_equal(got.sizes.dp, cases[i].dp);
        profiler_launch_done(&got);
    }
}

static void test_paths(void **state)
{
    static const struct {
        const char *path, *cwd, *home, *absolute;
    } cases[] = {
        {"/a/b", NULL, NULL, "/a/b"},       {"//a/./b/../c//", NULL, NULL, "/a/c"},
        {"/../..", NULL, NULL, "/"},        {"traces", "/srv", NULL, "/srv/traces"},
        {"../t", "/srv/x", NULL, "/srv/t"}, {"~/t", "/srv", "/home/u", "/home/u/t"},
        {"~", NULL, "/home/u", "/home/u"},  {"~u/t", "/w", "/home/u", "/w/~u/t"},
        {"t", NULL, "/home/u", NULL},       {"~/t", "/srv", NULL, NULL},
        {"t", "(unreachable)", NULL, NULL},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(freep) char *got = path_absolute(cases[i].path, cases[i].cwd, cases[i].home);
        assert_true(streq(got, cases[i].absolute));
    }
    assert_true(path_is_uri("s3://bucket/dir"));
    assert_true(path_is_uri("hdfs://x"));
    assert_false(path_is_uri("/a/s3://x"));
    assert_false(path_is_uri("dir/s3://x"));
    assert_false(path_is_uri("/tmp"));
    assert_false(path_is_uri("c://x"));
}

static void test_flags(void **state)
{
    const struct string_list args = STRINGS("x\0--port\0"
                                            "1\0--port=2\0--a_b=c\0-container-ip\0"
                                            "10.0.0.1\0--last");
    const struct string_list env = STRINGS("A=1\0AB=2\0A=3\0B");

    assert_string_equal(flag_value(&args, "--port"), "2");
    assert_string_equal(flag_value(&args, "--a-b"), "c");
    assert_string_equal(flag_value(&args, "-container-ip"), "10.0.0.1");
    assert_null(flag_value(&args, "--last"));
    assert_null(flag_value(&args, "--por"));
    assert_string_equal(env_value(&env, "A"), "1");
    assert_null(env_value(&env, "B"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vllm_json),
        cmocka_unit_test(test_vllm_dotted),
        cmocka_unit_test(test_vllm_sends_nothing),
        cmocka_unit_test(test_vllm_errors),
        cmocka_unit_test(test_vllm_config_file),
        cmocka_unit_test(test_vllm_variables),
        cmocka_unit_test(test_vllm_counts),
        cmocka_unit_test(test_sglang),
        cmocka_unit_test(test_rtp_llm),
        cmocka_unit_test(test_rtp_llm_records_each_request),
        cmocka_unit_test(test_tensorrt_llm),
        cmocka_unit_test(test_atom),
        cmocka_unit_test(test_tokenspeed),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
