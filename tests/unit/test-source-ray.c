/* SPDX-License-Identifier: Apache-2.0 */
/* ray=: what Ray's dashboard says about Ray Serve as workers. */
#include "base/alloc.h"
#include "daemon/fleet/source.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

#define WORKERS_MAX 100

#define REPLICA(ip, actor, state)                                                                            \
    "{\"node_ip\":\"" ip "\",\"actor_id\":\"" actor "\",\"actor_name\":\"SERVE_REPLICA::" actor              \
    "\",\"pid\":4711,\"state\":\"" state "\"}"
#define BUNDLES(gpus)                                                                                        \
    "\"required_resources\":{\"CPU\":1},\"deployment_config\":{\"placement_group_bundles\":[{\"CPU\":1},{"   \
    "\"GPU\":" gpus "}]}"

static const char serve_llm[] =
    "{\"applications\":{\"llm\":{\"deployments\":{"
    "\"LLMServer:qwen\":{" BUNDLES("1") ",\"replicas\":[" REPLICA("10.0.0.1", "a1", "RUNNING") "," REPLICA(
        "10.0.0.2", "a2",
        "RUNNING") "," REPLICA("10.0.0.3", "a3",
                               "STARTING") "]},"
                                           "\"Decode:qwen\":{" BUNDLES("8") ",\"replicas\":[" REPLICA(
                                               "fd00::1", "a4", "RUNNING") "]},"
                                                                           "\"OpenAiIngress\":{" BUNDLES("0") ",\"replicas\":[" REPLICA(
                                                                               "10.0.0.1", "b1",
                                                                               "RUNNING") "]},"
                                                                                          "\"plain\":{"
                                                                                          "\"required_"
                                                                                          "resources\":{"
                                                                                          "\"GPU\":0.5},"
                                                                                          "\"replicas\":"
                                                                                          "[" REPLICA(
                                                                                              "10.0.0.5",
                                                                                              "a5",
                                                                                              "RUNNING") "]}}"
                                                                                                         "}},"
                                                                                                         "\"t"
                                                                                                         "arg"
                                                                                                         "et_"
                                                                                                         "gro"
                                                                                                         "ups"
                                                                                                         "\":"
                                                                                                         "[{"
                                                                                                         "\"p"
                                                                                                         "rot"
                                                                                                         "oco"
                                                                                                         "l\""
                                                                                                         ":\""
                                                                                                         "HTT"
                                                                                                         "P\""
                                                                                                         ",\""
                                                                                                         "tar"
                                                                                                         "get"
                                                                                                         "s\""
                                                                                                         ":[{"
                                                                                                         "\"i"
                                                                                                         "p\""
                                                                                                         ":\""
                                                                                                         "10."
                                                                                                         "0."
                                                                                                         "0."
                                                                                                         "9\""
                                                                                                         ",\""
                                                                                                         "por"
                                                                                                         "t\""
                                                                                                         ":80"
                                                                                                         "00,"
                                                                                                         "\"n"
                                                                                                         "ame"
                                                                                                         "\":"
                                                                                                         "\"S"
                                                                                                         "ERV"
                                                                                                         "E_"
                                                                                                         "PRO"
                                                                                                         "XY_"
                                                                                                         "ACT"
                                                                                                         "OR-"
                                                                                                         "1\""
                                                                                                         "},"
                                                                                                         "{\""
                                                                                                         "ip"
                                                                                                         "\":"
                                                                                                         "\"1"
                                                                                                         "0."
                                                                                                         "0."
                                                                                                         "0."
                                                                                                         "2\""
                                                                                                         ",\""
                                                                                                         "por"
                                                                                                         "t\""
                                                                                                         ":30"
                                                                                                         "001"
                                                                                                         ",\""
                                                                                                         "nam"
                                                                                                         "e\""
                                                                                                         ":\""
                                                                                                         "SER"
                                                                                                         "VE_"
                                                                                                         "REP"
                                                                                                         "LIC"
                                                                                                         "A::"
                                                                                                         "a2"
                                                                                                         "\"}"
                                                                                                         "]},"
                                                                                                         "{\""
                                                                                                         "pro"
                                                                                                         "toc"
                                                                                                         "ol"
                                                                                                         "\":"
                                                                                                         "\"g"
                                                                                                         "RPC"
                                                                                                         "\","
                                                                                                         "\"t"
                                                                                                         "arg"
                                                                                                         "ets"
                                                                                                         "\":"
                                                                                                         "[{"
                                                                                                         "\"i"
                                                                                                         "p\""
                                                                                                         ":\""
                                                                                                         "10."
                                                                                                         "0."
                                                                                                         "0."
                                                                                                         "1\""
                                                                                                         ",\""
                                                                                                         "por"
                                                                                                         "t\""
                                                                                                         ":40"
                                                                                                         "001"
                                                                                                         ",\""
                                                                                                         "nam"
                                                                                                         "e\""
                                                                                                         ":\""
                                                                                                         "SER"
                                                                                                         "VE_"
                                                                                                         "REP"
                                                                                                         "LIC"
                                                                                                         "A::"
                                                                                                         "a1"
                                                                                                         "\"}"
                                                                                                         "]}]"
                                                                                                         "}";

static int parse(const char *text, size_t max, const char *port, struct fleet *f,
                 char why[static SOURCE_WHY_MAX])
{
    struct source_config c = {
        .source = &source_ray, .value = xstrdup("http://head:8265"), .port = xstrdup(port)};
    char *next = NULL;
    int r = source_ray.parse(&c, text, strlen(text), max, f, &next, why);

    assert_null(next);
    source_config_done(&c);
    return r;
}

static void test_values(void **state)
{
    static const struct {
        const char *value, *port, *url; /* NULL: refused */
    } cases[] = {
        {"http://head:8265", NULL, "http://head:8265/api/serve/applications/"},
        {"https://head/ray/", "8000", "https://head/ray/api/serve/applications/"},
        {"http://head:8265/api/serve/applications/", NULL, "http://head:8265/api/serve/applications/"},
        {"http://head:8265/?a=b", NULL, NULL},
        {"head:8265", NULL, NULL},
        {"ray://head:10001", NULL, NULL},
        {"http://head:8265", "http", NULL},
        {"http://head:8265", "65536", NULL},
        {"http://head:8265", "0", NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct source_config c = {.source = &source_ray,
                                  .value = xstrdup(cases[i].value),
                                  .port = xstrdup(cases[i].port),
                                  .ray_token_file = xstrdup("/token")};
        struct source_request request = {0};
        char why[SOURCE_WHY_MAX];
        _cleanup_(freep) char *reason = NULL;
        assert_int_equal(source_config_check(&c, &reason), cases[i].url ? 0 : -EINVAL);
        if (cases[i].url) {
            assert_int_equal(source_ray.request(&c, NULL, &request, why), 0);
            assert_string_equal(request.url, cases[i].url);
            assert_string_equal(request.token_file, "/token");
            assert_null(request.token_header);
        }
        source_request_done(&request);
        source_config_done(&c);
    }
}

/* A proxy of Serve is no worker; only the replica with direct ingress has an HTTP port, and a gRPC port is none. */
static void test_replicas(void **state)
{
    static const struct {
        const char *url, *identity;
        enum role role;
        bool http;
    } workers[] = {
        {"ray://10.0.0.1/a1", "a1", ROLE_UNKNOWN, false},
        {"http://10.0.0.2:30001", "a2", ROLE_UNKNOWN, true},
        {"ray://[fd00::1]/a4", "a4", ROLE_DECODE, false},
        {"ray://10.0.0.5/a5", "a5", ROLE_UNKNOWN, false},
    };
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    char why[SOURCE_WHY_MAX];

    assert_int_equal(parse(serve_llm, WORKERS_MAX, NULL, f, why), 0);
    assert_int_equal(f->n_workers, ARRAY_SIZE(workers));
    for (size_t i = 0; i < ARRAY_SIZE(workers); i++) {
        const struct worker *w = &f->workers[i];
        assert_string_equal(w->url, workers[i].url);
        assert_string_equal(w->identity, workers[i].identity);
        assert_int_equal(w->role, workers[i].role);
        /* Discovery calls those that have no reason yet. */
        assert_int_equal(w->reason == NULL, workers[i].http);
        assert_int_equal(w->remedy == NULL, workers[i].http);
        assert_false(w->profilable);
    }
    assert_string_equal(
        f->workers[0].note,
        "a replica of LLMServer:qwen in Ray Serve's application llm, process 4711 of its host");
    assert_int_equal(f->n_notes, 2);
    assert_string_equal(f->notes[0].text, "1 replica is not running, or its address is unknown");
    assert_string_equal(f->notes[1].text, "1 replica without an accelerator is left out: OpenAiIngress");
}

static void test_port(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    char why[SOURCE_WHY_MAX];

    assert_int_equal(parse(serve_llm, WORKERS_MAX, "8100", f, why), 0);
    assert_string_equal(f->workers[0].url, "http://10.0.0.1:8100");
    assert_string_equal(f->workers[1].url, "http://10.0.0.2:30001");
    assert_string_equal(f->workers[2].url, "http://[fd00::1]:8100");
    assert_null(f->workers[0].reason);
}

static void test_other_answers(void **state)
{
    static const struct {
        const char *text;
        int err;
    } cases[] = {
        {"{\"deploy_mode\":\"MULTI_APP\",\"controller_info\":{},\"proxies\":{},\"applications\":{},\"target_"
         "capacity\":null}",
         0},
        {"{\"applications\":{\"a\":{\"deployments\":{\"LLMServer:m\":{\"replicas\":[1,null,{}]}}}}}", 0},
        {"{\"applications\":{\"a\":1,\"b\":{\"deployments\":[]}},\"target_groups\":{}}", 0},
        {"{\"applications\":{\"a\":{\"deployments\":{\"LLMServer:m\":{\"replicas\":[" REPLICA(
             "a/b c", "x", "RUNNING") "]}}}}}",
         0},
        {"{\"applications\":{\"a\":{\"deployments\":{\"LLMServer:m\":{\"replicas\":[" REPLICA(
             "10.0.0.1", "x/y", "RUNNING") "]}}}}}",
         0},
        {"{\"applications\":[]}", -EPROTO},
        {"[]", -EPROTO},
        {"", -EPROTO},
        {"<html>", -EPROTO},
        {"Serve dependencies are not installed.", -EPROTO},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
        char why[SOURCE_WHY_MAX] = "";
        assert_int_equal(parse(cases[i].text, WORKERS_MAX, NULL, f, why), cases[i].err);
        assert_int_equal(f->n_workers, 0);
        assert_int_equal(why[0] != '\0', cases[i].err != 0);
    }
}

static void test_bound(void **state)
{
    static const char *const ports[] = {NULL, "8000"};

    for (size_t i = 0; i < ARRAY_SIZE(ports); i++) {
        _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
        char why[SOURCE_WHY_MAX];
        assert_int_equal(parse(serve_llm, 2, ports[i], f, why), -E2BIG);
        assert_int_equal(f->n_workers, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values), cmocka_unit_test(test_replicas),      cmocka_unit_test(test_port),
        cmocka_unit_test(test_bound),  cmocka_unit_test(test_other_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
