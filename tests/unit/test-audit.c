/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "extras/audit/audit.h"
#include "tests/unit/cmocka-all.h"
#include <math.h>

/* A run without findings, and with few limitations. */
#define METRICS(e2e_p99, itl_p99, late)                                                                      \
    "\"metrics\": {\"ttft_ms\": {\"p50\": 20, \"p99\": 30}, \"itl_ms\": {\"p50\": 5, \"p99\": " itl_p99      \
    ", \"count\": 5000}, \"e2e_ms\": {\"p50\": 100, \"p99\": " e2e_p99                                       \
    "}, \"send_lateness_ms\": {\"p99\": " late "}}"
#define THROUGHPUT(tokens) "\"throughput\": {\"requests_per_s\": 10, \"output_tokens_per_s\": " tokens "}"
#define RUN(requests, metrics, more)                                                                         \
    "{\"run\": 3, \"requests\": " requests ", " metrics                                                      \
    ", " THROUGHPUT("250") ", \"started_at\": 0, "                                                           \
                           "\"ended_at\": 900000000000, \"workload\": {\"arrival\": \"poisson\"}, "          \
                           "\"tokens\": {\"output_source\": "                                                \
                           "\"usage\"}" more "}"
#define GOOD "{\"success\": 2000, \"incomplete\": 0, \"error\": 0}"
#define CALM METRICS("150", "9", "0.1")
#define POINT(concurrency, tokens, e2e)                                                                      \
    "{\"concurrency\": " concurrency                                                                         \
    ", \"run\": {" THROUGHPUT(tokens) ", \"metrics\": {\"e2e_ms\": {\"p50\": " e2e ", \"p99\": " e2e "5}}}}"
#define SATURATES                                                                                            \
    POINT("1", "100", "10")                                                                                  \
    "," POINT("2", "200", "10") "," POINT("4", "390", "11") "," POINT("8", "400", "20")
#define FACTS(run, more)                                                                                     \
    "{\"model\": {\"name\": \"tiny\", \"workers\": 2}, \"hardware\": {\"of_worker\": true, \"gpus\": "       \
    "[{\"name\": \"H200\", \"memory_total_bytes\": 1}]}, \"prompts\": [{\"prompt\": 0, \"text\": \"a|b\", "  \
    "\"requests\": 5, \"input_tokens\": 4000, \"output_tokens\": 600}], \"price_per_hour\": 3.6, "           \
    "\"run\": " run more "}"

#define OUTLIERS(worst)                                                                                      \
    ", \"outliers\": [{\"index\": 17, \"figure\": \"e2e_ms\", \"value\": " worst ", \"median\": 100, "       \
    "\"reason\": \"long input\"}, {\"index\": 17, \"figure\": \"ttft_ms\", \"value\": 28, \"median\": 20}, " \
    "{\"index\": 4, \"figure\": \"ttft_ms\", \"value\": 26, \"median\": 20}]"
#define SPEED(n, std)                                                                                        \
    ", \"rates\": {\"output_tokens_per_s\": {\"n\": " n ", \"mean\": 100, \"std\": " std "}}"
#define RELATED(n, rank)                                                                                     \
    ", \"correlation\": {\"input_tokens_ttft_n\": " n ", \"input_tokens_ttft_rank\": " rank "}"

static json_t *facts_of(const char *text)
{
    char error[200];
    json_t *j = json_parse(text, strlen(text), error);

    if (!j)
        fail_msg("%s", error);
    return j;
}

static char *written(const char *text, int (*write)(const struct document *d, FILE *out))
{
    _cleanup_json_ facts = facts_of(text);
    _cleanup_(document_done) struct document d = {0};
    char *result = NULL;
    size_t size;
    FILE *out = xmemstream(&result, &size);

    audit_write(facts, &d);
    write(&d, out);
    fclose(out);
    return result;
}

static char *items(const char *text, void (*write)(const struct audit_view *v, struct document *d))
{
    _cleanup_json_ facts = facts_of(text);
    _cleanup_(document_done) struct document d = {0};
    _cleanup_(audit_view_done) struct audit_view v;
    char *all = xstrdup("");

    audit_view_make(facts, &v);
    write(&v, &d);
    for (size_t i = 0; i < d.n; i++) {
        char *more = xasprintf("%s%s\n", all, d.blocks[i].text);
        free(all);
        all = more;
    }
    return all;
}

static void test_no_findings(void **state)
{
    _cleanup_(freep) char *text = items(FACTS(RUN(GOOD, CALM, ""), ""), audit_findings);
    assert_string_equal(text, "No findings: no failed request, no long tail, no drift.\n");
}

/* Just below each threshold nothing is said. */
static void test_no_finding_below_its_threshold(void **state)
{
    static const char *const cases[] = {
        FACTS(RUN(GOOD, CALM, ""), ", \"goal\": {\"e2e_ms\": 150, \"ttft_ms\": 30}"),
        FACTS(RUN(GOOD, CALM, OUTLIERS("199")), ""),
        FACTS(RUN(GOOD, CALM, ", \"outliers\": []"), ""),
        FACTS(RUN(GOOD, CALM, ""), SPEED("9", "60")),
        FACTS(RUN(GOOD, CALM, ""), SPEED("100", "30")),
        FACTS(RUN(GOOD, CALM, RELATED("19", "0.99")), ""),
        FACTS(RUN(GOOD, CALM, RELATED("200", "0.69")), ""),
        FACTS(RUN(GOOD, CALM, RELATED("200", "-0.9")), ""),
        FACTS(RUN(GOOD, CALM,
                  ", \"correlation\": {\"input_tokens_ttft_n\": 40, \"input_tokens_ttft_rank\": null}"),
              ""),
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(freep) char *text = items(cases[i], audit_findings);
        if (!starts_with(text, "No findings"))
            fail_msg("case %zu: '%s'", i, text);
    }
}

/* Each rule alone, with its figure. */
static void test_findings(void **state)
{
    static const struct {
        const char *facts, *text;
    } cases[] = {
        {FACTS(RUN("{\"success\": 90, \"incomplete\": 0, \"error\": 10}", CALM,
                   ", \"errors\": [{\"text\": \"HTTP 429\", \"count\": 7}]"),
               ""),
         "10 of 100 requests failed, most often: HTTP 429. "},
        {FACTS(RUN("{\"success\": 90, \"incomplete\": 2, \"error\": 0}", CALM, ""), ""),
         "2 of 92 responses were incomplete. "},
        {FACTS(RUN(GOOD, CALM, ", \"cold\": {\"e2e_ms\": {\"mean\": 450}}"), ""),
         "The first request took 450.0 ms, 4.5 times the median of 100.0 ms. "},
        {FACTS(RUN(GOOD, METRICS("301", "9", "0"), ""), ""),
         "One request in a hundred takes 301.0 ms and more, 3.0 times the median of 100.0 ms. "},
        {FACTS(RUN(GOOD, METRICS("150", "26", "0"), ""), ""),
         "The median gap between two tokens is 5.0 ms, but one gap in a hundred is 26.0 ms and more. "},
        {FACTS(RUN(GOOD, CALM,
                   ", \"drift\": {\"level\": 0.01, \"e2e_ms\": {\"p\": 0.0001, \"significant\": true, "
                   "\"first\": 90, \"last\": 130}, \"ttft_ms\": {\"p\": 0.5, \"significant\": false}}"),
               ""),
         "Latency went from 90.0 to 130.0 ms during the run (p = 0.0001): "},
        {FACTS(RUN(GOOD, CALM,
                   ", \"memory\": {\"workers\": [{\"url\": \"http://w\", \"rss_bytes\": {\"baseline\": "
                   "1048576, "
                   "\"end\": 2097152}}]}"),
               ""),
         "The memory of http://w grew from 1.0 MiB by 1.0 MiB. "},
        {FACTS(RUN(GOOD, METRICS("150", "9", "11"), ""), ""), "Requests left up to 11.0 ms late (p99): "},
        {FACTS(RUN(GOOD, CALM, ""), ", \"sweep\": [" POINT("1", "100", "10") "," POINT("2", "105", "20") "]"),
         "Higher concurrency gives no more throughput: 100.0 tokens/s at concurrency 1, 105.0 at best. "},
        {FACTS(RUN(GOOD, CALM, ""), ", \"sweep\": [" POINT("1", "100", "10") "," POINT("2", "190", "10") "]"),
         "Batching is effective: 100.0 tokens/s at concurrency 1, 190.0 at best, 1.9 times as much."},
        {FACTS(RUN(GOOD, CALM, ""), ", \"goal\": {\"e2e_ms\": 149, \"ttft_ms\": 30}"),
         "The goal e2e_ms <= 149 is already missed at the load of the main run: p99 is 150.0 ms. "},
        {FACTS(RUN(GOOD, CALM, OUTLIERS("200")), ""),
         "2 of 2000 requests are outliers; the worst, request 17, 200.0 ms against 100.0 (long input). "},
        {FACTS(RUN(GOOD, CALM, ""), SPEED("10", "31")),
         "Output speed differs from request to request: 100.0 tokens/s with a standard deviation of 31.0 (31 "
         "%), 10 "
         "requests. "},
        {FACTS(RUN(GOOD, CALM, RELATED("20", "0.7")), ""),
         "Requests with longer inputs had later first tokens (Spearman's rho 0.70, 20 requests). That is a "
         "correlation, not a cause: "},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(freep) char *text = items(cases[i].facts, audit_findings);
        if (!starts_with(text, cases[i].text) || strchr(text, '\n')[1])
            fail_msg("case %zu: '%s'", i, text);
    }
}

static void test_knee(void **state)
{
    static const struct {
        const char *sweep;
        ssize_t knee;
    } cases[] = {
        {SATURATES, 2},
        {POINT("1", "100", "10") "," POINT("2", "200", "10") "," POINT("4", "400", "10"), -1},
        {POINT("1", "100", "10") "," POINT("2", "100", "20") "," POINT("4", "100", "40"), 0},
        {POINT("1", "100", "10") "," POINT("2", "150", "20"), -1},
        {POINT("1", "100", "10") "," POINT("2", "300", "12") "," POINT("4", "80", "50"), 1},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(freep) char *text = xasprintf("{\"sweep\": [%s]}", cases[i].sweep);
        _cleanup_json_ facts = facts_of(text);
        _cleanup_(audit_view_done) struct audit_view v;
        audit_view_make(facts, &v);
        assert_int_equal(v.knee, cases[i].knee);
    }
}

static void test_limitations(void **state)
{
    static const char little[] =
        "{\"run\": {\"workload\": {\"concurrency\": 4}, \"requests\": {\"success\": 10}, \"started_at\": 0, "
        "\"ended_at\": 9000000000, \"tokens\": {\"output_source\": \"chunks\"}}, \"prompts\": "
        "[{\"input_tokens\": 12, "
        "\"output_tokens\": 30}, {\"input_tokens\": 7}]}";
    _cleanup_(freep) char *all = items(little, audit_limitations),
                          *few = items(FACTS(RUN(GOOD, CALM, ""), ", \"sweep\": [" POINT("64", "1", "1") "]"),
                                       audit_limitations);
    assert_string_equal(
        all, "Concurrency above 4.\n"
             "Bursts: each request waited for an earlier one, unlike those of many users (see --rate).\n"
             "More than one worker: routing, several nodes and failover were not measured.\n"
             "The worker's machine: it is another one, and its hardware is not known here.\n"
             "Long prompts: the longest had 12 tokens.\n"
             "Long responses: the longest had 30 tokens.\n"
             "Rare latencies: p99 is based on 10 requests.\n"
             "Long runs: this one took 9.0s, which shows no slow leak and no throttling.\n"
             "Exact token counts: the server reported none, they are from the events of its stream.\n"
             "Cost: no price was given (--price-per-hour).\n"
             "Quality: responses were not evaluated.\n");
    assert_string_equal(few, "Concurrency above 64.\nQuality: responses were not evaluated.\n");
}

/* What the workload leaves out is a closed loop of one request, unless there is a rate. */
static void test_load_that_is_not_reported(void **state)
{
    static const struct {
        const char *workload, *configured, *limit;
        bool bursts;
    } cases[] = {
        {"{}", "| Concurrency | 1 |", "Concurrency above 1.", false},
        {"{\"concurrency\": 4}", "| Concurrency | 4 |", "Concurrency above 4.", false},
        {"{\"rate\": 20}", "| Requests/s | 20 |", "Concurrency above 9.", true},
    };
    static const int peaks[] = {1, 4, 9};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(freep) char *facts =
            xasprintf("{\"run\": {\"workload\": %s, \"peak_concurrency\": %d}}", cases[i].workload, peaks[i]);
        _cleanup_(freep) char *text = written(facts, document_markdown),
                              *limits = items(facts, audit_limitations);
        assert_non_null(strstr(text, cases[i].configured));
        assert_non_null(strstr(limits, cases[i].limit));
        assert_int_equal(strstr(limits, "Bursts: ") == NULL, cases[i].bursts);
        assert_int_equal(strstr(text, "| Concurrency | 1 |") != NULL, i == 0);
    }
}

static void test_markdown(void **state)
{
    _cleanup_(freep) char *text =
        written(FACTS(RUN(GOOD, CALM, ""), ", \"goal\": {\"e2e_ms\": 150}, \"sweep\": [" SATURATES "]"),
                document_markdown);

    assert_true(starts_with(
        text, "# Performance audit of tiny\n\n## Executive summary\n\ntiny answered 2000 of 2000"));
    assert_non_null(strstr(text, "| 1 | a\\|b | 5 | 4000 | 600 | - | - | - | - | - | - |\n"));
    assert_non_null(strstr(text, "| 4 | 10.00 | - | 390.0 | - | - | 11.0 | 115.0 | - | - | knee |\n"));
    /* 3.6 an hour over 400 tokens/s. */
    assert_non_null(strstr(text, "| 8 | 400.0 | 34.56 | 2.500 |\n"));
    assert_non_null(strstr(text, "Goal e2e\\_ms \\<= 150 (p99): met up to concurrency 4, "));
    assert_null(strstr(text, "<svg"));
}

/* What 15 requests say of one in a hundred is their largest. */
static void test_a_p99_that_nothing_supports_is_not_stated(void **state)
{
    static const char few[] =
        FACTS("{\"run\": 3, \"requests\": {\"success\": 15}, \"metrics\": {\"e2e_ms\": {\"p50\": 100, "
              "\"p99\": 900, "
              "\"count\": 15}}, " THROUGHPUT("250") "}",
              ", \"goal\": {\"e2e_ms\": 150}, \"sweep\": [{\"concurrency\": 1, \"run\": {" THROUGHPUT(
                  "100") ", \"metrics\": {\"e2e_ms\": {\"p50\": 10, \"p99\": 90, \"count\": 15}}}}]");
    _cleanup_(freep) char *text = written(few, document_markdown);

    assert_non_null(strstr(text, "Complete response after 100.0 ms (median)."));
    assert_null(strstr(text, "900.0"));
    assert_non_null(strstr(text, "(p99): undecided"));
}

static void test_nobody_writes_markup(void **state)
{
    static const char bad[] =
        "{\"model\": {\"name\": \"<script>alert(1)</script>\"}, \"run\": {\"errors\": [{\"text\": "
        "\"<img src=x>\\u001b[31m\"}], \"requests\": {\"error\": 1}}, \"prompts\": [{\"text\": "
        "\"a\\n## b <b>\"}]}";
    _cleanup_(freep) char *html = written(bad, document_html), *markdown = written(bad, document_markdown);

    assert_null(strstr(html, "<script>"));
    assert_null(strstr(html, "<img"));
    assert_null(strchr(html, '\033'));
    assert_null(strstr(markdown, "<script>"));
    assert_null(strstr(markdown, "\n## b"));
}

/* Renderers of Markdown make links of bare addresses, and messages of @names: in code they do not. */
static void test_nobody_writes_links(void **state)
{
    static const char *const names[] = {"http://evil.example/x",
                                        "HTTPS://evil.example",
                                        "ftp://evil.example",
                                        "www.evil.example",
                                        "(WWW.evil.example)",
                                        "mail@evil.example",
                                        "mailto:mail@evil.example",
                                        "@team",
                                        "vscode://x",
                                        "<b>http://evil.example</b>"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        _cleanup_(freep) char *facts = xasprintf(
            "{\"model\": {\"name\": \"a %s b\"}, \"prompts\": [{\"text\": \"%s\"}]}", names[i], names[i]);
        _cleanup_(freep) char *text = written(facts, document_markdown);
        _cleanup_(freep) char *code = xasprintf("`%s`", names[i]);
        assert_non_null(strstr(text, code));
        for (const char *p = text; (p = strstr(p, names[i])); p++)
            assert_int_equal(p[-1], '`');
    }
    _cleanup_(freep) char *text =
        written("{\"model\": {\"name\": \"http://a`b|c\\\\d $x$ e\"}}", document_markdown);
    assert_non_null(strstr(text, "`http://a?b?c?d` \\$x\\$ e"));
}

/* A paragraph that begins with a model's name. */
static void test_nobody_begins_lists_or_code(void **state)
{
    static const struct {
        const char *name, *written;
    } cases[] = {
        {"- x", "\n\n\\- x answered"},   {"+ x", "\n\n\\+ x answered"},
        {"1. x", "\n\n1\\. x answered"}, {"12) x", "\n\n12\\) x answered"},
        {"    x", "\n\nx answered"},     {"-x 1. - y", "\n\n-x 1. - y answered"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(freep) char *facts = xasprintf("{\"model\": {\"name\": \"%s\"}}", cases[i].name);
        _cleanup_(freep) char *text = written(facts, document_markdown);
        assert_non_null(strstr(text, cases[i].written));
    }
}

/* 100, 200 and 400 tokens/s of output: the mean is 233.3, the deviation of the population 124.7. */
static void test_rates_of_requests(void **state)
{
    static const char rows[] =
        "[{\"outcome\": \"success\", \"e2e_ns\": 1000000000, \"input_tokens\": 10, \"output_tokens\": 100},"
        " {\"outcome\": \"success\", \"e2e_ns\": 500000000, \"input_tokens\": 10, \"output_tokens\": 100},"
        " {\"outcome\": \"success\", \"e2e_ns\": 250000000, \"output_tokens\": 100},"
        " {\"outcome\": \"success\", \"cold\": true, \"e2e_ns\": 1, \"input_tokens\": 10, \"output_tokens\": "
        "9},"
        " {\"outcome\": \"error\", \"e2e_ns\": 1, \"input_tokens\": 10, \"output_tokens\": 9}]";
    _cleanup_json_ requests = facts_of(rows);
    _cleanup_json_ j = facts_rates(requests);
    const json_t *output = json_object_get(j, "output_tokens_per_s"),
                 *all = json_object_get(j, "total_tokens_per_s");

    assert_int_equal(json_get_int(output, "n", 0), 3);
    assert_true(fabs(json_get_number(output, "mean", 0) - 233.333333) < 1e-5);
    assert_true(fabs(json_get_number(output, "std", 0) - 124.721913) < 1e-5);
    assert_true(json_get_number(output, "min", 0) == 100 && json_get_number(output, "max", 0) == 400);
    assert_true(json_get_number(output, "p50", 0) == 200);
    /* One did not say how long its input was. */
    assert_int_equal(json_get_int(all, "n", 0), 2);
    assert_true(json_get_number(all, "min", 0) == 110 && json_get_number(all, "max", 0) == 220);
    _cleanup_json_ none = facts_rates(NULL);
    assert_true(json_is_null(json_object_get(none, "output_tokens_per_s")));
}

static void test_html_plots(void **state)
{
    _cleanup_(freep) char *html =
        written(FACTS(RUN(GOOD, CALM, ""), ", \"sweep\": [" SATURATES "]"), document_html);
    assert_non_null(strstr(html, "<figcaption>Throughput</figcaption><svg "));
    assert_non_null(strstr(html, "r=\"6\" style=\"fill:var(--mark)\"><title>4, 390</title>"));
    assert_null(strstr(html, "http://"));
    assert_null(strstr(html, ">nan"));
}

static void test_nothing_known(void **state)
{
    _cleanup_(freep) char *text = written("{}", document_markdown);
    assert_non_null(strstr(text, "The model answered 0 of 0 requests."));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
}

static void test_hardware_texts(void **state)
{
    _cleanup_(freep) char *cpu = cpu_model("processor\t: 0\nmodel name\t: AMD EPYC 9654\nflags: x\n"),
                          *driver =
                              nvidia_driver("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Thu "
                                            "Jan  2 2025\nGCC version:  gcc 12.2.0\n");
    assert_string_equal(cpu, "AMD EPYC 9654");
    assert_string_equal(driver, "570.86.10");
    assert_null(cpu_model("processor: 0\n"));
    assert_null(nvidia_driver("no version here"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_p99_that_nothing_supports_is_not_stated),
        cmocka_unit_test(test_no_findings),
        cmocka_unit_test(test_findings),
        cmocka_unit_test(test_knee),
        cmocka_unit_test(test_limitations),
        cmocka_unit_test(test_load_that_is_not_reported),
        cmocka_unit_test(test_markdown),
        cmocka_unit_test(test_nobody_writes_links),
        cmocka_unit_test(test_nobody_begins_lists_or_code),
        cmocka_unit_test(test_nobody_writes_markup),
        cmocka_unit_test(test_no_finding_below_its_threshold),
        cmocka_unit_test(test_rates_of_requests),
        cmocka_unit_test(test_html_plots),
        cmocka_unit_test(test_nothing_known),
        cmocka_unit_test(test_hardware_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
