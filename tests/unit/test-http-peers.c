/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"
#include "daemon/api/http_peers.h"
#include "tests/unit/cmocka-all.h"

#define MEMBERS_MAX 1000
#define SHARE       3

static struct anonymous_list all;
static struct anonymous members[MEMBERS_MAX];

static int setup(void **state)
{
    all = (struct anonymous_list){0};
    memset(members, 0, sizeof(members));
    return 0;
}

static int teardown(void **state)
{
    for (size_t i = 0; i < MEMBERS_MAX; i++)
        anonymous_remove(&all, &members[i]);
    assert_true(LIST_EMPTY(&all.groups));
    return 0;
}

static void add(size_t i, const char *address)
{
    struct in6_addr ip;
    assert_int_equal(address_parse(address, &ip), 0);
    anonymous_add(&all, &members[i], &ip);
}

/* The index of the member that goes first, which it does; -1: none. */
static int take_first(void)
{
    struct anonymous *s = anonymous_first(&all);
    if (!s)
        return -1;
    anonymous_remove(&all, s);
    return (int)(s - members);
}

static int over_share(const char *address)
{
    struct in6_addr ip;
    assert_int_equal(address_parse(address, &ip), 0);
    struct anonymous *s = anonymous_over_share(&all, &ip, SHARE);
    return s ? (int)(s - members) : -1;
}

static void test_nobody(void **state)
{
    assert_int_equal(take_first(), -1);
    assert_int_equal(over_share("192.0.2.1"), -1);
    anonymous_remove(&all, &members[0]);
}

static void test_oldest_of_one_address(void **state)
{
    for (size_t i = 0; i < 4; i++)
        add(i, "127.0.0.1");
    anonymous_remove(&all, &members[1]);
    for (size_t i = 0; i < 4; i++)
        add(i, "127.0.0.1"); /* only the second is none, and so is the youngest from here on */
    assert_int_equal(take_first(), 0);
    assert_int_equal(take_first(), 2);
    assert_int_equal(take_first(), 3);
    assert_int_equal(take_first(), 1);
    assert_int_equal(take_first(), -1);
}

static void test_largest_address_gives_up_its_own(void **state)
{
    add(0, "192.0.2.1"); /* the oldest of all, alone at its address */
    for (size_t i = 1; i < 100; i++)
        add(i, "192.0.2.2");
    add(100, "192.0.2.3");
    for (int i = 1; i < 99; i++)
        assert_int_equal(take_first(), i);
    /* Addresses with one each: by age. */
    assert_int_equal(take_first(), 0);
    assert_int_equal(take_first(), 99);
    assert_int_equal(take_first(), 100);
}

static void test_many_addresses_by_age(void **state)
{
    char address[32];

    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        snprintf(address, sizeof(address), "10.0.%zu.%zu", i / 250, i % 250);
        add(i, address);
    }
    for (int i = 0; i < MEMBERS_MAX; i++)
        assert_int_equal(take_first(), i);
}

static void test_share(void **state)
{
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(over_share("192.0.2.1"), -1);
        add(i, "192.0.2.1");
    }
    assert_int_equal(over_share("192.0.2.1"), 0);
    assert_int_equal(over_share("192.0.2.2"), -1);
    anonymous_remove(&all, &members[0]);
    assert_int_equal(over_share("192.0.2.1"), -1);
}

static void test_share_of_ipv6_is_its_network(void **state)
{
    add(0, "2001:db8:0:1::1");
    add(1, "2001:db8:0:1::2");
    add(2, "2001:db8:0:1:ffff::3");
    assert_int_equal(over_share("2001:db8:0:1::9"), 0);
    assert_int_equal(over_share("2001:db8:0:2::1"), -1);
}

static void test_loopback_has_no_share(void **state)
{
    for (size_t i = 0; i < 10; i++)
        add(i, "127.0.0.1");
    for (size_t i = 10; i < 20; i++)
        add(i, "::1");
    assert_int_equal(over_share("127.0.0.1"), -1);
    assert_int_equal(over_share("::1"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(test_oldest_of_one_address, setup, teardown),
        cmocka_unit_test_setup_teardown(test_largest_address_gives_up_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_addresses_by_age, setup, teardown),
        cmocka_unit_test_setup_teardown(test_share, setup, teardown),
        cmocka_unit_test_setup_teardown(test_share_of_ipv6_is_its_network, setup, teardown),
        cmocka_unit_test_setup_teardown(test_loopback_has_no_share, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
