/* SPDX-License-Identifier: Apache-2.0 */
/* [kineto] listen=, the facts of a process, and which directory may have the socket. */
#include "base/alloc.h"
#include "daemon/kineto/facts.h"
#include "daemon/kineto/settings.h"
#include "daemon/kineto/socket.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

#define FIFTY_FOUR "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void test_listen(void **state)
{
    struct kineto_listen l;
    char *reason = NULL;

    assert_int_equal(
        kineto_listen_parse("abstract /run/profd/kineto, /srv/k /srv/k " FIFTY_FOUR, &l, &reason), 0);
    assert_true(l.abstract);
    assert_int_equal(l.n_dirs, 3);
    assert_string_equal(l.dirs[0], "/run/profd/kineto");
    assert_string_equal(l.dirs[1], "/srv/k");
    assert_int_equal(strlen(l.dirs[2]), KINETO_DIR_MAX);
    kineto_listen_done(&l);
    assert_int_equal(kineto_listen_parse("", &l, &reason), 0);
    assert_false(l.abstract || l.n_dirs > 0);
}

static void test_listen_refused(void **state)
{
    static const struct {
        const char *text, *part;
    } cases[] = {
        {"Abstract", "must be \"abstract\""},
        {"run/profd", "must be \"abstract\""},
        {FIFTY_FOUR "a", "at most 54 bytes"},
        {"/run/", "must not end in \"/\""},
        {"/", "must not end in \"/\""},
        {"/run//profd", "\"//\""},
        {"/run/./profd", "component"},
        {"/run/../profd", "component"},
        {"/run/..", "component"},
        {"/a /b /c /d /e /f /g /h /i /j /k /l /m /n /o /p /q", "at most 16"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(freep) char *reason = NULL;
        assert_int_equal(kineto_listen_parse(cases[i].text, NULL, &reason), -EINVAL);
        assert_non_null(strstr(reason, cases[i].part));
    }
}

static void test_environ(void **state)
{
    static const char text[] =
        "RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=8\0CUDA_VISIBLE_DEVICES=1\0"
        "KINETO_IPC_SOCKET_DIR=/run/profd/kineto\0KINETO_ONDEMAND_TRACE_DIR=/srv/traces";
    static const char odd[] = "RANK=-3\0LOCAL_RANK=1x\0WORLD_SIZE=99999999999\0CUDA_VISIBLE_DEVICES=\0"
                              "KINETO_ONDEMAND_TRACE_DIR=";
    struct kineto_process p = {0};

    kineto_facts_environ(&(struct string_list){text, sizeof(text) - 1}, &p);
    assert_true(p.environ_known);
    assert_int_equal(p.rank, 3);
    assert_int_equal(p.local_rank, 1);
    assert_int_equal(p.world_size, 8);
    assert_string_equal(p.gpus, "1");
    assert_string_equal(p.socket_dir, "/run/profd/kineto");
    assert_string_equal(p.trace_root, "/srv/traces");
    kineto_process_done(&p);
    kineto_facts_environ(&(struct string_list){odd, sizeof(odd) - 1}, &p);
    assert_int_equal(p.rank, -1);
    assert_int_equal(p.local_rank, -1);
    assert_int_equal(p.world_size, -1);
    assert_null(p.gpus);
    assert_null(p.socket_dir);
    assert_string_equal(p.trace_root, "/tmp");
    kineto_process_done(&p);
}

static void check_unit(const char *text, const char *expected)
{
    _cleanup_(freep) char *unit = kineto_facts_unit(text);
    assert_true(streq(unit, expected));
}

static void test_unit(void **state)
{
    check_unit("0::/system.slice/train.service\n", "train.service");
    check_unit("0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n", "slurmstepd.scope");
    check_unit("4:memory:/x.service\n0::/user.slice/user-1000.slice/session-2.scope", "session-2.scope");
    check_unit("0::/\n", NULL);
    check_unit("10::/a.service\n", NULL);
    check_unit("", NULL);
}

static void test_dir(void **state)
{
    static const struct {
        mode_t mode;
        uid_t uid;
        const char *part;
    } cases[] = {
        {S_IFDIR | 0700, 7, NULL},
        {S_IFDIR | 01770, 7, NULL},
        {S_IFDIR | 01777, 0, NULL},
        {S_IFDIR | 0770, 7, "sticky bit"},
        {S_IFDIR | 0707, 0, "sticky bit"},
        {S_IFDIR | 0755, 8, "belongs to user 8"},
        {S_IFREG | 0700, 7, "not a directory"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct stat st = {.st_mode = cases[i].mode, .st_uid = cases[i].uid};
        _cleanup_(freep) char *remedy = NULL;
        _cleanup_(freep) char *reason = kineto_dir_refusal("/d", &st, 7, &remedy);
        assert_int_equal(reason != NULL, cases[i].part != NULL);
        assert_int_equal(remedy != NULL, cases[i].part != NULL);
        if (reason)
            assert_non_null(strstr(reason, cases[i].part));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listen),  cmocka_unit_test(test_listen_refused),
        cmocka_unit_test(test_environ), cmocka_unit_test(test_unit),
        cmocka_unit_test(test_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
