/* SPDX-License-Identifier: Apache-2.0 */
/* consul=: answers of Consul's health API as workers. */
#include "base/alloc.h"
#include "daemon/fleet/source.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

#define WORKERS_MAX 100
#define NODE        "\"Node\":{\"ID\":\"40e4a748\",\"Node\":\"foobar\",\"Address\":\"10.1.10.12\"}"

static int parse(const char *text, size_t max, const char *role_label, struct fleet *f,
                 char why[static SOURCE_WHY_MAX])
{
    struct source_config c = {
        .source = &source_consul, .value = xstrdup("vllm"), .role_label = xstrdup(role_label)};
    char *next = NULL;
    int r = source_consul.parse(&c, text, strlen(text), max, f, &next, why);

    assert_null(next);
    source_config_done(&c);
    return r;
}

static void test_values(void **state)
{
    static const struct {
        const char *value, *url; /* NULL: refused */
    } cases[] = {
        {"vllm", "http://127.0.0.1:8500/v1/health/service/vllm?passing"},
        {"vllm-prefill_2.a", "http://127.0.0.1:8500/v1/health/service/vllm-prefill_2.a?passing"},
        {"https://consul:8501/v1/health/service/vllm", "https://consul:8501/v1/health/service/vllm"},
        {"http://consul:8500/v1/health/service/vllm?dc=a&tag=b",
         "http://consul:8500/v1/health/service/vllm?dc=a&tag=b"},
        {"http://consul:8500", NULL},
        {"http://consul:8500/v1/health/service/", NULL},
        {"http://consul:8500/v1/health/service/?passing", NULL},
        {"http://user:secret@consul:8500/v1/health/service/vllm", NULL},
        {"ftp://consul/v1/health/service/vllm", NULL},
        {"../v1/kv/secret", NULL},
        {"vllm?token=a", NULL},
        {"", NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct source_config c = {.source = &source_consul,
                                  .value = xstrdup(cases[i].value),
                                  .consul_token_file = xstrdup("/token")};
        struct source_request request = {0};
        char why[SOURCE_WHY_MAX];
        const char *reason = NULL;
        assert_int_equal(source_consul.check(&c, &reason), cases[i].url ? 0 : -EINVAL);
        assert_int_equal(reason != NULL, !cases[i].url);
        if (cases[i].url) {
            assert_int_equal(source_consul.request(&c, NULL, &request, why), 0);
            assert_string_equal(request.url, cases[i].url);
            assert_string_equal(request.token_file, "/token");
            assert_string_equal(request.token_header, "X-Consul-Token");
        }
        source_request_done(&request);
        source_config_done(&c);
    }
}

static void test_workers(void **state)
{
    static const char text[] =
        "[{" NODE ",\"Service\":{\"ID\":\"a\",\"CreateIndex\":15,\"Address\":\"10.0.0.1\",\"Port\":8000,"
        "\"Tags\":[\"gpu\",\"prefill\"],\"Meta\":{}},"
        "\"Checks\":[{\"Status\":\"passing\"}]},"
        "{" NODE ",\"Service\":{\"ID\":\"b\",\"Address\":\"\",\"Port\":8001,\"Tags\":["
        "\"role=decode\"]},\"Checks\":[]},"
        "{" NODE ",\"Service\":{\"ID\":\"c\",\"Address\":\"fd00::1\",\"Port\":8002,"
        "\"Meta\":{\"role\":\"prefill\",\"scheme\":"
        "\"https\"}},\"Checks\":[{\"Status\":\"passing\"},{\"Status\":\"critical\"}]},"
        "{" NODE ",\"Service\":{\"ID\":\"d\",\"Address\":\"10.0.0.1\",\"Port\":0}}]";
    static const struct {
        const char *url, *identity;
        enum role role;
        enum health health;
    } workers[] = {
        {"http://10.0.0.1:8000", "40e4a748/a@15", ROLE_PREFILL, HEALTH_HEALTHY},
        {"http://10.1.10.12:8001", NULL, ROLE_DECODE, HEALTH_HEALTHY},
        {"https://[fd00::1]:8002", NULL, ROLE_PREFILL, HEALTH_UNHEALTHY},
    };
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    char why[SOURCE_WHY_MAX];

    assert_int_equal(parse(text, WORKERS_MAX, NULL, f, why), 0);
    assert_int_equal(f->n_workers, ARRAY_SIZE(workers));
    for (size_t i = 0; i < ARRAY_SIZE(workers); i++) {
        assert_string_equal(f->workers[i].url, workers[i].url);
        assert_true(streq(f->workers[i].identity, workers[i].identity));
        assert_int_equal(f->workers[i].role, workers[i].role);
        assert_int_equal(f->workers[i].health, workers[i].health);
    }
    assert_int_equal(f->n_notes, 1);
    assert_string_equal(f->notes[0].text,
                        "1 of 4 instances of the service have no port or no address and are ignored");
}

static void test_role_label(void **state)
{
    static const char text[] =
        "[{" NODE ",\"Service\":{\"ID\":\"a\",\"Address\":\"10.0.0.1\",\"Port\":8000,\"Meta\":{\"role\":"
        "\"prefill\",\"stage\":\"decode\"}}}]";
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    char why[SOURCE_WHY_MAX];

    assert_int_equal(parse(text, WORKERS_MAX, "stage", f, why), 0);
    assert_int_equal(f->workers[0].role, ROLE_DECODE);
}

static void test_other_answers(void **state)
{
    static const struct {
        const char *text;
        int err;
        const char *why;
    } cases[] = {
        {"[]", 0, NULL},
        {"", -EPROTO, "the answer is empty"},
        {"<html>", -EPROTO, "the answer is HTML instead of JSON"},
        {"ACL not found", -EPROTO, "the answer is not JSON"},
        {"{}", -EPROTO, "the answer is JSON that is not a list of instances"},
        {"[{\"Node\":{}}]", -EPROTO, "entry 1 has no Node and Service"},
        {"[1]", -EPROTO, "entry 1 has no Node and Service"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
        char why[SOURCE_WHY_MAX] = "";
        assert_int_equal(parse(cases[i].text, WORKERS_MAX, NULL, f, why), cases[i].err);
        assert_int_equal(f->n_workers, 0);
        if (cases[i].why)
            assert_string_equal(why, cases[i].why);
    }
}

static void test_bound(void **state)
{
    static const char text[] = "[{" NODE ",\"Service\":{\"Address\":\"10.0.0.1\",\"Port\":1}},{" NODE
                               ",\"Service\":{\"Address\":\"10.0.0.1\",\"Port\":2}}]";
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    char why[SOURCE_WHY_MAX];

    assert_int_equal(parse(text, 1, NULL, f, why), -E2BIG);
    assert_int_equal(f->n_workers, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),     cmocka_unit_test(test_workers),
        cmocka_unit_test(test_role_label), cmocka_unit_test(test_other_answers),
        cmocka_unit_test(test_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
