/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "daemon/load/workload.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

static struct workload parsed(const char *text)
{
    struct problem p = {0};
    struct workload w;
    char error[200];
    _cleanup_json_ j = json_parse(text, strlen(text), error);

    assert_non_null(j);
    int r = workload_parse(j, &w, &p);
    if (r < 0)
        fail_msg("%s: %s", text, p.what);
    return w;
}

static void test_all_members(void **state)
{
    struct workload w =
        parsed("{\"model\": \"m\", \"api\": \"chat\", \"path\": \"/chat\", \"isl\": 100, \"osl\": 20,"
               " \"shared_prefix\": 30, \"requests\": 7, \"duration\": \"1min\", \"concurrency\": 9,"
               " \"arrival\": \"gamma\", \"rate\": 2.5, \"rate_to\": 5, \"burstiness\": 0.5, \"warmup\": 0,"
               " \"seed\": 3, \"stream\": false, \"timeout\": 30, \"drain\": \"250ms\","
               " \"goodput\": {\"ttft\": \"200ms\", \"e2e\": 2}}");

    assert_string_equal(w.model, "m");
    assert_int_equal(w.api, LOAD_API_CHAT);
    assert_string_equal(w.path, "/chat");
    assert_int_equal(w.isl, 100);
    assert_int_equal(w.osl, 20);
    assert_int_equal(w.shared_prefix, 30);
    assert_int_equal(w.requests, 7);
    assert_int_equal(w.duration_ns, 60 * NS_PER_S);
    assert_int_equal(w.concurrency, 9);
    assert_int_equal(w.arrival, ARRIVAL_GAMMA);
    assert_true(w.rate == 2.5 && w.rate_to == 5 && w.burstiness == 0.5);
    assert_int_equal(w.warmup, 0);
    assert_int_equal(w.seed, 3);
    assert_false(w.stream);
    assert_int_equal(w.timeout_ns, 30 * NS_PER_S);
    assert_int_equal(w.drain_ns, 250 * NS_PER_MS);
    assert_int_equal(w.goal.ttft_ns, 200 * NS_PER_MS);
    assert_int_equal(w.goal.tpot_ns, 0);
    assert_int_equal(w.goal.e2e_ns, 2 * NS_PER_S);
    workload_done(&w);
}

static void test_defaults(void **state)
{
    struct workload w = parsed("{\"prompts\": [\"one\", {\"prompt\": \"two\", \"osl\": 5}], \"repeat\": 3}");

    assert_int_equal(w.n_prompts, 2);
    assert_string_equal(w.prompts[1].text, "two");
    assert_int_equal(w.prompts[0].osl, 0);
    assert_int_equal(w.prompts[1].osl, 5);
    assert_int_equal(w.requests, 6);
    assert_int_equal(w.arrival, ARRIVAL_CLOSED);
    assert_int_equal(w.concurrency, 1);
    assert_int_equal(w.warmup, 2);
    assert_true(w.stream);
    workload_done(&w);

    w = parsed("{\"isl\": 1, \"requests\": 1, \"rate\": 3}");
    assert_int_equal(w.arrival, ARRIVAL_POISSON);
    assert_true(w.burstiness == 1);
    workload_done(&w);

    w = parsed("{\"isl\": 1, \"requests\": 1, \"template\": {\"q\": \"{prompt}\"}}");
    assert_int_equal(w.api, LOAD_API_TEMPLATE);
    workload_done(&w);
}

/* What is wrong, and a word that the problem must have. */
static const struct {
    const char *text, *word;
} wrong[] = {
    {"[]", "object"},
    {"{}", "no prompts"},
    {"{\"isl\": 1}", "has no end"},
    {"{\"isl\": 0, \"requests\": 1}", "isl"},
    {"{\"isl\": 1, \"requests\": 1, \"osl\": 0}", "osl"},
    {"{\"isl\": 1.5, \"requests\": 1}", "isl"},
    {"{\"isl\": 1048577, \"requests\": 1}", "isl"},
    {"{\"prompts\": [], \"requests\": 1}", "empty list"},
    {"{\"prompts\": [\"\"]}", "prompts"},
    {"{\"prompts\": [1]}", "prompts"},
    {"{\"prompts\": [{\"prompt\": \"x\", \"osl\": 0}]}", "osl of a prompt"},
    {"{\"prompts\": \"x\"}", "prompts"},
    {"{\"prompts\": [\"x\"], \"isl\": 3}", "both"},
    {"{\"prompts_file\": \"/etc/shadow\"}", "prompts_file"},
    {"{\"isl\": 4, \"shared_prefix\": 4, \"requests\": 1}", "shared_prefix"},
    {"{\"isl\": 4, \"requests\": 1, \"concurrency\": 20001}", "concurrency"},
    {"{\"isl\": 4, \"requests\": 1, \"rate\": 0}", "rate"},
    {"{\"isl\": 4, \"requests\": 1, \"rate\": 1, \"arrival\": \"closed\"}", "closed"},
    {"{\"isl\": 4, \"requests\": 1, \"arrival\": \"poisson\"}", "needs a rate"},
    {"{\"isl\": 4, \"requests\": 1, \"arrival\": \"uniform\"}", "arrival"},
    {"{\"isl\": 4, \"requests\": 1, \"rate\": 1, \"arrival\": \"poisson\", \"burstiness\": 2}", "burstiness"},
    {"{\"isl\": 4, \"requests\": 1, \"repeat\": 2}", "repeat"},
    {"{\"isl\": 4, \"requests\": 1, \"api\": \"template\"}", "template"},
    {"{\"isl\": 4, \"requests\": 1, \"api\": \"chat\", \"template\": {}}", "template"},
    {"{\"isl\": 4, \"requests\": 1, \"api\": \"grpc\"}", "api"},
    {"{\"isl\": 4, \"requests\": 1, \"path\": \"v1\"}", "path"},
    {"{\"isl\": 4, \"duration\": \"soon\"}", "duration"},
    {"{\"isl\": 4, \"duration\": \"0s\"}", "duration"},
    {"{\"isl\": 4, \"duration\": \"8d\"}", "duration"},
    {"{\"isl\": 4, \"duration\": \"2h\", \"rate\": 1000000}", "10000000"},
    {"{\"isl\": 4, \"requests\": 1, \"goodput\": {\"itl\": \"1s\"}}", "goodput"},
    {"{\"isl\": 4, \"requests\": 1, \"goodput\": {\"ttft\": -1}}", "goodput"},
    {"{\"isl\": 4, \"requests\": 1, \"stream\": 1}", "stream"},
    {"{\"isl\": 4, \"requests\": 1, \"speed\": 1}", "speed"},
};

static void test_wrong(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        struct workload w = {.isl = 77};
        struct problem p = {0};
        char error[200];
        _cleanup_json_ j = json_parse(wrong[i].text, strlen(wrong[i].text), error);
        assert_non_null(j);
        assert_int_equal(workload_parse(j, &w, &p), -EINVAL);
        if (!p.what || !strstr(p.what, wrong[i].word))
            fail_msg("%s: %s", wrong[i].text, p.what);
        assert_int_equal(p.kind, PROBLEM_BAD_REQUEST);
        assert_int_equal(w.isl, 77);
        problem_done(&p);
    }
}

static void test_osl_zero_has_a_remedy(void **state)
{
    _cleanup_json_ j = json_pack("{sisisi}", "isl", 4, "requests", 1, "osl", 0);
    struct problem p = {0};
    struct workload w;

    assert_int_equal(workload_parse(j, &w, &p), -EINVAL);
    assert_string_equal(p.what, "osl of the workload must be a whole number, 1 to 1048576");
    assert_string_equal(p.remedy, "leave osl out: outputs are as long as the model makes them");
    problem_done(&p);
}

#define WORKLOAD "\"workload\": {\"isl\": 4, \"requests\": 1}"

static void test_job(void **state)
{
    static const char text[] =
        "{" WORKLOAD ", \"targets\": [{\"url\": \"HTTP://Host:80/\", \"engine\": \"vllm\", \"pid\": 12}],"
        " \"network\": {\"allow\": \"10.0.0.0/8\"}, \"credentials\": {\"token_file\": \"/t\"}}";
    struct problem p = {0};
    struct load_spec o;

    assert_int_equal(load_spec_parse(text, strlen(text), &o, &p), 0);
    assert_int_equal(o.targets.n, 1);
    assert_string_equal(o.targets.items[0].url, "http://host:80");
    assert_string_equal(o.targets.items[0].engine, "vllm");
    assert_int_equal(o.targets.items[0].pid, 12);
    assert_int_equal(o.warm.n, 1);
    assert_string_equal(o.warm.items[0].url, "http://host:80");
    assert_string_equal(o.credentials.token_file, "/t");
    struct in6_addr outside;
    assert_int_equal(address_parse("192.168.0.1", &outside), 0);
    assert_false(network_allows(&o.policy, &outside));
    load_spec_done(&o);
}

static void test_wrong_jobs(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{}",
        "{" WORKLOAD "}",
        "{" WORKLOAD ", \"targets\": []}",
        "{" WORKLOAD ", \"targets\": [{}]}",
        "{" WORKLOAD ", \"targets\": [{\"url\": \"ftp://host\"}]}",
        "{" WORKLOAD ", \"targets\": [{\"url\": \"grpc://host:1\"}]}",
        "{" WORKLOAD ", \"targets\": [{\"url\": \"http://host\"}], \"warm\": [{}]}",
        "{" WORKLOAD ", \"targets\": [{\"url\": \"http://host\"}], \"network\": {\"allow\": \"nonsense\"}}",
        "{\"workload\": {}, \"targets\": [{\"url\": \"http://host\"}]}",
    };
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct problem p = {0};
        struct load_spec o;
        assert_int_equal(load_spec_parse(texts[i], strlen(texts[i]), &o, &p), -EINVAL);
        assert_non_null(p.what);
        problem_done(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_members), cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_wrong),       cmocka_unit_test(test_osl_zero_has_a_remedy),
        cmocka_unit_test(test_job),         cmocka_unit_test(test_wrong_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
