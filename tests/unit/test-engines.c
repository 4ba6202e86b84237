/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/engine.h"
#include "tests/unit/cmocka-all.h"

#define OPENAPI_ON                                                                                           \
    "{\"openapi\":\"3.1.0\",\"paths\":{\"/health\":{\"get\":{}},\"/start_profile\":{\"post\":{}}}}"
#define OPENAPI_OFF   "{\"paths\":{\"/health\":{\"get\":{\"description\":\"not /start_profile\"}}}}"
#define NOT_FOUND     404
#define NO_CONNECTION -ECONNREFUSED

struct test {
    struct worker worker;
    struct answers answers;
};

static int setup(void **state)
{
    struct test *t = xcalloc(1, sizeof(*t));
    worker_init(&t->worker);
    t->worker.url = xstrdup("http://w:1");
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct test *t = *state;
    worker_done(&t->worker);
    answers_done(&t->answers);
    free(t);
    return 0;
}

static void ok(struct test *t, enum question q, const char *body)
{
    answers_set(&t->answers, q, 0, 200, "200 OK", body, strlen(body));
}

static void status(struct test *t, enum question q, int code)
{
    char text[32];
    snprintf(text, sizeof(text), "%d", code);
    answers_set(&t->answers, q, 0, code, text, "", 0);
}

static void all_fail(struct test *t, int err, const char *text)
{
    for (int q = 0; q <= QUESTION_MODELS; q++)
        answers_set(&t->answers, (enum question)q, err, 0, text, "", 0);
}

static void vllm(struct test *t, const char *version, const char *openapi)
{
    _cleanup_(freep) char *body = xasprintf("{\"version\":\"%s\"}", version);
    status(t, QUESTION_SERVER_INFO, NOT_FOUND);
    ok(t, QUESTION_VERSION, body);
    ok(t, QUESTION_OPENAPI, openapi);
    ok(t, QUESTION_MODELS, "{\"data\":[{\"id\":\"llama\",\"owned_by\":\"vllm\"}]}");
    worker_identify(&t->worker, &t->answers);
    assert_int_equal(t->worker.engine, ENGINE_VLLM);
}

static void test_vllm(void **state)
{
    struct test *t = *state;
    vllm(t, "0.19.1", OPENAPI_ON);
    assert_true(t->worker.profilable);
    assert_null(t->worker.note);
    assert_string_equal(t->worker.version, "0.19.1");
    assert_string_equal(t->worker.model, "llama");
    assert_int_equal(worker_more_questions(&t->worker, &t->answers), 0);
    ok(t, QUESTION_SERVER_INFO, "{\"vllm_config\":{}}");
    assert_int_equal(worker_more_questions(&t->worker, &t->answers), QUESTION_BIT(QUESTION_SLEEPING));
    ok(t, QUESTION_SLEEPING, "{\"is_sleeping\":true}");
    worker_identify(&t->worker, &t->answers);
    assert_int_equal(t->worker.sleeping, 1);
    assert_int_equal(worker_more_questions(&t->worker, &t->answers), 0);
}

/* What a hostile server calls its version stands in tables and remarks. */
static void test_long_version(void **state)
{
    struct test *t = *state;
    char version[1001] = "0.19.1+g";

    memset(version + strlen(version), 'f', sizeof(version) - 1 - strlen(version));
    vllm(t, version, OPENAPI_ON);
    assert_null(t->worker.version);
    assert_true(t->worker.profilable);
    version[128] = '\0';
    vllm(t, version, OPENAPI_ON);
    assert_string_equal(t->worker.version, version);
}

static void test_vllm_without_profiler(void **state)
{
    struct test *t = *state;
    vllm(t, "0.19.1", OPENAPI_OFF);
    assert_false(t->worker.profilable);
    assert_non_null(strstr(t->worker.remedy,
                           "--profiler-config '{\"profiler\":\"torch\",\"torch_profiler_dir\":"
                           "\"/var/tmp/traces\",\"ignore_frontend\":true}'"));
}

static void test_old_vllm_without_profiler(void **state)
{
    struct test *t = *state;
    vllm(t, "0.12.0rc1", OPENAPI_OFF);
    assert_false(t->worker.profilable);
    assert_non_null(strstr(t->worker.remedy, "VLLM_TORCH_PROFILER_DIR="));
    assert_null(strstr(t->worker.remedy, "--profiler-config"));
}

/* 405 is the answer where the route is, and 404 where it is not; anything else says nothing. */
static void test_vllm_without_docs(void **state)
{
    static const struct {
        int err, status;
        bool profilable, noted;
    } cases[] = {{0, 405, true, false},
                 {0, 404, false, false},
                 {0, 500, true, true},
                 {0, 401, true, true},
                 {-ETIMEDOUT, 0, true, true}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct test *t;
        setup((void **)&t);
        status(t, QUESTION_OPENAPI, NOT_FOUND);
        ok(t, QUESTION_VERSION, "{\"version\":\"0.19.1\"}");
        ok(t, QUESTION_MODELS, "{\"data\":[{\"id\":\"m\",\"owned_by\":\"vllm\"}]}");
        worker_identify(&t->worker, &t->answers);
        assert_int_equal(t->worker.engine, ENGINE_VLLM);
        assert_null(t->worker.note);
        assert_int_equal(worker_more_questions(&t->worker, &t->answers),
                         QUESTION_BIT(QUESTION_PROFILE_ROUTE));
        answers_set(&t->answers, QUESTION_PROFILE_ROUTE, cases[i].err, cases[i].status, "", "", 0);
        worker_identify(&t->worker, &t->answers);
        worker_identify(&t->worker, &t->answers);
        assert_int_equal(t->worker.profilable, cases[i].profilable);
        assert_int_equal(!cases[i].profilable,
                         t->worker.remedy && strstr(t->worker.remedy, "--profiler-config"));
        assert_int_equal(cases[i].noted,
                         streq(t->worker.note, "whether its profiler is on shows only at a start, "
                                               "because it has no openapi.json"));
        assert_int_equal(worker_more_questions(&t->worker, &t->answers), 0);
        teardown((void **)&t);
    }
    assert_string_equal(question_method(QUESTION_PROFILE_ROUTE), "HEAD");
}

#define OWNED_BY(owner) "{\"data\":[{\"id\":\"m\",\"owned_by\":\"" owner "\"}]}"

/* One line for each piece of evidence, and for each thing that looks like one and proves nothing. */
static void test_evidence(void **state)
{
    static const struct {
        enum question question;
        int status;
        const char *body;
        enum engine engine;
    } cases[] = {
        {QUESTION_MODELS, 200, OWNED_BY("vllm"), ENGINE_VLLM},
        {QUESTION_MODELS, 200, OWNED_BY("vllm-frontend-rs"), ENGINE_VLLM},
        {QUESTION_MODELS, 200, OWNED_BY("sglang"), ENGINE_SGLANG},
        {QUESTION_MODELS, 200, OWNED_BY("openai"), ENGINE_UNKNOWN},
        {QUESTION_MODELS, 200, OWNED_BY("lmdeploy"), ENGINE_UNKNOWN},
        {QUESTION_MODELS, 404, OWNED_BY("vllm"), ENGINE_UNKNOWN},
        {QUESTION_VERSION, 200, "{\"version\":\"0.19.1\"}", ENGINE_UNKNOWN},
        {QUESTION_VERSION, 200, "{\"version\":\"0.30.0\",\"rust_frontend_version\":\"0.1.0\"}", ENGINE_VLLM},
        {QUESTION_VERSION, 200, "{\"rust_frontend_version\":1}", ENGINE_UNKNOWN},
        {QUESTION_SERVER_INFO, 200, "{\"vllm_config\":{}}", ENGINE_VLLM},
        {QUESTION_SERVER_INFO, 200, "{\"vllm_config\":\"model='m'\"}", ENGINE_VLLM},
        {QUESTION_SERVER_INFO, 200, "{\"vllm_config\":[]}", ENGINE_UNKNOWN},
        {QUESTION_SERVER_INFO, 200, "{\"tp_size\":8,\"version\":\"0.5.9\"}", ENGINE_UNKNOWN},
        {QUESTION_SERVER_INFO, 200, "{\"internal_states\":[]}", ENGINE_SGLANG},
        {QUESTION_SERVER_INFO, 200, "{\"internal_states\":{}}", ENGINE_UNKNOWN},
        {QUESTION_SERVER_INFO, 200,
         "{\"mem_fraction_static\":0.9,\"chunked_prefill_size\":8192,\"schedule_policy\":\"fcfs\"}",
         ENGINE_SGLANG},
        {QUESTION_SERVER_INFO, 200, "{\"mem_fraction_static\":0.9,\"chunked_prefill_size\":8192}",
         ENGINE_UNKNOWN},
        {QUESTION_OLD_SERVER_INFO, 200, "{\"internal_states\":[{}]}", ENGINE_SGLANG},
        {QUESTION_OPENAPI, 200, "{\"paths\":{\"/flush_cache\":{},\"/generate\":{}}}", ENGINE_SGLANG},
        {QUESTION_OPENAPI, 200, "{\"paths\":{\"/flush_cache\":{}}}", ENGINE_UNKNOWN},
        {QUESTION_OPENAPI, 200, "{\"paths\":{\"/load\":{},\"/detokenize\":{}}}", ENGINE_VLLM},
        {QUESTION_OPENAPI, 200, "{\"paths\":{\"/start_profile\":{},\"/version\":{}}}", ENGINE_UNKNOWN},
        {QUESTION_METRICS, 200, "vllm:iteration_tokens_total_count 1\n", ENGINE_VLLM},
        {QUESTION_METRICS, 200, "vllm:iteration_tokens_total_count 1\ndynamo_component_requests_total 1\n",
         ENGINE_UNKNOWN},
        {QUESTION_METRICS, 200, "vllm:num_requests_running{server=\"http://w:1\"} 1\n", ENGINE_UNKNOWN},
        {QUESTION_METRICS, 200, "sglang:num_running_reqs 1\n", ENGINE_UNKNOWN},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct test *t;
        setup((void **)&t);
        answers_set(&t->answers, cases[i].question, 0, cases[i].status, "", cases[i].body,
                    strlen(cases[i].body));
        worker_identify(&t->worker, &t->answers);
        if (t->worker.engine != cases[i].engine)
            fail_msg("%s gives %s", cases[i].body, engine_name(t->worker.engine));
        assert_true(t->worker.engine != ENGINE_UNKNOWN || (t->worker.reason && t->worker.remedy));
        teardown((void **)&t);
    }
}

/* A router that passes on what a worker owns lacks what each worker has. */
static void test_evidence_of_a_router(void **state)
{
    struct test *t = *state;

    ok(t, QUESTION_MODELS, OWNED_BY("vllm"));
    status(t, QUESTION_VERSION, NOT_FOUND);
    worker_identify(&t->worker, &t->answers);
    assert_int_equal(t->worker.engine, ENGINE_UNKNOWN);
    assert_non_null(strstr(t->worker.reason, "owned_by \"vllm\" in /v1/models"));
    ok(t, QUESTION_MODELS, OWNED_BY("sglang"));
    status(t, QUESTION_SERVER_INFO, NOT_FOUND);
    worker_identify(&t->worker, &t->answers);
    assert_int_equal(t->worker.engine, ENGINE_UNKNOWN);
    ok(t, QUESTION_OPENAPI, "{\"paths\":{\"/engines\":{},\"/load\":{},\"/detokenize\":{}}}");
    ok(t, QUESTION_VERSION, "{\"version\":\"0.1.5\"}");
    worker_identify(&t->worker, &t->answers);
    assert_int_equal(t->worker.engine, ENGINE_UNKNOWN);
    assert_non_null(strstr(t->worker.reason, "production stack"));
    assert_non_null(strstr(t->worker.remedy, "--router"));
}

static void test_contradictory_evidence(void **state)
{
    struct test *t = *state;

    ok(t, QUESTION_MODELS, OWNED_BY("vllm"));
    ok(t, QUESTION_SERVER_INFO, "{\"internal_states\":[]}");
    worker_identify(&t->worker, &t->answers);
    assert_int_equal(t->worker.engine, ENGINE_UNKNOWN);
    assert_false(t->worker.profilable);
    assert_string_equal(t->worker.reason,
                        "its answers contradict each other: owned_by \"vllm\" in /v1/models is of vllm, but "
                        "\"internal_states\" in /server_info is of sglang");
    assert_int_equal(worker_more_questions(&t->worker, &t->answers), 0);
}

/* Nothing but a proven vLLM is asked about its profile routes. */
static void test_profile_route_is_asked_of_vllm_only(void **state)
{
    static const char *const owners[] = {OWNED_BY("sglang"), OWNED_BY("tensorrt_llm"), OWNED_BY("atom"),
                                         OWNED_BY("lmdeploy"), "{}"};

    for (size_t i = 0; i < ARRAY_SIZE(owners); i++) {
        struct test *t;
        setup((void **)&t);
        status(t, QUESTION_OPENAPI, NOT_FOUND);
        ok(t, QUESTION_VERSION, "{\"version\":\"1.0\"}");
        ok(t, QUESTION_MODELS, owners[i]);
        worker_identify(&t->worker, &t->answers);
        assert_false(worker_more_questions(&t->worker, &t->answers) & QUESTION_BIT(QUESTION_PROFILE_ROUTE));
        teardown((void **)&t);
    }
}

static void test_vllm_configuration(void **state)
{
    struct test *t = *state;
    struct worker *w = &t->worker;
    ok(t, QUESTION_SERVER_INFO,
       "{\"vllm_config\":{\"model_config\":{\"model\":\"m\"},\"parallel_config\":{\"tensor_parallel_size\":4,"
       "\"pipeline_parallel_size\":2,\"data_parallel_size\":3,\"enable_expert_parallel\":true},"
       "\"kv_transfer_config\":{\"kv_role\":\"kv_producer\"},\"profiler_config\":{\"profiler\":\"torch\","
       "\"torch_profiler_dir\":\"/traces\",\"torch_profiler_with_stack\":true,\"max_iterations\":7,"
       "\"torch_profiler_record_shapes\":false}}}");
    ok(t, QUESTION_OPENAPI, OPENAPI_ON);
    worker_identify(w, &t->answers);
    assert_int_equal(w->engine, ENGINE_VLLM);
    assert_true(w->profilable);
    assert_string_equal(w->model, "m");
    assert_int_equal(w->role, ROLE_PREFILL);
    assert_int_equal(worker_ranks_expected(w), 24);
    assert_int_equal(w->sizes.ep, 12);
    assert_string_equal(w->location.dir, "/traces");
    assert_string_equal(w->location.found_by, "/server_info");
    assert_string_equal(w->setup.kind, "torch");
    assert_int_equal(w->setup.with_stack, 1);
    assert_int_equal(w->setup.record_shapes, 0);
    assert_int_equal(w->setup.max_iterations, 7);
    assert_int_equal(w->setup.use_gzip, -1);
}

static void test_vllm_profiler_null(void **state)
{
    struct test *t = *state;
    ok(t, QUESTION_SERVER_INFO, "{\"vllm_config\":{\"profiler_config\":{\"profiler\":null}}}");
    status(t, QUESTION_OPENAPI, NOT_FOUND);
    worker_identify(&t->worker, &t->answers);
    assert_int_equal(t->worker.engine, ENGINE_VLLM);
    assert_false(t->worker.profilable);
}

/* A loopback address is another place on every host. */
static void test_groups_of_workers(void **state)
{
    static const struct {
        const char *address, *group;
    } cases[] = {{"10.0.0.1:29550", "10.0.0.1:29550"},
                 {"node-7:29550", "node-7:29550"},
                 {"127.0.0.1:29550", NULL},
                 {"localhost:29550", NULL},
                 {"[::1]:29550", NULL},
                 {"0.0.0.0:29550", NULL},
                 {":29550", NULL},
                 {"no-port", NULL},
                 {NULL, NULL}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct worker w;
        worker_init(&w);
        worker_join_group(&w, cases[i].address);
        if (cases[i].group)
            assert_string_equal(w.group, cases[i].group);
        else
            assert_null(w.group);
        worker_done(&w);
    }
}

#define SGLANG_INFO                                                                                          \
    "{\"model_path\":\"/"                                                                                    \
    "m\",\"served_model_name\":\"ds\",\"tp_size\":8,\"dp_size\":2,\"pp_size\":1,\"ep_size\":8,"              \
    "\"nnodes\":2,\"dist_init_addr\":\"10.0.0.1:5000\",\"disaggregation_mode\":\"decode\",\"speculative_"    \
    "algorithm\":\"EAGLE\",\"version\":\"0.5."                                                               \
    "9\","                                                                                                   \
    "\"api_key\":\"sk-secret-1\",\"admin_api_key\":%s,\"hf_token\":\"sk-secret-3\",\"internal_states\":[{}]" \
    "}"

static void test_sglang(void **state)
{
    struct test *t = *state;
    struct worker *w = &t->worker;
    char info[1024];

    snprintf(info, sizeof(info), SGLANG_INFO, "null");
    ok(t, QUESTION_SERVER_INFO, info);
    ok(t, QUESTION_VERSION, "{\"version\":\"9\"}");
    worker_identify(w, &t->answers);
    assert_int_equal(w->engine, ENGINE_SGLANG);
    assert_true(w->profilable);
    assert_string_equal(w->version, "0.5.9");
    assert_string_equal(w->model, "ds");
    assert_int_equal(w->sizes.tp, 8);
    assert_int_equal(w->sizes.nodes, 2);
    assert_string_equal(w->group, "10.0.0.1:5000");
    assert_int_equal(worker_ranks_expected(w), 16);
    assert_int_equal(w->role, ROLE_DECODE);
    assert_true(w->speculative);
    assert_int_equal(worker_more_questions(w, &t->answers), QUESTION_BIT(QUESTION_WORKERS));
    ok(t, QUESTION_OPENAPI, OPENAPI_ON);
    assert_int_equal(worker_more_questions(w, &t->answers), 0);
    ok(t, QUESTION_WORKERS, "{\"workers\":[{\"url\":\"http://w:2\"}]}");
    worker_identify(w, &t->answers);
    assert_int_equal(w->engine, ENGINE_UNKNOWN);
    assert_string_equal(w->reason, "is a router in front of SGLang, which profd cannot profile");
}

static void test_secrets_stay_out(void **state)
{
    struct test *t = *state;
    char info[1024];

    snprintf(info, sizeof(info), SGLANG_INFO, "\"sk-secret-2\"");
    ok(t, QUESTION_SERVER_INFO, info);
    worker_identify(&t->worker, &t->answers);
    _cleanup_json_ j = worker_to_json(&t->worker);
    _cleanup_(freep) char *text = json_dumps(j, 0);
    assert_null(strstr(text, "secret"));
    assert_false(t->worker.profilable);
    assert_string_equal(t->worker.reason, "credentials needed: admin_token_file");
    assert_non_null(strstr(t->worker.remedy, "[worker http://w:1]"));
    t->answers.has_admin_token = true;
    worker_identify(&t->worker, &t->answers);
    assert_true(t->worker.profilable);
    assert_null(t->worker.reason);
}

static void test_old_sglang(void **state)
{
    struct test *t = *state;
    char info[1024];

    for (int q = 0; q <= QUESTION_MODELS; q++)
        status(t, (enum question)q, NOT_FOUND);
    worker_identify(&t->worker, &t->answers);
    assert_int_equal(t->worker.engine, ENGINE_UNKNOWN);
    assert_int_equal(worker_more_questions(&t->worker, &t->answers), QUESTIONS_UNKNOWN);
    snprintf(info, sizeof(info), SGLANG_INFO, "null");
    ok(t, QUESTION_OLD_SERVER_INFO, info);
    worker_identify(&t->worker, &t->answers);
    assert_int_equal(t->worker.engine, ENGINE_SGLANG);
    assert_true(t->worker.profilable);
    assert_null(t->worker.reason);
}

static void test_busy_sglang(void **state)
{
    struct test *t = *state;
    all_fail(t, -ETIMEDOUT, "timed out");
    ok(t, QUESTION_MODELS, "{\"data\":[{\"id\":\"m\",\"owned_by\":\"sglang\"}]}");
    worker_identify(&t->worker, &t->answers);
    assert_int_equal(t->worker.engine, ENGINE_SGLANG);
    assert_true(t->worker.profilable);
    assert_null(t->worker.note);
    assert_int_equal(worker_more_questions(&t->worker, &t->answers), QUESTION_BIT(QUESTION_OLD_SERVER_INFO));
    answers_set(&t->answers, QUESTION_OLD_SERVER_INFO, -ETIMEDOUT, 0, "timed out", "", 0);
    worker_identify(&t->worker, &t->answers);
    assert_non_null(strstr(t->worker.note, "parallel sizes are not known"));
}

static void test_unknown(void **state)
{
    struct test *t = *state;
    struct worker *w = &t->worker;

    all_fail(t, NO_CONNECTION, "connection refused");
    worker_identify(w, &t->answers);
    assert_int_equal(w->engine, ENGINE_UNKNOWN);
    assert_string_equal(w->reason, "does not answer: connection refused");
    assert_non_null(w->remedy);

    for (int q = 0; q <= QUESTION_MODELS; q++)
        status(t, (enum question)q, 401);
    worker_identify(w, &t->answers);
    assert_string_equal(w->reason, "credentials needed: token_file");
    t->answers.has_token = true;
    worker_identify(w, &t->answers);
    assert_non_null(strstr(w->reason, "not accepted"));

    for (int q = 0; q <= QUESTION_MODELS; q++)
        status(t, (enum question)q, 302);
    worker_identify(w, &t->answers);
    assert_non_null(strstr(w->reason, "redirect"));

    for (int q = 0; q <= QUESTION_MODELS; q++)
        ok(t, (enum question)q, "<!doctype html>");
    worker_identify(w, &t->answers);
    assert_non_null(strstr(w->reason, "HTML"));

    for (int q = 0; q <= QUESTION_MODELS; q++)
        ok(t, (enum question)q, "{\"version\":4,\"tp_size\":\"x\",\"data\":{},\"vllm_config\":[]}");
    worker_identify(w, &t->answers);
    assert_int_equal(w->engine, ENGINE_UNKNOWN);
    assert_non_null(strstr(w->reason, "not an engine"));
}

static void test_openapi(void **state)
{
    static const char *const paths[] = {"/a", "/b"};
    static const struct {
        const char *text;
        int r;
        unsigned found;
    } cases[] = {
        {"{\"paths\":{\"/a\":{},\"/b\":[1,{\"x\":\"}\"}]}}", 0, 3},
        {" { \"x\" : [ \"paths\" , { \"paths\" : { \"/b\" : 1 } } ] , \"paths\" : { \"\\/a\" : { \"/b\" : 1 "
         "} } } ",
         0, 1},
        {"{\"paths\":{}}", 0, 0},
        {"{\"info\":{\"title\":\"\\\"paths\\\":{\\\"/a\\\":\"},\"paths\":{\"/c\":\"/a\"}}", 0, 0},
        {"{\"x\":-1.5e3,\"y\":null,\"paths\":{\"/a\":true}}", 0, 1},
        {"{}", -EPROTO, 0},
        {"[]", -EPROTO, 0},
        {"", -EPROTO, 0},
        {"{\"paths\":[]}", -EPROTO, 0},
        {"{\"paths\":{\"/a\":{}", -EPROTO, 0},
        {"{\"paths\":{\"/a\":{}},\"x\":\"", -EPROTO, 0},
        {"<html>", -EPROTO, 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        unsigned found = 0;
        assert_int_equal(openapi_find_paths(cases[i].text, strlen(cases[i].text), paths, 2, &found),
                         cases[i].r);
        assert_int_equal(found, cases[i].found);
    }
}

static bool has_remark(const struct review *r, bool refuses, const char *option, const char *part)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->items[i].refuses == refuses && streq(r->items[i].option, option) &&
            strstr(r->items[i].text, part))
            return true;
    return false;
}

static void expect_remark(enum engine e, const struct recording *rec, const struct worker *w, bool refuses,
                          const char *option, const char *part)
{
    struct review review = {0};
    engine_ops(e)->review(rec, w, &review);
    assert_true(has_remark(&review, refuses, option, part));
    review_done(&review);
}

/* As a worker with two data-parallel ranks shows it, and one of a version that counts decode passes only. */
static void test_sglang_steps_since_launch(void **state)
{
    static const char counts[] =
        "sglang:cuda_graph_passes_total{dp_rank=\"0\",mode=\"decode_cuda_graph\",tp_rank=\"0\"} 2000.0\n"
        "sglang:cuda_graph_passes_total{dp_rank=\"0\",mode=\"prefill_none\",tp_rank=\"0\"} 113.0\n"
        "sglang:cuda_graph_passes_total{dp_rank=\"1\",mode=\"decode_none\",tp_rank=\"0\"} 2112.0\n";
    static const char decodes[] =
        "sglang:cuda_graph_passes_total{mode=\"decode_cuda_graph\",tp_rank=\"0\"} 7.0\n";
    const struct engine_ops *ops = engine_ops(ENGINE_SGLANG);
    const struct worker prefill = {.role = ROLE_PREFILL}, decode = {.role = ROLE_DECODE};

    assert_true(ops->steps_since_launch(counts, strlen(counts), &prefill) == 2113);
    assert_true(ops->steps_since_launch(decodes, strlen(decodes), &decode) == 7);
    assert_true(ops->steps_since_launch(decodes, strlen(decodes), &prefill) < 0);
    assert_true(ops->steps_since_launch("", 0, &decode) < 0);
}

static void test_vllm_review(void **state)
{
    struct test *t = *state;
    struct worker *w = &t->worker;

    w->setup.with_stack = 1;
    expect_remark(ENGINE_VLLM, &(struct recording){0}, w, false, NULL, "tenfold");
    w->setup.with_stack = w->setup.record_shapes = 0;
    expect_remark(ENGINE_VLLM, &(struct recording){.with_stack = true}, w, true, "--with-stack", "without");
    expect_remark(ENGINE_VLLM, &(struct recording){.record_shapes = true}, w, true, "--record-shapes",
                  "without");
    w->setup.with_stack = -1;
    expect_remark(ENGINE_VLLM, &(struct recording){.with_stack = true}, w, false, "--with-stack", "launch");
    expect_remark(ENGINE_VLLM, &(struct recording){.by_stage = true}, w, true, "--by-stage", "separate");
    expect_remark(ENGINE_VLLM, &(struct recording){.start_step = 9}, w, true, "--start-step", "at once");
    expect_remark(ENGINE_VLLM, &(struct recording){.steps = 9}, w, false, "--steps", "approximate");
    expect_remark(ENGINE_VLLM, &(struct recording){.activities = ACTIVITY_CPU}, w, false, "--activities",
                  "not known");
    expect_remark(ENGINE_VLLM, &(struct recording){.activities = ACTIVITY_MEM}, w, true, "--activities",
                  "memory");
    expect_remark(ENGINE_VLLM, &(struct recording){.activities = ACTIVITY_CUDA_PROFILER}, w, true,
                  "--activities", "CUDA profiler");
    w->setup.wait_iterations = 2;
    expect_remark(ENGINE_VLLM, &(struct recording){0}, w, false, NULL, "may record only one session");
    w->setup.max_iterations = 3;
    expect_remark(ENGINE_VLLM, &(struct recording){.steps = 9}, w, false, NULL, "max_iterations");
    w->sleeping = 1;
    expect_remark(ENGINE_VLLM, &(struct recording){0}, w, false, NULL, "sleeps");
}

static void test_vllm_review_is_silent(void **state)
{
    struct test *t = *state;
    struct review review = {0};

    t->worker.setup.with_stack = t->worker.setup.record_shapes = 0;
    engine_ops(ENGINE_VLLM)
        ->review(&(struct recording){.activities = ACTIVITY_CPU | ACTIVITY_CUDA}, &t->worker, &review);
    assert_int_equal(review.n, 0);
    review_done(&review);
}

static void test_sglang_review(void **state)
{
    struct test *t = *state;
    struct worker *w = &t->worker;
    const struct recording by_stage = {.steps = 3, .by_stage = true};
    struct review review = {0};

    engine_ops(ENGINE_SGLANG)->review(&by_stage, w, &review);
    assert_int_equal(review.n, 0);
    expect_remark(ENGINE_SGLANG, &(struct recording){.by_stage = true}, w, true, "--by-stage",
                  "number of steps");
    w->role = ROLE_DECODE;
    expect_remark(ENGINE_SGLANG, &by_stage, w, true, "--by-stage", "decode");
    w->speculative = true;
    expect_remark(ENGINE_SGLANG, &by_stage, w, true, "--by-stage", "speculative");
    expect_remark(ENGINE_SGLANG, &(struct recording){.activities = ACTIVITY_CUDA_PROFILER}, w, false,
                  "--activities", "no file");
}

static void test_sglang_body(void **state)
{
    struct test *t = *state;
    const struct recording rec = {
        .steps = 5,
        .start_step = 100,
        .activities = ACTIVITY_CPU | ACTIVITY_CUDA | ACTIVITY_MEM | ACTIVITY_CUDA_PROFILER,
        .record_shapes = true,
        .profile_id = "s7-t1",
        .output_dir = "/tmp/s7/t1",
    };
    _cleanup_json_ body = engine_ops(ENGINE_SGLANG)->start_body(&rec, &t->worker);
    _cleanup_(freep) char *text = json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text,
                        "{\"activities\":[\"CPU\",\"GPU\",\"MEM\",\"CUDA_PROFILER\"],\"num_steps\":5,"
                        "\"output_dir\":\"/tmp/s7/t1\",\"profile_by_stage\":false,\"profile_id\":\"s7-t1\","
                        "\"record_shapes\":true,\"start_step\":100,\"with_stack\":false}");
    _cleanup_json_ plain =
        engine_ops(ENGINE_SGLANG)->start_body(&(struct recording){.profile_id = "x"}, &t->worker);
    _cleanup_(freep) char *short_text = json_dumps(plain, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(short_text,
                        "{\"profile_by_stage\":false,\"profile_id\":\"x\",\"record_shapes\":false,"
                        "\"with_stack\":false}");
    assert_null(engine_ops(ENGINE_VLLM)->start_body);
}

/* As the second round of questions finds it. */
static void answered_late(struct test *t, enum question q, const char *body)
{
    for (int i = 0; i <= QUESTION_MODELS; i++)
        status(t, (enum question)i, NOT_FOUND);
    worker_identify(&t->worker, &t->answers);
    for (int i = 0; i < _QUESTION_MAX; i++)
        if (QUESTIONS_UNKNOWN & 1u << i)
            status(t, (enum question)i, NOT_FOUND);
    ok(t, q, body);
    worker_identify(&t->worker, &t->answers);
}

static void test_rtp_llm(void **state)
{
    struct test *t = *state;

    answered_late(t, QUESTION_WORKER_STATUS,
                  "{\"frontend_available_concurrency\":32,\"frontend_concurrency_limit\":32,\"tp_size\":2,"
                  "\"dp_size\":4}");
    assert_int_equal(t->worker.engine, ENGINE_RTP_LLM);
    assert_true(t->worker.profilable);
    assert_int_equal(worker_ranks_expected(&t->worker), 2);
    assert_non_null(strstr(t->worker.note, "cannot be stopped"));
    assert_int_equal(worker_more_questions(&t->worker, &t->answers), 0);
    ok(t, QUESTION_OPENAPI, OPENAPI_OFF);
    worker_identify(&t->worker, &t->answers);
    assert_false(t->worker.profilable);
    assert_non_null(t->worker.remedy);
}

static void test_rtp_llm_needs_its_marks(void **state)
{
    static const char *const others[] = {"{}", "[]", "{\"tp_size\":2}",
                                         "{\"frontend_available_concurrency\":\"many\"}"};

    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        answered_late(*state, QUESTION_WORKER_STATUS, others[i]);
        assert_int_equal(((struct test *)*state)->worker.engine, ENGINE_UNKNOWN);
    }
}

static void expect_body(const struct recording *rec, const struct worker *w, const char *want)
{
    _cleanup_json_ body = worker_ops(w)->start_body(rec, w);
    _cleanup_(freep) char *text = json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text, want);
}

static void test_rtp_llm_body(void **state)
{
    struct test *t = *state;
    struct worker *w = &t->worker;

    w->engine = ENGINE_RTP_LLM;
    expect_body(&(struct recording){.profile_id = "s7-w0-1", .steps = 5, .start_step = 2}, w,
                "{\"enable_all_rank\":true,\"num_steps\":5,\"start_step\":2,\"trace_name\":\"s7-w0-1\"}");
    expect_body(&(struct recording){.profile_id = "s7-w0-1", .prompt = "Hello, ", .model = "m"}, w,
                "{\"generate_config\":{\"gen_timeline\":true,\"max_new_tokens\":3,\"min_new_tokens\":3,"
                "\"profile_step\":3,\"profile_trace_name\":\"s7-w0-1\"},\"model\":\"m\","
                "\"prompt\":\"Hello, \"}");
}

static void test_rtp_llm_review(void **state)
{
    struct test *t = *state;
    struct worker *w = &t->worker;
    struct review review = {0};

    engine_ops(ENGINE_RTP_LLM)->review(&(struct recording){.steps = 3, .start_step = 4}, w, &review);
    assert_int_equal(review.n, 0);
    expect_remark(ENGINE_RTP_LLM, &(struct recording){0}, w, false, "--duration", "cannot be stopped");
    expect_remark(ENGINE_RTP_LLM, &(struct recording){.steps = 1001}, w, true, "--steps", "at most 1000");
    expect_remark(ENGINE_RTP_LLM, &(struct recording){.with_stack = true}, w, true, "--with-stack",
                  "no Python");
    expect_remark(ENGINE_RTP_LLM, &(struct recording){.by_stage = true}, w, true, "--by-stage", "separate");
    expect_remark(ENGINE_RTP_LLM, &(struct recording){.activities = ACTIVITY_MEM}, w, true, "--activities",
                  "nothing else");
}

static void test_rtp_llm_failures(void **state)
{
    struct test *t = *state;
    const struct engine_ops *ops = engine_ops(ENGINE_RTP_LLM);
    struct problem p = {0};

    assert_null(ops->stop_path);
    _cleanup_(freep) char *refusal = ops->refusal("{\"error\":\"Failed to start profile: no backend\"}");
    assert_string_equal(refusal, "Failed to start profile: no backend");
    assert_null(ops->refusal("{\"status\":\"ok\"}"));
    assert_null(ops->refusal(""));
    engine_explain_start(ops, &t->worker, 200, "{\"error\":\"Failed to start profile: no backend\"}", &p);
    assert_non_null(strstr(p.what, "no backend"));
    assert_non_null(strstr(p.remedy, "log of the RTP-LLM server"));
    problem_done(&p);
    engine_explain_start(ops, &t->worker, 503, "", &p);
    assert_non_null(strstr(p.remedy, "draining"));
    problem_done(&p);
}

#define NO_ROUTE      "{\"error\":\"Route not found\",\"message\":\"Route /engine/profd not found\"}"
#define DYNAMO_UPTIME "dynamo_component_uptime_seconds 33.5\n"

/* What a system status server answers: /engine/profd and /metrics. */
static void system_answers(struct test *t, const char *no_route, const char *metrics)
{
    answered_late(t, QUESTION_METRICS, metrics);
    answers_set(&t->answers, QUESTION_SYSTEM, 0, 404, "404 Not Found", no_route, strlen(no_route));
    worker_identify(&t->worker, &t->answers);
}

static void dynamo(struct test *t, const char *metrics)
{
    system_answers(t, NO_ROUTE, metrics);
    assert_int_equal(t->worker.engine, ENGINE_DYNAMO);
    assert_true(t->worker.profilable);
    assert_int_equal(worker_more_questions(&t->worker, &t->answers), 0);
}

/* Its mark alone proves nothing, nor do its metrics, which a frontend has as well. */
static void test_dynamo_needs_its_marks(void **state)
{
    static const struct {
        const char *no_route, *metrics;
    } others[] = {
        {NO_ROUTE, "requests_total 4\n"},
        {NO_ROUTE, "vllm:num_requests_running 4\n"},
        {"", DYNAMO_UPTIME},
        {"{\"error\":\"Not Found\",\"message\":\"Route GET:/engine/profd not found\"}", DYNAMO_UPTIME},
        {"{\"error\":\"Route not found\",\"message\":\"no\"}", DYNAMO_UPTIME},
        {"{\"error\":\"Route not found\"}", DYNAMO_UPTIME},
        {"[]", DYNAMO_UPTIME},
    };

    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        system_answers(*state, others[i].no_route, others[i].metrics);
        assert_int_not_equal(((struct test *)*state)->worker.engine, ENGINE_DYNAMO);
    }
}

static void test_dynamo_of_sglang(void **state)
{
    struct test *t = *state;

    dynamo(t, DYNAMO_UPTIME "sglang:num_running_reqs{engine_type=\"decode\",tp_rank=\"0\"} 4\n");
    assert_int_equal(t->worker.role, ROLE_DECODE);
    assert_int_equal(t->worker.backend, ENGINE_SGLANG);
    assert_int_equal(worker_profiler(&t->worker), ENGINE_SGLANG);
    assert_true(worker_ops(&t->worker)->stops_after_steps);
    assert_true(worker_ops(&t->worker)->takes_output_dir);
    assert_true(engine_has_ended(worker_ops(&t->worker), &(struct recording){.steps = 1}, 500));
    expect_body(&(struct recording){.profile_id = "x", .steps = 2}, &t->worker,
                "{\"num_steps\":2,\"profile_by_stage\":false,\"profile_id\":\"x\",\"record_shapes\":false,"
                "\"with_stack\":false}");
}

static void test_dynamo_of_vllm(void **state)
{
    struct test *t = *state;

    dynamo(t, DYNAMO_UPTIME "vllm:num_requests_running 4\n");
    assert_int_equal(t->worker.role, ROLE_UNKNOWN);
    assert_int_equal(t->worker.backend, ENGINE_VLLM);
    assert_true(worker_ops(&t->worker)->stop_before_start);
    assert_non_null(worker_ops(&t->worker)->steps_metric);
    expect_body(&(struct recording){.profile_id = "x"}, &t->worker, "{}");
}

static void test_dynamo_of_something(void **state)
{
    struct test *t = *state;
    struct problem p = {0};

    dynamo(t, DYNAMO_UPTIME "lmdeploy_requests 4\n# vllm: is not here\n");
    assert_int_equal(t->worker.backend, ENGINE_UNKNOWN);
    assert_non_null(strstr(t->worker.note, "do not identify its engine"));
    assert_false(worker_ops(&t->worker)->stops_after_steps);
    expect_body(&(struct recording){.profile_id = "x"}, &t->worker, "{}");
    expect_remark(ENGINE_DYNAMO, &(struct recording){.with_stack = true}, &t->worker, true, NULL, "not know");
    engine_explain_start(worker_ops(&t->worker), &t->worker, 500,
                         "{\"error\":\"Handler error\",\"message\":\"already profiling\"}", &p);
    assert_non_null(strstr(p.what, "already profiling"));
    problem_done(&p);
    _cleanup_(freep) char *refusal =
        worker_ops(&t->worker)->refusal("{\"status\":\"error\",\"message\":\"no profiler\"}");
    assert_string_equal(refusal, "no profiler");
    assert_null(worker_ops(&t->worker)->refusal("{\"status\":\"ok\",\"message\":\"Profiling started\"}"));
}

/* Only what proves that somebody else's recording was running keeps a stop from being sent. */
static void test_recorded_elsewhere(void **state)
{
    static const char busy[] = "Profiling is already in progress. Call /stop_profile first.",
                      plain[] = "Internal Server Error";
    static const struct recording at_once = {.duration_ns = 1}, waits = {.start_step = 1},
                                  stages = {.by_stage = true, .steps = 3}, steps = {.steps = 3};
    const struct {
        enum engine engine, backend;
        const char *version;
        int dp;
        const struct recording *recording;
        int status;
        const char *body, *message;
        bool elsewhere;
    } cases[] = {
        {ENGINE_SGLANG, ENGINE_UNKNOWN, "0.5.18", 1, &waits, 500, plain, NULL, true},
        {ENGINE_SGLANG, ENGINE_UNKNOWN, NULL, 1, &stages, 500, plain, NULL, true},
        {ENGINE_SGLANG, ENGINE_UNKNOWN, "0.5.18", 1, &at_once, 500, plain, NULL, false},
        {ENGINE_SGLANG, ENGINE_UNKNOWN, "0.5.18", 1, &steps, 500, plain, NULL, false},
        {ENGINE_SGLANG, ENGINE_UNKNOWN, NULL, 1, &at_once, 500, plain, NULL, false},
        {ENGINE_SGLANG, ENGINE_UNKNOWN, "0.4.7", 1, &at_once, 500, plain, NULL, false},
        {ENGINE_SGLANG, ENGINE_UNKNOWN, "0.4.6.post5", 1, &at_once, 500, plain, NULL, true},
        /* Of several ranks, or an unknown number, another one may have taken the start. */
        {ENGINE_SGLANG, ENGINE_UNKNOWN, "0.5.18", 2, &waits, 500, plain, NULL, false},
        {ENGINE_SGLANG, ENGINE_UNKNOWN, "0.5.18", 0, &waits, 500, plain, NULL, false},
        /* Of who stands before it. */
        {ENGINE_SGLANG, ENGINE_UNKNOWN, "0.5.18", 1, &waits, 503, plain, NULL, false},
        {ENGINE_SGLANG, ENGINE_UNKNOWN, "0.5.18", 1, &waits, 500, "<html>500</html>", NULL, false},
        {ENGINE_DYNAMO, ENGINE_SGLANG, NULL, 0, &at_once, 500,
         "{\"message\":\"Python callback failed: RuntimeError: Profiling is already in progress. Call\"}",
         NULL, true},
        {ENGINE_DYNAMO, ENGINE_SGLANG, NULL, 0, &waits, 500, plain, NULL, false},
        {ENGINE_DYNAMO, ENGINE_VLLM, NULL, 0, &waits, 500, plain, NULL, false},
        {ENGINE_TENSORRT_LLM, ENGINE_UNKNOWN, NULL, 1, &at_once, 409,
         "{\"message\":\"Profiling is already in progress (or a pending start has been scheduled)\"}", NULL,
         true},
        {ENGINE_TOKENSPEED, ENGINE_UNKNOWN, NULL, 1, &at_once, 206, "{}", busy, true},
        {ENGINE_TOKENSPEED, ENGINE_UNKNOWN, NULL, 1, &at_once, 206, "{}", "no such directory", false},
        {ENGINE_VLLM, ENGINE_UNKNOWN, NULL, 1, &at_once, 500, busy, NULL, false},
        {ENGINE_UNKNOWN, ENGINE_UNKNOWN, NULL, 1, &waits, 500, busy, NULL, false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct worker w;
        worker_init(&w);
        w.engine = cases[i].engine;
        w.backend = cases[i].backend;
        w.version = xstrdup(cases[i].version);
        w.sizes.dp = cases[i].dp;
        if (engine_is_recorded_elsewhere(cases[i].recording, &w, cases[i].status, cases[i].body,
                                         cases[i].message) != cases[i].elsewhere)
            fail_msg("case %zu", i);
        worker_done(&w);
    }
}

static void test_dynamo_refuses_newer_keys(void **state)
{
    static const struct {
        int status;
        const char *body;
        bool refuses;
    } cases[] = {
        {500,
         "{\"error\":\"Handler error\",\"message\":\"Python callback failed: TypeError: "
         "TokenizerCommunicatorMixin.start_profile() got an unexpected keyword argument 'profile_id'\"}",
         true},
        {500,
         "{\"error\":\"Handler error\",\"message\":\"TypeError: __init__() got an unexpected keyword "
         "argument "
         "'profile_id'\"}",
         true},
        {500,
         "{\"error\":\"Handler error\",\"message\":\"got an unexpected keyword argument 'profile_id_2'\"}",
         false},
        {500, "{\"error\":\"Handler error\",\"message\":\"got an unexpected keyword argument 'num_steps'\"}",
         false},
        {500, "{\"error\":\"Handler error\",\"message\":\"already profiling 'profile_id'\"}", false},
        {200, "{\"message\":\"got an unexpected keyword argument 'profile_id'\"}", false},
        {500, "", false},
    };
    struct test *t = *state;

    dynamo(t, DYNAMO_UPTIME "sglang:num_running_reqs 4\n");
    const struct engine_ops *ops = worker_ops(&t->worker);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(engine_refuses_newer_keys(ops, cases[i].status, cases[i].body), cases[i].refuses);
    assert_false(engine_refuses_newer_keys(engine_ops(ENGINE_SGLANG), cases[0].status, cases[0].body));
}

static void test_dynamo_of_tensorrt_llm(void **state)
{
    struct test *t = *state;
    struct problem p = {0};

    dynamo(t, DYNAMO_UPTIME "trtllm_request_success_total 4\n");
    assert_int_equal(t->worker.backend, ENGINE_TENSORRT_LLM);
    engine_explain_start(worker_ops(&t->worker), &t->worker, 404, NO_ROUTE, &p);
    assert_non_null(strstr(p.remedy, "TLLM_PROFILE_START_STOP"));
    problem_done(&p);
}

static void test_failures(void **state)
{
    struct test *t = *state;
    struct problem p = {0};
    const struct recording steps = {.steps = 5}, none = {0};

    engine_explain_start(engine_ops(ENGINE_VLLM), &t->worker, 404, "{\"error\":{\"message\":\"Not Found\"}}",
                         &p);
    assert_string_equal(p.what, "POST /start_profile answered 404 Not Found");
    assert_non_null(strstr(p.remedy, "--profiler-config"));
    problem_done(&p);
    engine_explain_start(engine_ops(ENGINE_VLLM), &t->worker, 500,
                         "{\"error\":{\"message\":\"Call to profile method failed: disk\",\"code\":500}}",
                         &p);
    assert_string_equal(
        p.what,
        "POST /start_profile answered 500 Internal Server Error: Call to profile method failed: disk");
    problem_done(&p);
    engine_explain_start(engine_ops(ENGINE_SGLANG), &t->worker, 401, "no", &p);
    assert_non_null(strstr(p.remedy, "admin_token_file"));
    problem_done(&p);
    assert_true(engine_has_ended(engine_ops(ENGINE_SGLANG), &steps, 500));
    assert_false(engine_has_ended(engine_ops(ENGINE_SGLANG), &none, 500));
    assert_false(engine_has_ended(engine_ops(ENGINE_SGLANG), &steps, 404));
    assert_false(engine_has_ended(engine_ops(ENGINE_VLLM), &steps, 500));
    assert_null(engine_ops(ENGINE_UNKNOWN));
}

static void test_worker_json(void **state)
{
    struct test *t = *state;
    struct worker *w = &t->worker, back;

    w->engine = ENGINE_SGLANG;
    w->role = ROLE_PREFILL;
    w->health = HEALTH_HEALTHY;
    w->version = xstrdup("0.5");
    w->sizes = (struct parallel){.tp = 2, .nodes = 3};
    w->sleeping = 0;
    w->setup.kind = xstrdup("torch");
    w->setup.with_stack = 0;
    w->setup.max_iterations = 4;
    w->location.dir = xstrdup("/t");
    w->location.note = xstrdup("n\xff");
    w->local = w->profilable = w->clock_known = true;
    w->pid = 77;
    w->uid = 1000;
    w->clock_offset_ns = -5;
    _cleanup_json_ j = worker_to_json(w);
    assert_int_equal(worker_from_json(j, &back), 0);
    _cleanup_json_ again = worker_to_json(&back);
    assert_true(json_equal(j, again));
    assert_int_equal(back.setup.record_shapes, -1);
    assert_int_equal(back.setup.with_stack, 0);
    assert_int_equal(back.sizes.nodes, 3);
    worker_done(&back);
    json_object_set_new(j, "engine", json_string("abacus"));
    assert_int_equal(worker_from_json(j, &back), -EINVAL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups_of_workers),
        TEST(test_vllm),
        TEST(test_long_version),
        TEST(test_vllm_without_profiler),
        TEST(test_old_vllm_without_profiler),
        TEST(test_vllm_without_docs),
        TEST(test_evidence),
        TEST(test_evidence_of_a_router),
        TEST(test_contradictory_evidence),
        TEST(test_profile_route_is_asked_of_vllm_only),
        TEST(test_vllm_configuration),
        TEST(test_vllm_profiler_null),
        TEST(test_sglang),
        TEST(test_secrets_stay_out),
        TEST(test_old_sglang),
        TEST(test_busy_sglang),
        TEST(test_unknown),
        TEST(test_openapi),
        TEST(test_sglang_steps_since_launch),
        TEST(test_vllm_review),
        TEST(test_vllm_review_is_silent),
        TEST(test_sglang_review),
        TEST(test_sglang_body),
        TEST(test_rtp_llm),
        TEST(test_rtp_llm_needs_its_marks),
        TEST(test_rtp_llm_body),
        TEST(test_rtp_llm_review),
        TEST(test_rtp_llm_failures),
        TEST(test_dynamo_needs_its_marks),
        TEST(test_dynamo_of_sglang),
        TEST(test_recorded_elsewhere),
        TEST(test_dynamo_refuses_newer_keys),
        TEST(test_dynamo_of_tensorrt_llm),
        TEST(test_dynamo_of_vllm),
        TEST(test_dynamo_of_something),
        TEST(test_failures),
        TEST(test_worker_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
