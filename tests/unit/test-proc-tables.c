/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of /proc as bytes: sockets, addresses, mounts, status. */
#include "base/address.h"
#include "base/alloc.h"
#include "base/process_info.h"
#include "base/process_net.h"
#include "base/util.h"
#include "daemon/fleet/mount_table.h"
#include "daemon/fleet/process.h"
#include "tests/unit/cmocka-all.h"
#include <arpa/inet.h>

static const char tcp_table[] =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 67890 1 0 "
    "100 0\n"
    "   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1 0 100 "
    "0\n"
    "garbage\n"
    "   2: 0100007F:1F91 00000000:0000 0A 0000\n"
    "   3: 0100007F:1F90 0100007F:AABB 01 00000000:00000000 00:00000000 00000000  1000        0 99 1 0 100 "
    "0\n"
    "   4: 0100007F:1F92 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 98 1 0 100 "
    "0\n";
static const char tcp6_table[] =
    "   0: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 "
    "00:00000000 00000000  1000        0 55 1 0 100 0\n";

static struct in6_addr address(const char *text)
{
    struct in6_addr a;
    assert_true(address_of_host(text, &a));
    return a;
}

static void test_socket_tables(void **state)
{
    _cleanup_(net_survey_done) struct net_survey s = {0};
    bool ended;

    size_t used = net_table_parse(tcp_table, strlen(tcp_table), 3, &s, &ended);
    assert_true(ended);
    assert_true(used < strlen(tcp_table));
    assert_int_equal(s.n_listeners, 2);
    assert_int_equal(s.listeners[0].port, 8080);
    assert_int_equal(s.listeners[0].inode, 67890);
    assert_int_equal(s.listeners[0].uid, 1000);
    assert_int_equal(s.listeners[0].space, 3);
    struct in6_addr loopback = address("127.0.0.1");
    assert_memory_equal(&s.listeners[0].address, &loopback, sizeof(loopback));

    assert_int_equal(net_table_parse(tcp6_table, strlen(tcp6_table), 0, &s, &ended), strlen(tcp6_table));
    assert_false(ended);
    assert_int_equal(s.n_listeners, 3);
    loopback = address("[::1]");
    assert_memory_equal(&s.listeners[2].address, &loopback, sizeof(loopback));
    /* A line that has not come whole is left for the next piece. */
    assert_int_equal(net_table_parse(tcp6_table, strlen(tcp6_table) - 1, 0, &s, &ended), 0);
}

static void test_which_listener(void **state)
{
    struct net_listener listeners[] = {
        {.address = address("0.0.0.0"), .port = 80, .inode = 1, .space = 0},
        {.address = address("10.0.0.5"), .port = 80, .inode = 2, .space = 0},
        {.address = address("::"), .port = 80, .inode = 3, .space = 0},
        {.address = address("0.0.0.0"), .port = 80, .inode = 4, .space = 1},
        {.address = address("::"), .port = 90, .inode = 5, .space = 0},
        {.address = address("127.0.0.1"), .port = 95, .inode = 6, .space = 1},
        {.address = address("127.0.0.1"), .port = 99, .inode = 7, .space = 1},
        {.address = address("127.0.0.1"), .port = 99, .inode = 8, .space = 2},
    };
    const struct net_survey s = {.listeners = listeners, .n_listeners = ARRAY_SIZE(listeners)};
    const struct in6_addr own = address("10.0.0.5"), other = address("10.0.0.6"), v6 = address("fe80::1");

    assert_int_equal(net_survey_find(&s, 0, &own, 80)->inode, 2);
    assert_int_equal(net_survey_find(&s, 0, &other, 80)->inode, 1);
    assert_int_equal(net_survey_find(&s, 0, &v6, 80)->inode, 3);
    assert_int_equal(net_survey_find(&s, 1, &own, 80)->inode, 4);
    assert_int_equal(net_survey_find(&s, 0, &own, 90)->inode, 5);
    assert_null(net_survey_find(&s, 0, &own, 95));
    assert_null(net_survey_find(&s, 0, &own, 81));
    assert_int_equal(net_survey_elsewhere(&s, 95)->inode, 6);
    assert_null(net_survey_elsewhere(&s, 99));
    assert_null(net_survey_elsewhere(&s, 90));
}

static void test_addresses(void **state)
{
    static const char trie[] = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n"
                               "     |-- 172.17.0.2\n        /32 host LOCAL\n"
                               "     |-- 172.17.255.255\n        /32 link BROADCAST\n";
    static const char inet6[] = "00000000000000000000000000000001 01 80 10 80       lo\n"
                                "zz000000000000000000000000000001 01 80 10 80       lo\nshort";
    struct net_space space = {0};
    struct in6_addr a = address("172.17.0.2"), b = address("172.17.255.255"), c = address("::1");

    net_fib_trie_parse(trie, strlen(trie), &space);
    net_if_inet6_parse(inet6, strlen(inet6), &space);
    assert_int_equal(space.n_addresses, 2);
    assert_true(net_space_has(&space, &a));
    assert_false(net_space_has(&space, &b));
    assert_true(net_space_has(&space, &c));
    free(space.addresses);
    assert_false(address_of_host("example.org", &a));
    assert_false(address_of_host("[::1", &a));
}

static void test_mounts(void **state)
{
    static const char host[] = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                               "23 22 0:5 / /proc rw - proc proc rw\n"
                               "24 22 8:2 / /data rw - xfs /dev/sdb rw\n"
                               "25 22 0:40 / /run/overlay/merged rw - overlay overlay rw\n"
                               "26 24 8:3 / /data/hidden rw - xfs /dev/sdc rw\n";
    static const char container[] = "90 80 0:40 / / rw - overlay overlay rw\n"
                                    "91 90 8:2 /jobs/a\\040b /traces rw - xfs /dev/sdb rw\n"
                                    "92 90 0:77 / /dev/shm rw - tmpfs shm rw\n"
                                    "93 90 8:2 /hidden /over rw - xfs /dev/sdb rw\n";
    static const struct {
        const char *theirs, *path, *ours;
    } cases[] = {
        {host, "/var/x", "/var/x"},
        {host, "/", "/"},
        {container, "/traces", "/data/jobs/a b"},
        {container, "/traces/r0", "/data/jobs/a b/r0"},
        {container, "/tracesx", "/run/overlay/merged/tracesx"},
        {container, "/", "/run/overlay/merged"},
        {container, "/dev/shm/x", NULL}, /* nowhere on the host */
        {container, "/over/x", NULL},    /* hidden below another mount of the host */
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(freep) char *got =
            mounts_translate(cases[i].theirs, strlen(cases[i].theirs), host, strlen(host), cases[i].path);
        assert_true(streq(got, cases[i].ours));
    }
    assert_null(mounts_translate("", 0, host, strlen(host), "/x"));
}

/* Columns of "Uid:" and "Gid:". */
static bool is_one_user(const char *uids, const char *gids)
{
    _cleanup_(freep) char *text = xasprintf("PPid:\t1\nUid:\t%s\nGid:\t%s\n", uids, gids);
    struct process_status s;

    assert_int_equal(process_status_parse(text, strlen(text), &s), 0);
    return s.is_one_user;
}

static void test_granted_rights(void **state)
{
    static const char *const mixed[] = {"7\t0\t0\t0", "0\t7\t0\t0", "0\t0\t7\t0",
                                        "0\t0\t0\t7", "0\t0\t0",    ""};

    assert_true(is_one_user("0\t0\t0\t0", "5\t5\t5\t5"));
    for (size_t i = 0; i < ARRAY_SIZE(mixed); i++) {
        assert_false(is_one_user(mixed[i], "0\t0\t0\t0"));
        assert_false(is_one_user("0\t0\t0\t0", mixed[i]));
    }
}

static void test_status(void **state)
{
    static const char text[] =
        "Name:\tPPid: 9\nUmask:\t0022\nPPid:\t41\nUid:\t1\t2\t3\t1004\nGid:\t5\t6\t7\t8\n"
        "Groups:\t4 24 1000 \nNSpid:\t4711\t12\t1\nCapEff:\t00000000a80425fb\n";
    static const char stat[] = "4711 (a) S 9 (x) S 41 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 123456 9 9\n";
    struct process_status s;
    struct process_stat st;

    assert_int_equal(process_status_parse(text, strlen(text), &s), 0);
    assert_int_equal(s.parent, 41);
    assert_int_equal(s.uid, 1004);
    assert_int_equal(s.gid, 8);
    assert_int_equal(s.n_groups, 3);
    assert_int_equal(s.groups[2], 1000);
    assert_int_equal(s.inner_pid, 1);
    assert_false(s.is_one_user);
    assert_int_equal(s.pid_namespaces, 3);
    assert_int_equal(s.capabilities, 0xa80425fb);
    assert_int_equal(process_status_parse("Name: x\n", 8, &s), -EBADMSG);

    assert_int_equal(process_stat_parse(stat, strlen(stat), &st), 0);
    assert_int_equal(st.parent, 41);
    assert_int_equal(st.started, 123456);
    assert_int_equal(process_stat_parse("1 (x) S 1", 9, &st), -EBADMSG);
    assert_int_equal(process_stat_parse("", 0, &st), -EBADMSG);
}

static void check_torch_dir(const char *maps, const char *expected)
{
    _cleanup_(freep) char *dir = torch_dir_of_maps(maps);
    assert_true(streq(dir, expected));
}

static void check_torch_version(const char *text, const char *expected)
{
    _cleanup_(freep) char *version = torch_version_parse(text);
    assert_true(streq(version, expected));
}

static void test_torch(void **state)
{
    check_torch_dir("7f-7f r--p 0 08:01 1 /usr/lib/libc.so.6\n"
                    "7f-7f r-xp 0 08:01 2 /srv/my env/torch/lib/libtorch_cpu.so\n",
                    "/srv/my env/torch");
    check_torch_dir("7f-7f r-xp 0 08:01 2 /usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13\n", NULL);
    check_torch_dir("7f-7f r-xp 0 08:01 2 /a/torch/lib/libtorch_cpu.so (deleted)\n", NULL);
    check_torch_dir("", NULL);
    check_torch_version("from typing import Optional\n\n__version__ = '2.10.0+cu128'\ndebug = False\n",
                        "2.10.0+cu128");
    check_torch_version("__version__ = \"2.11.0.dev20260101\"", "2.11.0.dev20260101");
    check_torch_version("__version__ = '2.10.0\n", NULL);
    check_torch_version("__version__ = 'x'\n", NULL);
    check_torch_version("__version__ = '2.1 <b>'\n", NULL);
    check_torch_version("__version__ = ''\n", NULL);
    check_torch_version("not__version__ = '2.1'\n", NULL);
    check_torch_version("", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch),          cmocka_unit_test(test_socket_tables),
        cmocka_unit_test(test_which_listener), cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_mounts),         cmocka_unit_test(test_granted_rights),
        cmocka_unit_test(test_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
