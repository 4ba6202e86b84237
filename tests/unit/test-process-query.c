/* SPDX-License-Identifier: Apache-2.0 */
/* Which processes a request selects, and whose processes its author may record. */
#include "daemon/fleet/process_query.h"
#include "tests/unit/cmocka-all.h"

static struct process_query parsed(const char *text)
{
    char error[200];
    _cleanup_json_ j = json_parse(text, strlen(text), error);
    struct problem p = {0};
    struct process_query q;

    assert_int_equal(process_query_parse(j, &q, &p), 0);
    return q;
}

static void test_selection(void **state)
{
    static const struct {
        const char *query;
        struct process_facts facts;
        bool selects;
    } cases[] = {
        {"{}", {.pid = 7, .uid = 1000}, true},
        {"{\"pids\": [7, 8]}", {.pid = 7}, true},
        {"{\"pids\": [8]}", {.pid = 7}, false},
        {"{\"pids\": []}", {.pid = 7}, true},
        {"{\"slurm_jobs\": [4711]}", {.pid = 7, .job = 4711}, true},
        {"{\"slurm_jobs\": [4711]}", {.pid = 7}, false},
        {"{\"uids\": [1000], \"pids\": [7]}", {.pid = 7, .uid = 1000}, true},
        {"{\"uids\": [1000], \"pids\": [7]}", {.pid = 7, .uid = 1001}, false},
        {"{\"units\": [\"train\"]}", {.unit = "train.service"}, true},
        {"{\"units\": [\"train@*\"]}", {.unit = "train@3.service"}, true},
        {"{\"units\": [\"train.service\"]}", {.unit = "trainer.service"}, false},
        {"{\"units\": [\"*\"]}", {.unit = NULL}, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct process_query q = parsed(cases[i].query), copy;
        process_query_copy(&q, &copy);
        assert_int_equal(process_query_selects(&q, &cases[i].facts), cases[i].selects);
        assert_int_equal(process_query_selects(&copy, &cases[i].facts), cases[i].selects);
        process_query_done(&q);
        process_query_done(&copy);
    }
    const struct process_query none = {0};
    assert_false(process_query_selects(&none, &cases[0].facts));
}

static void test_refusals(void **state)
{
    static const char *const wrong[] = {"[]",
                                        "{\"pids\": 7}",
                                        "{\"pids\": [-1]}",
                                        "{\"pids\": [\"7\"]}",
                                        "{\"units\": [\"\"]}",
                                        "{\"units\": [7]}",
                                        "{\"gpus\": [1]}"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        char error[200];
        _cleanup_json_ j = json_parse(wrong[i], strlen(wrong[i]), error);
        _cleanup_(problem_done) struct problem p = {0};
        struct process_query q;
        assert_true(process_query_parse(j, &q, &p) < 0);
        assert_int_equal(p.kind, PROBLEM_BAD_REQUEST);
    }
}

static void test_authors(void **state)
{
    const struct process_query everybody = {.may_all = true}, own = {.has_uid = true, .uid = 1000},
                               nobody = {0};

    (void)state;
    assert_true(process_query_may_record(&everybody, 0));
    assert_true(process_query_may_record(&own, 1000));
    assert_false(process_query_may_record(&own, 0));
    assert_false(process_query_may_record(&nobody, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_selection),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_authors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
