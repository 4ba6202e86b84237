/* SPDX-License-Identifier: Apache-2.0 */
/* The two lists of a Dynamo frontend, as lib/rl/src/lib.rs and lib/llm/src/http/service/health.rs write them. */
#include "base/alloc.h"
#include "daemon/fleet/router.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

#define MAX_WORKERS 100
#define PORT        9090
#define RL          "/v1/rl/workers"
#define HEALTH      "/health"

static char why[ROUTER_WHY_MAX];

/* As `auto` reads it. */
static struct fleet *parse(const char *path, const char *text, int port, int *ret)
{
    const struct router_bounds bounds = {.workers_max = MAX_WORKERS, .system_port = port};
    struct fleet *f = xcalloc(1, sizeof(*f));

    why[0] = '\0';
    *ret = router_parse(NULL, path, text, strlen(text), &bounds, f, why);
    return f;
}

static struct fleet *listed(const char *path, const char *text, const char *dialect, size_t n)
{
    int r;
    struct fleet *f = parse(path, text, PORT, &r);

    assert_int_equal(r, 0);
    assert_string_equal(f->dialect, dialect);
    assert_int_equal(f->n_workers, n);
    return f;
}

static bool has_note(const struct fleet *f, const char *text)
{
    for (size_t i = 0; i < f->n_notes; i++)
        if (strstr(f->notes[i].text, text))
            return true;
    return false;
}

#define RL_LIST(workers) "{\"protocol_version\":1,\"namespace\":\"dynamo\",\"workers\":[" workers "]}"
#define RL_WORKER(component, id, more)                                                                       \
    "{\"namespace\":\"dynamo\",\"component\":\"" component "\",\"endpoint\":\"rl\",\"instance_id\":" id      \
    ",\"transport\":{\"tcp\":\"10.0.0.5:40001/" id "/rl\"},\"request_plane_url\":\"dyn://dynamo." component  \
    ".rl\","                                                                                                 \
    "\"routes\":[\"liveness_probe\",\"pause_generation\"]" more "}"

static void test_rl_workers(void **state)
{
    /* clang-format off */
    static const char text[] =
        RL_LIST(RL_WORKER("prefill", "1", ",\"system_url\":\"http://10.0.0.5:8081\",\"model\":\"Qwen/Qwen3\"") ","
                RL_WORKER("backend", "2", ",\"system_url\":\"http://10.0.0.6:8081\",\"world_size\":2") ","
                RL_WORKER("backend", "3", "") ","
                RL_WORKER("backend", "4", ",\"error\":\"worker discovery timed out after 30s\"") ","
                RL_WORKER("backend", "5", ",\"system_url\":\"tcp://h:1\""));
    /* clang-format on */
    _cleanup_(fleet_freep) struct fleet *f = listed(RL, text, "dynamo-rl", 2);

    assert_string_equal(f->workers[0].url, "http://10.0.0.5:8081");
    assert_int_equal(f->workers[0].role, ROLE_PREFILL);
    assert_string_equal(f->workers[0].model, "Qwen/Qwen3");
    assert_string_equal(f->workers[1].url, "http://10.0.0.6:8081");
    assert_int_equal(f->workers[1].role, ROLE_UNKNOWN);
    assert_null(f->workers[1].model);
    assert_int_equal(f->n_notes, 4);
    assert_true(has_note(f, "dynamo.backend instance 3 is ignored: it has no system status server"));
    assert_true(has_note(
        f, "dynamo.backend instance 4 is ignored: it did not answer the frontend: worker discovery"));
    assert_true(has_note(f, "\"tcp://h:1\" cannot be called"));
    assert_true(has_note(f, "only workers that run with --enable-rl"));
}

/* Another list may have them. */
static void test_rl_list_without_workers(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {RL_LIST(""), "a list without workers"},
        {RL_LIST(RL_WORKER("backend", "3", "")), "it has no system status server"},
        {"{\"workers\":[{\"url\":\"http://h:1\"}]}", "not a list of workers"},
        {"{\"error\":\"discovery_failed\",\"message\":\"etcd\"}", "not a list of workers"},
    };
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        fleet_free(parse(RL, cases[i].text, PORT, &r));
        assert_int_equal(r, -EPROTO);
        assert_non_null(strstr(why, cases[i].why));
    }
}

#define HEALTH_LIST(instances)                                                                               \
    "{\"status\":\"healthy\",\"endpoints\":[\"dyn://dynamo.backend.generate\"],\"instances\":[" instances "]}"
#define INSTANCE(component, endpoint, id, kind, address)                                                     \
    "{\"component\":\"" component "\",\"endpoint\":\"" endpoint                                              \
    "\",\"namespace\":\"dynamo\",\"instance_id\":" id ",\"transport\":{\"" kind "\":\"" address "\"}}"

/* A worker has several endpoints; routers and planners have no engine. */
static void test_health(void **state)
{
    /* clang-format off */
    static const char text[] = HEALTH_LIST(
        INSTANCE("prefill", "generate", "7", "tcp", "10.0.0.5:40001/7/generate") ","
        INSTANCE("prefill", "clear_kv_blocks", "7", "tcp", "10.0.0.5:40001/7/clear_kv_blocks") ","
        INSTANCE("backend", "generate", "8", "tcp", "10.0.0.6:40001/generate") ","
        INSTANCE("tensorrt_llm_encode", "generate", "9", "http", "http://10.0.0.7:8888/v1/rpc/generate") ","
        INSTANCE("backend", "generate", "10", "tcp", "[fd00::1]:40001/generate") ","
        INSTANCE("router", "best_worker_id", "11", "tcp", "10.0.0.8:40001/best_worker_id"));
    /* clang-format on */
    _cleanup_(fleet_freep) struct fleet *f = listed(HEALTH, text, "dynamo", 4);

    assert_string_equal(f->workers[0].url, "http://10.0.0.5:9090");
    assert_int_equal(f->workers[0].role, ROLE_PREFILL);
    assert_string_equal(f->workers[1].url, "http://10.0.0.6:9090");
    assert_int_equal(f->workers[1].role, ROLE_UNKNOWN);
    assert_int_equal(f->workers[2].role, ROLE_ENCODE);
    assert_string_equal(f->workers[3].url, "http://[fd00::1]:9090");
    assert_int_equal(f->n_notes, 0);
    listing_settle(f, false);
    assert_int_equal(f->n_notes, 0);
}

static void test_health_without_the_port(void **state)
{
    int r;

    fleet_free(parse(HEALTH, HEALTH_LIST(INSTANCE("backend", "generate", "8", "tcp", "10.0.0.6:1/generate")),
                     0, &r));
    assert_int_equal(r, -EDESTADDRREQ);
    assert_non_null(strstr(why, "not the port"));
    /* Nothing is missing where there are no workers. */
    fleet_free(parse(HEALTH, HEALTH_LIST(""), 0, &r));
    assert_int_equal(r, 0);
    fleet_free(
        parse(HEALTH, HEALTH_LIST(INSTANCE("router", "generate", "8", "tcp", "10.0.0.6:1/generate")), 0, &r));
    assert_int_equal(r, 0);
}

static void test_health_over_nats(void **state)
{
    int r;

    /* The port would not help. */
    for (int port = 0; port <= PORT; port += PORT) {
        fleet_free(parse(HEALTH,
                         HEALTH_LIST(INSTANCE("backend", "generate", "8", "nats_tcp",
                                              "dynamo_backend.generate-694d9b7f8a1c")),
                         port, &r));
        assert_int_equal(r, -EADDRNOTAVAIL);
        assert_non_null(strstr(why, "NATS"));
    }
    fleet_free(
        parse(HEALTH, HEALTH_LIST(INSTANCE("backend", "generate", "8", "quic", "10.0.0.6:1")), PORT, &r));
    assert_int_equal(r, -EADDRNOTAVAIL);
    assert_null(strstr(why, "NATS"));
    /* clang-format off */
    static const char mixed[] = HEALTH_LIST(
        INSTANCE("backend", "generate", "8", "nats_tcp", "dynamo_backend.generate-694d") ","
        INSTANCE("backend", "generate", "9", "tcp", "10.0.0.6:1/generate"));
    /* clang-format on */
    _cleanup_(fleet_freep) struct fleet *f = listed(HEALTH, mixed, "dynamo", 1);
    assert_true(has_note(f, "1 entry of the list is ignored: it names no host"));
}

static void test_workers_on_one_host(void **state)
{
    /* clang-format off */
    static const char text[] = HEALTH_LIST(
        INSTANCE("backend", "generate", "8", "tcp", "10.0.0.6:1/generate") ","
        INSTANCE("backend", "clear_kv_blocks", "8", "tcp", "10.0.0.6:1/clear_kv_blocks") ","
        INSTANCE("prefill", "generate", "9", "tcp", "10.0.0.6:2/generate"));
    /* clang-format on */
    _cleanup_(fleet_freep) struct fleet *f = listed(HEALTH, text, "dynamo", 1);

    assert_int_equal(f->workers[0].role, ROLE_UNKNOWN); /* which of them has the port is not known */
    assert_int_equal(f->n_notes, 1);
    assert_true(has_note(f, "2 Dynamo workers run on 1 host (10.0.0.6), one of each at port 9090"));
}

static void test_other_health(void **state)
{
    static const char *const texts[] = {
        "{\"status\":\"healthy\"}",
        "{\"status\":\"ready\",\"uptime\":{\"secs\":1,\"nanos\":0},\"endpoints\":{\"generate\":\"ready\"}}",
        "{\"status\":\"healthy\",\"instances\":{}}",
        "[]",
    };
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        fleet_free(parse(HEALTH, texts[i], PORT, &r));
        assert_int_equal(r, -EPROTO);
    }
}

static void test_too_many(void **state)
{
    _cleanup_json_ list = json_pack("{s:s, s:[], s:[]}", "status", "healthy", "endpoints", "instances");
    json_t *instances = json_object_get(list, "instances");
    int r;

    for (int i = 0; i <= MAX_WORKERS; i++) {
        _cleanup_(freep) char *address = xasprintf("10.0.0.%d:1/generate", i + 1);
        json_array_append_new(instances, json_pack("{s:s, s:s, s:s, s:i, s:{s:s}}", "component", "backend",
                                                   "endpoint", "generate", "namespace", "dynamo",
                                                   "instance_id", i, "transport", "tcp", address));
    }
    _cleanup_(freep) char *text = json_dumps(list, 0);
    fleet_free(parse(HEALTH, text, PORT, &r));
    assert_int_equal(r, -E2BIG);
    json_array_remove(instances, 0);
    _cleanup_(freep) char *fewer = json_dumps(list, 0);
    fleet_free(parse(HEALTH, fewer, PORT, &r));
    assert_int_equal(r, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rl_workers),       cmocka_unit_test(test_rl_list_without_workers),
        cmocka_unit_test(test_health),           cmocka_unit_test(test_health_without_the_port),
        cmocka_unit_test(test_health_over_nats), cmocka_unit_test(test_workers_on_one_host),
        cmocka_unit_test(test_other_health),     cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
