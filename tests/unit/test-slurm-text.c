/* SPDX-License-Identifier: Apache-2.0 */
/* Lines as squeue and sinfo of Slurm 22.05.8 print them. */
#include "client/local/slurm_text.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

static void test_job_ids(void **state)
{
    static const char *const ids[] = {"1", "4711", "4711_3", "4711+1"};
    static const char *const others[] = {"",    "n1",  "4711_", "_1",  "4711_3+1",
                                         "1-2", "1,2", "4711 ", "job", "123456789012345678901234567890123"};

    for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
        assert_true(slurm_is_job_id(ids[i], strlen(ids[i])));
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        assert_false(slurm_is_job_id(others[i], strlen(others[i])));
}

static void test_jobs(void **state)
{
    static const struct {
        const char *text;
        int err;
        const char *nodes, *state;
    } cases[] = {
        {"RUNNING|1|n[1-2]\n", 0, "n[1-2]", NULL},
        {"RUNNING|3_1|n1\nRUNNING|3_2|n[2,4]\nPENDING|3_[3-9]|\n", 0, "n1,n[2,4]", NULL},
        {"SUSPENDED|1|n7", 0, "n7", NULL},
        {"PENDING|2|\n", -ENOENT, NULL, "pending"},
        {"COMPLETING|2|n1\n", -ENOENT, NULL, "completing"},
        {"CONFIGURING|2|n1\n", -ENOENT, NULL, "configuring"},
        {"", -ENOENT, NULL, NULL},
        {"CLUSTER: a\n\nCLUSTER: b\nRUNNING|1|n7\n", 0, "n7", NULL},
        {"RUNNING|1\n", -EPROTO, NULL, NULL},
        {"RUNNING|1|n1|x\n", -EPROTO, NULL, NULL},
        {"slurm is away\n", -EPROTO, NULL, NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(freep) char *nodes = NULL, *text = NULL;
        assert_int_equal(slurm_parse_job(cases[i].text, strlen(cases[i].text), &nodes, &text), cases[i].err);
        assert_true(streq(nodes, cases[i].nodes));
        assert_true(streq(text, cases[i].state));
    }
}

static void test_addresses(void **state)
{
    static const struct {
        const char *text;
        int err;
        const char *addresses;
        size_t n;
    } cases[] = {
        {"n1|127.0.0.11\nn2|127.0.0.12\n", 0, "127.0.0.[11-12]", 2},
        /* A node of two partitions has two lines. */
        {"n2|10.0.0.2\nn1|10.0.0.1\nn2|10.0.0.2\nn1|10.0.0.1", 0, "10.0.0.[2,1]", 2},
        {"n1 |10.0.0.1 \nn12|10.0.0.2\n", 0, "10.0.0.[1-2]", 2},
        {"n1|n1\nn2|10.0.0.2\n", 0, "n1,10.0.0.2", 2},
        {"n1|10.0.0.9\nn2|10.0.0.10\nn3|10.0.0.12\nn4|10.0.1.1\nn5|login\nn6|n6\nn7|n007\nn8|n8-ib\nn9|n9-ib",
         0, "10.0.0.[9-10,12],10.0.1.1,login,n6,n007,n8-ib,n9-ib", 9},
        {"n1|n1\nn2|n2\n", 0, NULL, 2},
        {"n1|fd00::1\nn2|10.0.0.2\n", 0, "n1,10.0.0.2", 2},
        {"n1|\n", 0, NULL, 1},
        {"", 0, NULL, 0},
        {"n1\n", -EPROTO, NULL, 0},
        {"|10.0.0.1\n", -EPROTO, NULL, 0},
        {"\n", 0, NULL, 0},
        {"CLUSTER: a\nn1|10.0.0.1\n\nCLUSTER: b\n", 0, "10.0.0.1", 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(freep) char *addresses = NULL;
        size_t n = 0;
        assert_int_equal(slurm_parse_addresses(cases[i].text, strlen(cases[i].text), &addresses, &n),
                         cases[i].err);
        assert_true(streq(addresses, cases[i].addresses));
        assert_int_equal(n, cases[i].n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_ids),
        cmocka_unit_test(test_jobs),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
