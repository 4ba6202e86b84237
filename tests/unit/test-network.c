/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "daemon/fleet/network.h"
#include "tests/unit/cmocka-all.h"

static struct network_policy policy_of(const char *list)
{
    struct network_policy p = {0};
    char *reason = NULL;

    int r = network_add(&p, list, &reason);
    if (r < 0)
        fail_msg("%s: %s", list, reason);
    assert_null(reason);
    return p;
}

static const struct network_refusal *ask(const struct network_policy *p, const char *address)
{
    struct in6_addr a;
    if (!address_of_host(address, &a))
        fail_msg("%s is no address", address);
    assert_int_equal(network_allows(p, &a), !network_refuses(p, &a));
    return network_refuses(p, &a);
}

static void check(const char *list, const char *address, bool allowed)
{
    _cleanup_(network_done) struct network_policy p = policy_of(list);
    const struct network_refusal *refusal = ask(&p, address);
    if (!refusal != allowed)
        fail_msg("allow=%s: %s %s", list, address, refusal ? refusal->why : "is allowed");
}

static void test_default(void **state)
{
    static const struct {
        const char *address;
        bool allowed;
    } cases[] = {
        {"127.0.0.1", true},
        {"127.255.255.254", true},
        {"::1", true},
        {"[::1]", true},
        {"10.0.0.1", true},
        {"10.255.255.255", true},
        {"172.16.0.1", true},
        {"172.31.255.255", true},
        {"172.15.255.255", false},
        {"172.32.0.0", false},
        {"192.168.7.7", true},
        {"192.169.0.1", false},
        {"100.64.0.1", true},
        {"100.127.255.255", true},
        {"100.128.0.0", false},
        {"100.63.255.255", false},
        {"fc00::1", true},
        {"fdff::1", true},
        {"fbff::1", false},
        {"fe00::1", false},
        {"fe80::1", false},
        {"169.254.1.1", false},
        {"203.0.113.9", false},
        {"8.8.8.8", false},
        {"2001:db8::1", false},
        {"::ffff:10.0.0.1", true},
        {"::ffff:8.8.8.8", false},
        {"::ffff:7f00:1", true},
        {"0.0.0.0", true},
        {"::", true},
        {"::ffff:0.0.0.0", true},
        {"0.0.0.1", false},
        {"255.255.255.255", false},
        {"224.0.0.1", false},
        {"ff02::1", false},
        {"64:ff9b::a00:1", false},
        {"::2", false},
        {"::10.0.0.1", false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        check(NETWORK_DEFAULT, cases[i].address, cases[i].allowed);
}

static void test_never(void **state)
{
    static const char *const addresses[] = {
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "168.63.129.16",
        "100.100.100.200",
        "169.254.0.23",
        "169.254.42.42",
        "fd00:42::42",
        "192.0.0.192",
        "224.0.0.1",
        "239.1.2.3",
        "240.0.0.1",
        "255.255.255.255",
        "0.0.0.1",
        "ff02::1",
        "::ffff:169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "::169.254.169.254",
        "::ffff:255.255.255.255",
    };
    for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
        _cleanup_(network_done) struct network_policy all = policy_of("0.0.0.0/0 ::/0");
        const struct network_refusal *refusal = ask(&all, addresses[i]);
        if (!refusal)
            fail_msg("%s is allowed", addresses[i]);
        assert_non_null(strstr(refusal->why, "never called"));
        assert_true(strlen(refusal->remedy) > 0);
        check(addresses[i], addresses[i], false);
    }
    _cleanup_(network_done) struct network_policy all = policy_of("0.0.0.0/0 ::/0");
    assert_false(network_allows(&all, NULL));
}

/* IPv6 addresses that a translator or a tunnel turns into an IPv4 one. */
static void test_metadata_in_other_forms(void **state)
{
    static const char *const addresses[] = {
        "::ffff:0:169.254.169.254",             /* IPv4-translated: ::ffff:0:0:0/96 */
        "::ffff:0:a83f:8110",                   /* of Azure */
        "fe80::5efe:169.254.169.254",           /* ISATAP, of a link */
        "fe80::200:5efe:169.254.169.254",       /* and of an address that is unique */
        "2001:db8:7::5efe:6464:64c8",           /* of a network; Alibaba's */
        "fd00:1:2:3:200:5efe:169.254.170.2",    /* ECS */
        "2001:0:a9fe:a9fe:8000:63bf:3fff:fdd2", /* Teredo: its server */
        "2001:0:4136:e378:8000:63bf:5601:5601", /* Teredo: its client, inverted */
        "2001::5601:5601",
        "64:ff9b:1:a9fe:a9:fe00::",         /* RFC 6052 within 64:ff9b:1::/48: a prefix of 48 bits, */
        "64:ff9b:1:ffa9:fe:a9fe::",         /* 56, */
        "64:ff9b:1:ffff:a9:fea9:fe00:0",    /* 64, */
        "64:ff9b:1:ffff:ff:ffff:a9fe:a9fe", /* and 96 */
        "64:ff9b:1:a9fe:a9:fe00:1234:5678", /* translators ignore what follows */
        "2001:db8:a9fe:a9fe::",             /* of a site's own prefix: 32 bits, */
        "2001:db8:64a9:fea9:fe::",          /* 40, */
        "2001:db8:64:a9fe:a9:fe00::",       /* 48, */
        "2001:db8:64:64a9:fe:a9fe::",       /* 56, */
        "2001:db8:64:6464:a9:fea9:fe00:0",  /* 64, */
        "2001:db8:64:6464:64:64:a9fe:a9fe", /* and 96 */
    };
    static const char *const others[] = {
        "::ffff:0:10.0.0.1", "fe80::5efe:10.0.0.1",   "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",       "64:ff9b:1:a00:0:100::", "2001:db8:a9fe:a9fe:1234:5678:9abc:def0",
        "fd00::a9fe:1",      "64:ff9b::a00:1",        "2002:a00:1::1",
    };
    _cleanup_(network_done) struct network_policy all = policy_of("0.0.0.0/0 ::/0");

    for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
        const struct network_refusal *refusal = ask(&all, addresses[i]);
        if (!refusal)
            fail_msg("%s is allowed", addresses[i]);
        assert_non_null(strstr(refusal->why, "credentials"));
    }
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (ask(&all, others[i]))
            fail_msg("%s is refused", others[i]);
}

static void test_lists(void **state)
{
    check("203.0.113.0/24", "203.0.113.9", true);
    check("203.0.113.0/24", "127.0.0.1", false);
    check("203.0.113.9", "203.0.113.9", true);
    check("203.0.113.9", "203.0.113.8", false);
    check("loopback, 203.0.113.0/24,2001:db8::/33", "2001:db8:7fff::1", true);
    check("loopback, 203.0.113.0/24,2001:db8::/33", "2001:db8:8000::1", false);
    check("loopback", "10.0.0.1", false);
    check("127.0.0.1/32", "127.0.0.2", false);
    check("127.0.0.1/32", "0.0.0.0", true);
    check("127.0.0.2", "0.0.0.0", false);
    check("169.254.0.0/16", "169.254.7.7", true);
    check("fe80::/10", "fe80::1", true);
    check("0.0.0.0/0", "8.8.8.8", true);
    check("0.0.0.0/0", "2001:db8::1", false);
    check("::/0", "8.8.8.8", false);
    check("::/0", "::ffff:8.8.8.8", false);
    check("::ffff:10.0.0.0/104", "10.9.9.9", true);
    check("::ffff:10.0.0.0/104", "::ffff:10.9.9.9", true);
    check("128.0.0.0/1", "200.0.0.1", true);
    check("128.0.0.0/1", "100.0.0.1", false);
}

static void test_what_is_no_list(void **state)
{
    static const char *const lists[] = {
        "",          " , ",          "10.0.0.0/33",         "10.0.0.1/8",
        "10.0.0/8",  "::1/129",      "fd00::1/8",           "example.com",
        "10.0.0.0/", "10.0.0.0/-1",  "10.0.0.0/08x",        "/8",
        "LOOPBACK",  "10.0.0.0/8/8", "10.0.0.0/1000",       "fe80::1%eth0",
        "1",         "0x7f.0.0.1",   "10.0.0.0/8 nonsense",
    };
    for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
        struct network_policy p = policy_of("loopback");
        char *reason = NULL;
        size_t before = p.n;
        if (network_add(&p, lists[i], &reason) != -EINVAL)
            fail_msg("\"%s\" was taken", lists[i]);
        assert_non_null(reason);
        assert_int_equal(p.n, before);
        free(reason);
        network_done(&p);
    }
}

static void test_the_first_list_replaces_defaults(void **state)
{
    _cleanup_(network_done) struct network_policy p = policy_of(NETWORK_DEFAULT);
    _cleanup_(network_done) struct network_policy copy = {0};
    char *reason = NULL;

    p.replaceable = true;
    assert_int_equal(network_add(&p, "203.0.113.0/24", &reason), 0);
    assert_int_equal(network_add(&p, "198.51.100.7", &reason), 0);
    network_copy(&p, &copy);
    assert_null(ask(&copy, "203.0.113.1"));
    assert_null(ask(&copy, "198.51.100.7"));
    assert_non_null(ask(&copy, "127.0.0.1"));
}

static void test_too_many(void **state)
{
    struct network_policy p = {0};
    char *reason = NULL;

    for (int i = 0; i < NETWORK_RANGES_MAX; i++)
        assert_int_equal(network_add(&p, "10.0.0.0/8", &reason), 0);
    assert_int_equal(network_add(&p, "10.0.0.0/8", &reason), -EINVAL);
    assert_non_null(strstr(reason, "more than 1000"));
    free(reason);
    network_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default),
        cmocka_unit_test(test_never),
        cmocka_unit_test(test_metadata_in_other_forms),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_what_is_no_list),
        cmocka_unit_test(test_the_first_list_replaces_defaults),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
