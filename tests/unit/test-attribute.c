/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/attribute.h"
#include "tests/unit/cmocka-all.h"

static const pid_t tree_a[] = {100, 101, 102}, tree_b[] = {200, 201}, inner[] = {1, 7, 8};

static int decide(const struct attribution_candidate *c, size_t n, struct attribution_evidence e,
                  bool *candidates)
{
    const char *evidence;
    return attribution_decide(c, n, &e, candidates, &evidence);
}

static void test_no_candidate(void **state)
{
    bool candidates[3];
    assert_int_equal(decide(NULL, 0, (struct attribution_evidence){.pid = -1}, candidates), ATTRIBUTION_NONE);
}

static void test_one_candidate(void **state)
{
    const struct attribution_candidate c[] = {{.n_pids = 0}};
    bool candidates[3];
    assert_int_equal(decide(c, 1, (struct attribution_evidence){.pid = 999}, candidates), 0);
}

static void test_process_id(void **state)
{
    const struct attribution_candidate c[] = {{.pids = tree_a, .inner_pids = inner, .n_pids = 3},
                                              {.pids = tree_b, .inner_pids = tree_b, .n_pids = 2}};
    bool candidates[3];

    assert_int_equal(decide(c, 2, (struct attribution_evidence){.pid = 101}, candidates), 0);
    assert_int_equal(decide(c, 2, (struct attribution_evidence){.pid = 201}, candidates), 1);
    /* A container's process writes the id that it has inside. */
    assert_int_equal(decide(c, 2, (struct attribution_evidence){.pid = 7}, candidates), 0);
    assert_int_equal(decide(c, 2, (struct attribution_evidence){.pid = 300}, candidates),
                     ATTRIBUTION_AMBIGUOUS);
    assert_true(candidates[0] && candidates[1]);
    assert_int_equal(decide(c, 2, (struct attribution_evidence){.pid = -1}, candidates),
                     ATTRIBUTION_AMBIGUOUS);
}

/* Workers of other hosts are no candidates here: what another process wrote is theirs, unless nothing is known of either. */
static void test_directory_of_several_hosts(void **state)
{
    struct attribution_candidate c[] = {
        {.pids = tree_a, .inner_pids = inner, .n_pids = 3, .shares_dir = true, .profile_id = "s7-w0"}};
    bool left[3];

    assert_int_equal(decide(c, 1, (struct attribution_evidence){.pid = 101}, left), 0);
    assert_int_equal(decide(c, 1, (struct attribution_evidence){.pid = 7}, left), 0);
    assert_int_equal(decide(c, 1, (struct attribution_evidence){.pid = 201}, left), ATTRIBUTION_NONE);
    assert_int_equal(decide(c, 1, (struct attribution_evidence){.pid = 201, .profile_id = "s7-w0"}, left), 0);
    assert_int_equal(decide(c, 1, (struct attribution_evidence){.pid = -1}, left), 0);
    c[0].had_it_open = true;
    assert_int_equal(decide(c, 1, (struct attribution_evidence){.pid = 201}, left), 0);
    c[0] = (struct attribution_candidate){.shares_dir = true};
    assert_int_equal(decide(c, 1, (struct attribution_evidence){.pid = 201}, left), 0);
}

static void test_open_file_beats_process_id(void **state)
{
    const struct attribution_candidate c[] = {
        {.pids = inner, .inner_pids = inner, .n_pids = 3, .had_it_open = true},
        {.pids = tree_b, .inner_pids = inner, .n_pids = 2}};
    bool candidates[3];
    assert_int_equal(decide(c, 2, (struct attribution_evidence){.pid = 200}, candidates), 0);
}

static void test_profile_id(void **state)
{
    const struct attribution_candidate c[] = {{.profile_id = "s7-w0-1700000000"},
                                              {.profile_id = "s7-w1-1700000000"}};
    bool candidates[3];

    assert_int_equal(
        decide(c, 2, (struct attribution_evidence){.profile_id = "s7-w1-1700000000", .pid = -1}, candidates),
        1);
    assert_int_equal(decide(c, 2,
                            (struct attribution_evidence){.profile_id = "pre-s7-w0-1700000000", .pid = -1},
                            candidates),
                     0);
}

/* Processes on demand: the id that is in the file decides, before everything else. */
static void test_trace_id(void **state)
{
    const struct attribution_candidate c[] = {
        {.trace_id = "s7-w0-17-ab", .has_given_name = true, .had_it_open = true, .uid_known = true, .uid = 1},
        {.trace_id = "s7-w1-17-cd"},
        {.pids = tree_a, .inner_pids = tree_a, .n_pids = 3}};
    struct attribution_evidence e = {.trace_id = "s7-w1-17-cd", .pid = 100, .owner = 1};
    bool left[3];

    assert_int_equal(decide(c, 3, e, left), 1);
    assert_int_equal(decide(c, 2, e, left), 1);
    /* Another recording's id: the name proves nothing. Who takes no id is not asked for one. */
    e.trace_id = "s6-w0-16-ef";
    assert_int_equal(decide(c, 2, e, left), ATTRIBUTION_NONE);
    assert_true(!left[0] && !left[1]);
    assert_int_equal(decide(c, 3, e, left), 2);
    /* A beginning of the id is not the id. */
    e.trace_id = "s7-w0-17-a";
    assert_int_equal(decide(c, 1, e, left), ATTRIBUTION_NONE);
    e.trace_id = "";
    assert_int_equal(decide(c, 1, e, left), ATTRIBUTION_NONE);
    /* A file without an id: its name counts, and nothing else does. */
    e.trace_id = NULL;
    assert_int_equal(decide(c, 2, e, left), 0);
    assert_int_equal(decide(&c[1], 1, e, left), ATTRIBUTION_NONE);
}

static void test_more_than_a_word_has_bits(void **state)
{
    enum { N = 200 };
    pid_t pids[N];
    struct attribution_candidate c[N];
    bool candidates[N];

    for (int i = 0; i < N; i++) {
        pids[i] = 1000 + i;
        c[i] = (struct attribution_candidate){.pids = &pids[i], .inner_pids = &pids[i], .n_pids = 1};
    }
    assert_int_equal(decide(c, N, (struct attribution_evidence){.pid = 1150}, candidates), 150);
    assert_int_equal(decide(c, N, (struct attribution_evidence){.pid = 1}, candidates),
                     ATTRIBUTION_AMBIGUOUS);
    assert_true(candidates[0] && candidates[N - 1]);
}

static void test_rules_narrow_together(void **state)
{
    /* Two containers with the same inner ids: the owner tells them apart. */
    const struct attribution_candidate c[] = {
        {.pids = tree_a, .inner_pids = inner, .n_pids = 2, .uid_known = true, .uid = 1000},
        {.pids = tree_b, .inner_pids = inner, .n_pids = 2, .uid_known = true, .uid = 1001},
        {.uid_known = true, .uid = 1001}};
    bool candidates[3];

    assert_int_equal(decide(c, 3, (struct attribution_evidence){.pid = 7, .owner = 1001}, candidates), 1);
    assert_int_equal(decide(c, 3, (struct attribution_evidence){.pid = 7, .owner = 0}, candidates),
                     ATTRIBUTION_AMBIGUOUS);
    assert_true(candidates[0] && candidates[1] && !candidates[2]);
}

static void test_sessions_of_one_worker(void **state)
{
    const struct attribution_candidate c[] = {{.worker = "http://a", .started_at = 100},
                                              {.worker = "http://a", .started_at = 300},
                                              {.worker = "http://b", .started_at = 300}};
    bool candidates[3];

    assert_int_equal(decide(c, 2, (struct attribution_evidence){.pid = -1, .written_at = 299}, candidates),
                     0);
    assert_int_equal(decide(c, 2, (struct attribution_evidence){.pid = -1, .written_at = 300}, candidates),
                     1);
    assert_int_equal(decide(c, 2, (struct attribution_evidence){.pid = -1, .written_at = 90}, candidates), 0);
    assert_int_equal(decide(c, 2, (struct attribution_evidence){.pid = -1}, candidates),
                     ATTRIBUTION_AMBIGUOUS);
    assert_int_equal(decide(c, 3, (struct attribution_evidence){.pid = -1, .written_at = 299}, candidates),
                     ATTRIBUTION_AMBIGUOUS);
    assert_true(candidates[0] && candidates[1] && candidates[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_candidate),
        cmocka_unit_test(test_one_candidate),
        cmocka_unit_test(test_process_id),
        cmocka_unit_test(test_directory_of_several_hosts),
        cmocka_unit_test(test_open_file_beats_process_id),
        cmocka_unit_test(test_profile_id),
        cmocka_unit_test(test_trace_id),
        cmocka_unit_test(test_sessions_of_one_worker),
        cmocka_unit_test(test_rules_narrow_together),
        cmocka_unit_test(test_more_than_a_word_has_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
