/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of a run while it goes on: tokens as they come, not when their requests end. */
#include "daemon/load/records.h"
#include "tests/unit/run-fixture.h"

static void assert_rate(struct progress *l, double at_s, double expected)
{
    _cleanup_json_ line = progress_line(l, (int64_t)(at_s * NS_PER_S));

    assert_near(line, "output_tokens_per_s", expected, 1e-6);
}

static void test_tokens_count_when_they_come(void **state)
{
    struct progress l = {0};
    struct request_record r = request_at(0, 0, 10, 1000);

    for (int s = 1; s <= 10; s++) {
        l.tokens_seen++;
        assert_rate(&l, s, 1);
    }
    progress_add(&l, &r, 10);
    l.tokens_seen++;
    assert_rate(&l, 11, 1);
}

static void test_the_end_of_a_request_reports_how_many_they_were(void **state)
{
    struct progress l = {0};
    struct request_record r = request_at(0, 0, 10, 1),
                          failed = {.outcome = OUTCOME_ERROR, .output_tokens = -1};

    l.tokens_seen = 2; /* of 10, several in an event */
    progress_add(&l, &r, 2);
    l.tokens_seen += 5;
    progress_add(&l, &failed, 5);
    assert_rate(&l, 1, 15);
    r.output_tokens = 1; /* its events were more than its tokens */
    progress_add(&l, &r, 20);
    assert_rate(&l, 2, 0);
}

static void test_the_rate_is_of_the_last_seconds(void **state)
{
    struct progress l = {.tokens_seen = 100};

    assert_rate(&l, 1, 100);
    assert_rate(&l, 2, 50);
    assert_rate(&l, PROGRESS_LINES, 100.0 / PROGRESS_LINES);
    for (int s = 1; s <= PROGRESS_LINES; s++)
        json_decref(progress_line(&l, (PROGRESS_LINES + s) * NS_PER_S));
    assert_rate(&l, 2 * PROGRESS_LINES + 1, 0);
}

static void test_an_answer_that_came_in_one_piece_has_no_ttft(void **state)
{
    struct progress l = {0};
    struct request_record r = request_at(0, 0, 10, 1);

    r.first_ns = r.last_ns = -1;
    progress_add(&l, &r, 0);
    _cleanup_json_ line = progress_line(&l, NS_PER_S);
    assert_null(json_object_get(line, "ttft_p50_ms"));
    assert_near(line, "e2e_p50_ms", 19, 1e-6);
}

static void test_a_percentile_needs_requests_beyond_it(void **state)
{
    struct progress l = {0};
    struct request_record r = request_at(0, 0, 10, 1);

    for (int i = 0; i < 100; i++) {
        _cleanup_json_ line = progress_line(&l, NS_PER_S);
        assert_null(json_object_get(line, "ttft_p99_ms"));
        assert_null(json_object_get(line, "e2e_p99_ms"));
        progress_add(&l, &r, 1);
    }
    _cleanup_json_ line = progress_line(&l, NS_PER_S);
    assert_near(line, "e2e_p99_ms", 19, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens_count_when_they_come),
        cmocka_unit_test(test_the_end_of_a_request_reports_how_many_they_were),
        cmocka_unit_test(test_the_rate_is_of_the_last_seconds),
        cmocka_unit_test(test_an_answer_that_came_in_one_piece_has_no_ttft),
        cmocka_unit_test(test_a_percentile_needs_requests_beyond_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
