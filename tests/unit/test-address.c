/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"
#include "tests/unit/cmocka-all.h"
#include <arpa/inet.h>
#include <errno.h>

static struct in6_addr ip(const char *text)
{
    struct in6_addr a;
    assert_int_equal(address_parse(text, &a), 0);
    return a;
}

static void test_hosts(void **state)
{
    static const char *const names[] = {"",       "[",           "[]",           "[::1",      "localhost",
                                        "10.0.0", "example.com", "[fe80::1%lo]", "010.0.0.1", "[[::1]]"};
    static const struct {
        const char *host, *text;
    } hosts[] = {
        {"10.0.0.1", "10.0.0.1"},
        {"[2001:db8::1]", "[2001:db8::1]"},
        {"2001:db8:0::1", "[2001:db8::1]"},
        {"[::ffff:10.0.0.1]", "10.0.0.1"},
    };
    char text[ADDRESS_TEXT_SIZE];
    struct in6_addr a;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (address_of_host(names[i], &a))
            fail_msg("%s was taken for an address", names[i]);
    for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
        assert_true(address_of_host(hosts[i].host, &a));
        address_format(&a, text);
        assert_string_equal(text, hosts[i].text);
    }
    assert_int_equal(address_parse("[::1]", &a), -EINVAL);
}

static void test_ports(void **state)
{
    static const char *const others[] = {NULL, "", "0", "65536", "99999", "000080", "80 ", "+80", "-1", "8a"};

    assert_int_equal(port_parse("1"), 1);
    assert_int_equal(port_parse("08000"), 8000);
    assert_int_equal(port_parse("65535"), 65535);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        assert_int_equal(port_parse(others[i]), 0);
}

static void test_there_and_back(void **state)
{
    static const struct {
        const char *text;
        sa_family_t family;
        socklen_t size;
    } addresses[] = {{"10.0.0.1", AF_INET, sizeof(struct sockaddr_in)},
                     {"2001:db8::1", AF_INET6, sizeof(struct sockaddr_in6)}};

    for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
        const struct in6_addr address = ip(addresses[i].text);
        struct sockaddr_in6 to;
        struct in6_addr back;

        assert_int_equal(address_to_socket(&address, 8000, &to), addresses[i].size);
        assert_int_equal(((const struct sockaddr *)&to)->sa_family, addresses[i].family);
        assert_int_equal(to.sin6_port, htons(8000)); /* in the same place in both families */
        assert_true(address_of_socket((const struct sockaddr *)&to, &back));
        assert_memory_equal(&back, &address, sizeof(back));
    }
}

static void test_sockets(void **state)
{
    const struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
    const struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    const struct sockaddr local = {.sa_family = AF_UNIX};
    const struct in6_addr ten = ip("10.0.0.1");
    struct in6_addr a;

    assert_true(address_of_socket((const struct sockaddr *)&v4, &a));
    assert_memory_equal(&a, &ten, sizeof(a));
    assert_true(address_of_socket((const struct sockaddr *)&v6, &a));
    assert_memory_equal(&a, &in6addr_loopback, sizeof(a));
    assert_false(address_of_socket(&local, &a));
}

static void test_kinds(void **state)
{
    static const struct {
        const char *text;
        bool v4, loopback, wildcard;
    } cases[] = {
        {"127.0.0.1", true, true, false},
        {"127.255.0.1", true, true, false},
        {"128.0.0.1", true, false, false},
        {"0.0.0.0", true, false, true},
        {"0.0.0.1", true, false, false},
        {"::", false, false, true},
        {"::1", false, true, false},
        {"::2", false, false, false},
        {"::ffff:127.0.0.1", true, true, false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct in6_addr a = ip(cases[i].text);
        if (address_is_v4(&a) != cases[i].v4 || address_is_loopback(&a) != cases[i].loopback ||
            address_is_wildcard(&a) != cases[i].wildcard)
            fail_msg("%s", cases[i].text);
    }
}

static void test_ranges(void **state)
{
    static const struct {
        const char *range, *inside, *outside;
    } cases[] = {
        {"10.0.0.0/8", "10.255.255.255", "11.0.0.0"},
        {"192.168.4.0/22", "192.168.7.255", "192.168.8.0"},
        {"10.0.0.7", "10.0.0.7", "10.0.0.8"},
        {"0.0.0.0/0", "203.0.113.7", "2001:db8::1"},
        {"::1", "::1", "::2"},
        {"::/0", "2001:db8::1", "203.0.113.7"},
        {"::ffff:10.0.0.0/104", "10.9.9.9", "11.0.0.0"},
        {"fd00::/8", "fdff::1", "fe00::1"},
        {"2001:db8:6::/47", "2001:db8:7::1", "2001:db8:8::1"},
    };
    static const char *const wrong[] = {
        "",       "/8",      "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/8x",  "10.0.0.0/-1", "10.0.0.0/ 8",
        "::/129", "::/1000", "10.0.0",    "node7",       "10.0.0.0/8/8", "fe80::1%eth0"};
    struct address_range r;
    const char *reason;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(address_range_parse(cases[i].range, &r, &reason), 0);
        const struct in6_addr inside = ip(cases[i].inside), outside = ip(cases[i].outside);
        if (!address_range_has(&r, &inside) || address_range_has(&r, &outside))
            fail_msg("%s", cases[i].range);
    }
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
        if (address_range_parse(wrong[i], &r, &reason) == 0)
            fail_msg("%s is no range", wrong[i]);
}

static void test_host_part(void **state)
{
    static const char *const networks[] = {"10.0.0.0/8", "10.0.0.7", "0.0.0.0/0", "fd00::/8", "::/0"};
    static const char *const others[] = {"10.0.0.1/8", "10.0.0.1/31", "fd00::1/8", "::ffff:10.0.0.1/8"};
    struct address_range r;
    const char *reason;

    for (size_t i = 0; i < ARRAY_SIZE(networks); i++)
        if (address_range_parse(networks[i], &r, &reason) < 0)
            fail_msg("%s", networks[i]);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (address_range_parse(others[i], &r, &reason) != -ERANGE || !starts_with(reason, "bits are set "))
            fail_msg("%s", others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),          cmocka_unit_test(test_ports), cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_there_and_back), cmocka_unit_test(test_kinds), cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_host_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
