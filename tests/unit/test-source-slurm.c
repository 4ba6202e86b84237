/* SPDX-License-Identifier: Apache-2.0 */
/* slurm=: lists of nodes and ports as workers. */
#include "base/alloc.h"
#include "daemon/fleet/source.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

static void test_values(void **state)
{
    static const struct {
        const char *value, *port, *reason; /* NULL: right */
    } cases[] = {
        {"n[1-2]:8000", NULL, NULL},
        {"n[1-2]:8000-8001,8010", NULL, NULL},
        {"n[1-2],gpu-01", "8000", NULL},
        {"10.0.0.[1-4]:8000", NULL, NULL},
        {"n1", NULL, " has no port: append :PORT, or set port"},
        {"n1:8000", "8000", " has a port, and port is set, too"},
        {"n1:http", NULL, " is not a port, as 8000, or ports, as 8000-8003 or 8000,8010"},
        {"n1:8000-8064", NULL, " is too many ports for one host"},
        {"n1:8000,n2:8000", NULL, " has a character that no host name has"},
        {":8000", NULL, " names no host"},
        {"n[1-2:8000", NULL, " has a [ without a ]"},
        {"a[1-60000]b[1-60000]:1", NULL, " has more than 65536 nodes"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct source_config c = {
            .source = &source_slurm, .value = xstrdup(cases[i].value), .port = xstrdup(cases[i].port)};
        const char *reason = NULL;
        assert_int_equal(source_slurm.check(&c, &reason), cases[i].reason ? -EINVAL : 0);
        if (cases[i].reason)
            assert_string_equal(reason, cases[i].reason);
        source_config_done(&c);
    }
}

static void test_workers(void **state)
{
    struct source_config c = {.source = &source_slurm, .value = xstrdup("n[08-09]:8000,8002")};
    static const char *const urls[] = {"http://n08:8000", "http://n08:8002", "http://n09:8000",
                                       "http://n09:8002"};
    _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
    char why[SOURCE_WHY_MAX];

    assert_int_equal(source_slurm.look(&c, 4, f, why), 0);
    assert_int_equal(f->n_workers, ARRAY_SIZE(urls));
    for (size_t i = 0; i < ARRAY_SIZE(urls); i++)
        assert_string_equal(f->workers[i].url, urls[i]);
    source_config_done(&c);
}

/* More workers than are allowed, by nodes and by ports. */
static void test_bounds(void **state)
{
    static const char *const values[] = {"n[1-4]:8000", "n[1-2]:8000-8001", "a[1-60000]b[1-2]:1"};

    for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
        struct source_config c = {.source = &source_slurm, .value = xstrdup(values[i])};
        _cleanup_(fleet_freep) struct fleet *f = xcalloc(1, sizeof(*f));
        char why[SOURCE_WHY_MAX];
        assert_int_equal(source_slurm.look(&c, 3, f, why), -E2BIG);
        assert_true(f->n_workers <= 3);
        source_config_done(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_workers),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
