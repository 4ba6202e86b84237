/* SPDX-License-Identifier: Apache-2.0 */
/* What `scontrol show hostnames` of Slurm 22.05.8 printed for the lists without text after their brackets;
 * tests/integration/test_slurm.py asks the Slurm that is installed. */
#include "base/alloc.h"
#include "base/host_list.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

#define HOSTS_MAX 100000

static char *join_names(const struct host_list *list)
{
    char *text = xstrdup("");

    for (size_t i = 0; i < list->n; i++) {
        char *longer = xasprintf("%s%s%s", text, i > 0 ? " " : "", list->names[i]);
        free(text);
        text = longer;
    }
    return text;
}

static void test_lists(void **state)
{
    static const struct {
        const char *text, *names;
    } cases[] = {
        {"n1", "n1"},
        {"n01", "n01"},
        {"a,b", "a b"},
        {"a,,b,", "a b"},
        {" n1 , n2", "n1 n2"},
        {"a\nb", "a b"},
        {"a,a", "a a"},
        {"n[1-3,5]", "n1 n2 n3 n5"},
        {"n[10,12-14]", "n10 n12 n13 n14"},
        {"n[08-11]", "n08 n09 n10 n11"},
        {"n[9-11]", "n9 n10 n11"},
        {"n[98-101]", "n98 n99 n100 n101"},
        {"n[01-2]", "n01 n02"},
        {"n[1-02]", "n1 n2"},
        {"n[00-0]", "n00"},
        {"n[0-0]", "n0"},
        {"n[1,1]", "n1 n1"},
        {"[1-3]", "1 2 3"},
        {"a[1-2]b[3-4]", "a1b3 a1b4 a2b3 a2b4"},
        {"r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"},
        {"n[1-2],m[3-4]k[1-2],o", "n1 n2 m3k1 m3k2 m4k1 m4k2 o"},
        {"node[1-3,07-09],gpu-[01-02]-ib", "node1 node2 node3 node07 node08 node09 gpu-01-ib gpu-02-ib"},
        {"127.0.0.[1-3]", "127.0.0.1 127.0.0.2 127.0.0.3"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct host_list list = {0};
        const char *reason = NULL;
        assert_int_equal(host_list_expand(cases[i].text, strlen(cases[i].text), HOSTS_MAX, &list, &reason),
                         0);
        _cleanup_(freep) char *names = join_names(&list);
        assert_string_equal(names, cases[i].names);
        host_list_done(&list);
    }
}

static void test_refused_lists(void **state)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", " names no host"},
        {",", " names no host"},
        {"n[1-2", " has a [ without a ]"},
        {"n1]", " has a ] without a ["},
        {"n[]", " has brackets with something other than numbers and ranges of numbers"},
        {"n[a,b]", " has brackets with something other than numbers and ranges of numbers"},
        {"n[1,,2]", " has brackets with something other than numbers and ranges of numbers"},
        {"n[1-]", " has brackets with something other than numbers and ranges of numbers"},
        {"n[-3]", " has brackets with something other than numbers and ranges of numbers"},
        {"n[+1]", " has brackets with something other than numbers and ranges of numbers"},
        {"n[1, 2]", " has brackets with something other than numbers and ranges of numbers"},
        {"n[[1-2]]", " has brackets with something other than numbers and ranges of numbers"},
        {"n[1234567890123456]", " has brackets with something other than numbers and ranges of numbers"},
        {"n[3-1]", " has a range whose end is before its begin"},
        {"n[1-65537]", " has a range of more than 65536 hosts"},
        {"a[1]b[1]c[1]d[1]e[1]f[1]g[1]h[1]i[1]", " has more than 8 pairs of brackets in one name"},
        {"user@host", " has a character that no host name has"},
        {"n1:8000,n2", " has a character that no host name has"},
        {"http://n1", " has a character that no host name has"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct host_list list = {0};
        const char *reason = NULL;
        assert_int_equal(host_list_expand(cases[i].text, strlen(cases[i].text), HOSTS_MAX, &list, &reason),
                         -EINVAL);
        assert_string_equal(reason, cases[i].reason);
        host_list_done(&list);
    }
    struct host_list list = {0};
    const char *reason = NULL;
    assert_int_equal(host_list_expand("a\0b", 3, HOSTS_MAX, &list, &reason), -EINVAL);
    host_list_done(&list);
}

static void test_bounds(void **state)
{
    static const char large[] = "a[1-60000]b[1-60000]c[1-60000]";
    struct host_list list = {0};
    const char *reason = NULL;

    assert_int_equal(host_list_expand("n[1-65536]", 10, HOSTS_MAX, &list, &reason), 0);
    assert_int_equal(list.n, 65536);
    assert_string_equal(list.names[65535], "n65536");
    assert_int_equal(host_list_expand(large, sizeof(large) - 1, HOSTS_MAX, &list, &reason), -E2BIG);
    assert_int_equal(list.n, HOSTS_MAX);
    host_list_done(&list);
}

static void test_ports(void **state)
{
    static const struct {
        const char *text;
        int ports[4];
        size_t n;
    } cases[] = {
        {"8000", {8000}, 1},
        {"8000-8003", {8000, 8001, 8002, 8003}, 4},
        {"8000,8010-8011", {8000, 8010, 8011}, 3},
        {"8000,8000,7999-8001", {8000, 7999, 8001}, 3},
        {"65535", {65535}, 1},
    };
    static const char *const refused[] = {
        "",      ",",         "8000,",   "0",     "65536",  "8003-8000", "http",           "-8000",
        "8000-", "8000-8004", "1-65535", "8 000", "8000:1", "+8000",     "8000-8001-8002", "1,1,1,1,1"};
    const char *reason;
    int ports[4];
    size_t n;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(port_list_expand(cases[i].text, strlen(cases[i].text), 4, ports, &n, &reason), 0);
        assert_int_equal(n, cases[i].n);
        assert_memory_equal(ports, cases[i].ports, n * sizeof(ports[0]));
    }
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        assert_int_equal(port_list_expand(refused[i], strlen(refused[i]), 4, ports, &n, &reason), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_refused_lists),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_ports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
