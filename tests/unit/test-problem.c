/* SPDX-License-Identifier: Apache-2.0 */
/* Errors for people: who fills one, and how one is passed on under another kind. */
#include "base/problem.h"
#include "tests/unit/cmocka-all.h"

#include <errno.h>

static void test_first_one_stays(void **state)
{
    struct problem p = {0};

    assert_int_equal(problem_set(&p, -EBUSY, PROBLEM_BUSY, "the %s is busy", "disk"), -EBUSY);
    assert_int_equal(problem_set(&p, -EIO, PROBLEM_STORAGE, "other"), -EIO);
    assert_int_equal(p.kind, PROBLEM_BUSY);
    assert_string_equal(p.what, "the disk is busy");
    assert_int_equal(problem_set(NULL, -EIO, PROBLEM_STORAGE, "nobody asks"), -EIO);
    problem_done(&p);
    assert_int_equal(p.kind, PROBLEM_NONE);
}

static void test_copy(void **state)
{
    /* Texts of peers are no formats. */
    const struct problem from = {PROBLEM_UPSTREAM, (char *)"100%s", (char *)"Wait %n."},
                         other = {PROBLEM_STORAGE, (char *)"full", (char *)"Delete."};
    struct problem p = {0};

    assert_int_equal(problem_copy(&p, -EIO, PROBLEM_UNREACHABLE, &from), -EIO);
    assert_int_equal(p.kind, PROBLEM_UNREACHABLE);
    assert_string_equal(p.what, "100%s");
    assert_string_equal(p.remedy, "Wait %n.");
    assert_int_equal(problem_copy(&p, -ENOSPC, other.kind, &other), -ENOSPC);
    assert_string_equal(p.what, "100%s");
    problem_done(&p);
    assert_int_equal(problem_copy(NULL, -EIO, from.kind, &from), -EIO);
}

/* A problem without a remedy gets none, nor that of a later one. */
static void test_copy_without_remedy(void **state)
{
    const struct problem from = {PROBLEM_GONE, (char *)"gone", NULL},
                         other = {PROBLEM_STORAGE, (char *)"full", (char *)"Delete."};
    struct problem p = {0};

    problem_copy(&p, -ESTALE, from.kind, &from);
    problem_copy(&p, -ENOSPC, other.kind, &other);
    assert_string_equal(p.what, "gone");
    assert_null(p.remedy);
    problem_done(&p);
}

static void test_codes(void **state)
{
    for (int k = 0; k < _PROBLEM_KIND_MAX; k++)
        assert_int_equal(problem_kind_of(problem_code((enum problem_kind)k)), k);
    assert_int_equal(problem_kind_of("sunshine"), PROBLEM_INTERNAL);
    assert_int_equal(problem_kind_of(NULL), PROBLEM_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_one_stays),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_copy_without_remedy),
        cmocka_unit_test(test_codes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
