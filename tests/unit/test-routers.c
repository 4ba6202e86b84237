/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "daemon/fleet/router.h"
#include "daemon/fleet/url.h"
#include "tests/unit/cmocka-all.h"

#define MAX_WORKERS 100

static struct fleet *parse(const char *dialect, const char *path, const char *text, int *ret)
{
    struct fleet *f = xcalloc(1, sizeof(*f));
    char why[ROUTER_WHY_MAX] = "";

    *ret = router_parse(router_dialect_find(dialect), path, text, strlen(text),
                        &(struct router_bounds){.workers_max = MAX_WORKERS}, f, why);
    if (*ret == -EPROTO)
        assert_true(why[0] != '\0');
    return f;
}

/* By recognition, as `auto` does. */
static struct fleet *recognised(const char *path, const char *text, const char *dialect, size_t n)
{
    int r;
    struct fleet *f = parse(NULL, path, text, &r);
    assert_int_equal(r, 0);
    assert_string_equal(f->dialect, dialect);
    assert_int_equal(f->n_workers, n);
    return f;
}

static void test_vllm_router(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = recognised(
        "/workers",
        "{\"workers\":[{\"url\":\"http://"
        "10.0.0.5:8000\",\"model_id\":\"unknown\",\"worker_type\":\"prefill\","
        "\"is_healthy\":true,\"load\":7,\"connection_mode\":\"Http\",\"priority\":50,\"cost\":1.0,"
        "\"bootstrap_port\":null},{\"url\":\"http://"
        "10.0.0.6:8000\",\"model_id\":\"m\",\"worker_type\":\"decode\","
        "\"is_healthy\":false,\"load\":-1,\"connection_mode\":\"Grpc { port: Some(9) }\"}],\"total\":2,"
        "\"stats\":{\"prefill_count\":1,\"decode_count\":1,\"regular_count\":0}}",
        "vllm-router", 2);
    const struct worker *a = &f->workers[0], *b = &f->workers[1];

    assert_string_equal(a->url, "http://10.0.0.5:8000");
    assert_null(a->model);
    assert_null(a->listed_url);
    assert_int_equal(a->role, ROLE_PREFILL);
    assert_int_equal(a->health, HEALTH_HEALTHY);
    assert_int_equal(a->load, 7);
    assert_string_equal(a->connection, "http");
    assert_string_equal(b->model, "m");
    assert_int_equal(b->health, HEALTH_UNHEALTHY);
    assert_int_equal(b->load, -1);
    assert_string_equal(b->connection, "grpc");
    fleet_free(recognised("/workers", "{\"workers\":[],\"total\":0,\"stats\":{}}", "vllm-router", 0));
}

static void test_sglang_gateway(void **state)
{
    _cleanup_(fleet_freep) struct fleet *smg = recognised(
        "/workers",
        "{\"workers\":[{\"id\":\"1\",\"url\":\"http://h:1\",\"model_id\":\"m\",\"worker_type\":\"decode\","
        "\"connection_mode\":\"http\",\"runtime_type\":\"sglang\",\"status\":\"draining\",\"load\":0,"
        "\"dp_base_url\":\"http://"
        "h:1\",\"dp_rank\":0,\"dp_size\":8,\"labels\":{}}],\"total\":1,\"stats\":{}}",
        "smg", 1);
    assert_int_equal(smg->workers[0].role, ROLE_DECODE);
    assert_int_equal(smg->workers[0].health, HEALTH_UNHEALTHY);
    _cleanup_(fleet_freep) struct fleet *in_tree = recognised(
        "/workers",
        "{\"workers\":[{\"id\":\"1\",\"url\":\"grpc://h:1\",\"worker_type\":\"encode\",\"is_healthy\":true,"
        "\"connection_mode\":\"grpc\",\"runtime_type\":\"sglang\"}],\"total\":1,\"stats\":{}}",
        "sglang-gateway", 1);
    assert_int_equal(in_tree->workers[0].role, ROLE_ENCODE);
    listing_settle(in_tree, true);
    assert_false(in_tree->workers[0].profilable);
    assert_non_null(strstr(in_tree->workers[0].reason, "cannot be profiled over HTTP"));
    assert_non_null(in_tree->workers[0].remedy);
}

static void test_other_routers(void **state)
{
    static const struct {
        const char *path, *text, *dialect;
    } cases[] = {
        {"/list_workers", "{\"urls\":[\"http://h:1\"]}", "list-workers"},
        {"/nodes/status", "{\"http://h:1\":{\"models\":[\"m\"],\"role\":\"Hybrid\",\"speed\":null}}",
         "lmdeploy"},
        {"/workers", "{\"workers\":[{\"url\":\"http://h:1\",\"active_requests\":3}]}", "generic"},
        {"/workers", "{\"workers\":[\"http://h:1\"]}", "generic"},
        {"/workers", "{\"urls\":[\"http://h:1\"]}", "generic"},
        {"/workers", "[\"http://h:1/\"]", "generic"},
        {"/workers", "[{\"url\":\"h:1\"}]", "generic"},
        {"/workers", "{\"http://h:1\":{}}", "generic"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(fleet_freep) struct fleet *f =
            recognised(cases[i].path, cases[i].text, cases[i].dialect, 1);
        assert_string_equal(f->workers[0].url, "http://h:1");
    }
    _cleanup_(fleet_freep) struct fleet *lmdeploy = recognised(cases[1].path, cases[1].text, "lmdeploy", 1);
    assert_int_equal(lmdeploy->workers[0].role, ROLE_REGULAR);
    assert_string_equal(lmdeploy->workers[0].model, "m");
    _cleanup_(fleet_freep) struct fleet *slime = recognised(cases[2].path, cases[2].text, "generic", 1);
    assert_int_equal(slime->workers[0].load, 3);
    assert_int_equal(slime->workers[0].health, HEALTH_UNKNOWN);
}

static void test_no_list(void **state)
{
    static const char *const texts[] = {
        "",
        "<html></html>",
        "{",
        "null",
        "3",
        "\"http://h:1\"",
        "{\"error\":{\"code\":404}}",
        "{\"workers\":3}",
        "{\"object\":\"list\",\"data\":[{\"id\":\"model\"}]}",
        "[1,2]",
        "[[\"http://h:1\"]]",
    };
    static const char *const paths[] = {"/workers", "/list_workers", "/v1/rl/workers",
                                        "/health",  "/nodes/status", "/server_instances"};
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        for (size_t k = 0; k < ARRAY_SIZE(paths); k++) {
            fleet_free(parse(NULL, paths[k], texts[i], &r));
            assert_int_equal(r, -EPROTO);
        }
    /* A named dialect is believed, but wants a list all the same. */
    fleet_free(parse("vllm-router", "/workers", "{\"workers\":[{\"url\":\"http://h:1\"}]}", &r));
    assert_int_equal(r, 0);
    fleet_free(parse("vllm-router", "/workers", "{\"urls\":[\"http://h:1\"]}", &r));
    assert_int_equal(r, -EPROTO);
}

static void test_too_many(void **state)
{
    _cleanup_json_ urls = json_array();
    int r;

    for (int i = 0; i <= MAX_WORKERS; i++)
        json_array_append_new(urls, json_sprintf("http://h:%d", i + 1));
    _cleanup_(freep) char *text = json_dumps(urls, 0);
    fleet_free(parse(NULL, "/workers", text, &r));
    assert_int_equal(r, -E2BIG);
    json_array_remove(urls, 0);
    _cleanup_(freep) char *fewer = json_dumps(urls, 0);
    fleet_free(parse(NULL, "/workers", fewer, &r));
    assert_int_equal(r, 0);
}

static void test_bad_entries_are_said(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = recognised(
        "/workers", "{\"workers\":[{\"url\":\"http://h:1\"},{\"url\":\"tcp://h:2\"},{},7,null,\"\"]}",
        "generic", 1);
    assert_int_equal(f->n_notes, 4);
    assert_non_null(strstr(f->notes[0].text, "tcp://h:2"));
    assert_non_null(strstr(f->notes[3].text, "2 more"));
}

static void test_ranks_are_merged(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = recognised(
        "/workers",
        "{\"workers\":[{\"url\":\"http://b:1@0\",\"load\":2,\"is_healthy\":false},{\"url\":\"http://a:1\"},"
        "{\"url\":\"http://b:1@1\",\"load\":3,\"is_healthy\":true,\"worker_type\":\"decode\"},"
        "{\"url\":\"http://b:1/\"}]}",
        "generic", 4);
    listing_settle(f, true);
    assert_int_equal(f->n_workers, 2);
    assert_string_equal(f->workers[0].url, "http://b:1");
    assert_string_equal(f->workers[1].url, "http://a:1");
    assert_int_equal(f->workers[0].load, 5);
    assert_int_equal(f->workers[0].health, HEALTH_HEALTHY);
    assert_int_equal(f->workers[0].role, ROLE_DECODE);
    assert_int_equal(f->n_notes, 1);
    assert_non_null(strstr(f->notes[0].text, "4 listed entries are merged into 2 servers"));
}

static struct fleet *loopback_fleet(const char *router)
{
    struct fleet *f = recognised(
        "/workers", "[\"http://127.0.0.1:1\",\"http://0.0.0.0:2\",\"http://10.0.0.9:3\"]", "generic", 3);
    f->router = xstrdup(router);
    return f;
}

static void test_loopback_of_a_remote_router(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = loopback_fleet("http://10.0.0.1:3521");
    listing_settle(f, false);
    assert_string_equal(f->workers[0].url, "http://10.0.0.1:1");
    assert_string_equal(f->workers[0].listed_url, "http://127.0.0.1:1");
    assert_non_null(strstr(f->workers[0].note, "http://127.0.0.1:1"));
    assert_string_equal(f->workers[1].url, "http://10.0.0.1:2");
    assert_string_equal(f->workers[2].url, "http://10.0.0.9:3");
    assert_null(f->workers[2].note);
    assert_int_equal(f->n_notes, 1);
    assert_non_null(strstr(f->notes[0].text, "http://10.0.0.1:"));
}

static void test_loopback_of_this_host(void **state)
{
    _cleanup_(fleet_freep) struct fleet *f = loopback_fleet("http://10.0.0.1:3521");
    listing_settle(f, true);
    assert_string_equal(f->workers[0].url, "http://127.0.0.1:1");
    assert_string_equal(f->workers[1].url, "http://10.0.0.1:2");
}

static void test_dialect_names(void **state)
{
    _cleanup_(freep) char *names = router_dialect_names();
    for (size_t i = 0; router_dialect_at(i); i++) {
        assert_non_null(strstr(names, router_dialect_at(i)->name));
        assert_ptr_equal(router_dialect_find(router_dialect_at(i)->name), router_dialect_at(i));
        /* Dialects that share a path stand together: each path is asked once. */
        for (size_t k = 0; k + 1 < i; k++)
            if (streq(router_dialect_at(k)->path, router_dialect_at(i)->path))
                assert_string_equal(router_dialect_at(i - 1)->path, router_dialect_at(i)->path);
    }
    assert_null(router_dialect_find("auto"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vllm_router),
        cmocka_unit_test(test_sglang_gateway),
        cmocka_unit_test(test_other_routers),
        cmocka_unit_test(test_no_list),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_bad_entries_are_said),
        cmocka_unit_test(test_ranks_are_merged),
        cmocka_unit_test(test_loopback_of_a_remote_router),
        cmocka_unit_test(test_loopback_of_this_host),
        cmocka_unit_test(test_dialect_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
