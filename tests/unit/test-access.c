/* SPDX-License-Identifier: Apache-2.0 */
/* The pure parts of access: tokens, who failed how often, names of profd. */
#include "base/address.h"
#include "base/alloc.h"
#include "daemon/api/access_rules.h"
#include "tests/unit/cmocka-all.h"

/* Of "profd_a" and "profd_b". */
#define HASH_A "d6859a439c633d9056bc34d3ec31ef6d6ccbefa0a35b2fa47837a218cce81b23"
#define HASH_B "2ceb845321810216f15624b713d930e0305d1becf1010f95191c41919e08bfec"

static int parse(const char *text, struct tokens *ret, struct problem *p)
{
    return tokens_parse("tokens", text, strlen(text), ret, p);
}

static void test_tokens(void **state)
{
    static const char text[] = "# who may\n"
                               "\n"
                               "prometheus read " HASH_A "\r\n"
                               "\tci@build-7.example\toperate  " HASH_B "  # since spring";
    _cleanup_(tokens_done) struct tokens t = {0};
    _cleanup_(problem_done) struct problem p = {0};

    assert_int_equal(parse(text, &t, &p), 0);
    assert_int_equal(t.n, 2);
    assert_string_equal(t.items[0].name, "prometheus");
    assert_int_equal(t.items[0].right, RIGHT_READ);
    const struct token *ci = tokens_find(&t, "profd_b");
    assert_ptr_equal(ci, &t.items[1]);
    assert_string_equal(ci->name, "ci@build-7.example");
    assert_int_equal(ci->right, RIGHT_OPERATE);
    assert_ptr_equal(tokens_find(&t, "profd_a"), &t.items[0]);
    static const char *const others[] = {"", "profd_", "profd_A", "profd_a ", " profd_a", "profd_ab", HASH_A};
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        assert_null(tokens_find(&t, others[i]));
}

/* Rows have a right, columns need one: none, read, operate, admin, peer. */
static void test_rights(void **state)
{
    static const char *const table[_RIGHT_MAX] = {
        [RIGHT_NONE] = "x----",  [RIGHT_READ] = "xx---", [RIGHT_OPERATE] = "xxx--",
        [RIGHT_ADMIN] = "xxxx-", [RIGHT_PEER] = "xx--x",
    };

    for (int have = 0; have < _RIGHT_MAX; have++)
        for (int need = 0; need < _RIGHT_MAX; need++)
            assert_int_equal(right_includes((enum right)have, (enum right)need), table[have][need] == 'x');
}

static void test_no_tokens(void **state)
{
    static const char *const texts[] = {"", "\n\n", "# nobody", "  \t# nobody\n"};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        _cleanup_(tokens_done) struct tokens t = {0};
        assert_int_equal(parse(texts[i], &t, NULL), 0);
        assert_int_equal(t.n, 0);
        assert_null(tokens_find(&t, "profd_a"));
    }
}

static void test_wrong_tokens(void **state)
{
    static const struct {
        const char *text, *what;
    } cases[] = {
        {"ci operate", "tokens:1: must be NAME ROLE HASH"},
        {"\nci operate " HASH_A " more\n", "tokens:2: must be NAME ROLE HASH"},
        {"ci root " HASH_A, "tokens:1: the role must be read, operate, admin or peer"},
        {"ci none " HASH_A, "tokens:1: the role must be read, operate, admin or peer"},
        {"c/i read " HASH_A, "tokens:1: the name must be letters"},
        {"uid=0(root) read " HASH_A, "tokens:1: the name must be letters"},
        {"ci read 0" HASH_A, "tokens:1: the hash must be 64 hexadecimal digits"},
        {"ci read abc", "tokens:1: the hash must be 64 hexadecimal digits"},
        {"ci read profd_secret", "tokens:1: this is the token itself"},
        {"ci read " HASH_A "\nci admin " HASH_B, "tokens:2: another line has this name"},
        {"ci read " HASH_A "\ncj admin " HASH_A, "tokens:2: another line has this hash"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(tokens_done) struct tokens t = {0};
        _cleanup_(problem_done) struct problem p = {0};
        assert_int_equal(parse(cases[i].text, &t, &p), -EINVAL);
        if (!starts_with(p.what, cases[i].what))
            fail_msg("%s: %s", cases[i].text, p.what);
        assert_null(strstr(p.what, "secret"));
        assert_int_equal(t.n, 0);
    }
    _cleanup_(tokens_done) struct tokens none = {0};
    _cleanup_(problem_done) struct problem twice = {0};
    assert_int_equal(parse("gpu1 peer " HASH_A "\n\t gpu1 peer " HASH_B, &none, &twice), -EINVAL);
    assert_string_equal(twice.remedy, "Remove one of the two lines named gpu1.");
    struct tokens t;
    assert_int_equal(tokens_parse("tokens", "ci\0 read", 8, &t, NULL), -EINVAL);
}

static void test_header(void **state)
{
    assert_string_equal(tokens_of_header("Bearer profd_a"), "profd_a");
    assert_string_equal(tokens_of_header("bearer   x"), "x");
    static const char *const others[] = {
        "", "Bearer", "Bearer ", "Bearer   ", "Basic cHJvZmQ=", "Bearerx y", "profd_a"};
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        assert_null(tokens_of_header(others[i]));
    assert_null(tokens_of_header(NULL));
}

static struct in6_addr ip(const char *text)
{
    struct in6_addr a;
    assert_int_equal(address_parse(text, &a), 0);
    return a;
}

static int64_t wait_of(const struct token_guard *g, const char *address, int64_t now_ns)
{
    const struct in6_addr a = ip(address);
    return guard_wait_ns(g, &a, now_ns);
}

static void fail_from(struct token_guard *g, const char *address, int64_t now_ns)
{
    const struct in6_addr a = ip(address);
    guard_failed(g, &a, now_ns);
}

static void test_guard(void **state)
{
    struct token_guard g = {0};
    int64_t now = 1000 * NS_PER_S;

    for (int i = 0; i < GUARD_BURST; i++) {
        assert_int_equal(wait_of(&g, "10.0.0.1", now), 0);
        fail_from(&g, "10.0.0.1", now);
    }
    assert_int_equal(wait_of(&g, "10.0.0.1", now), GUARD_INTERVAL_NS);
    assert_int_equal(wait_of(&g, "10.0.0.2", now), 0);
    assert_int_equal(wait_of(&g, "2001:db8::1", now), 0);
    /* One more for each interval, and all of them after as many. */
    now += GUARD_INTERVAL_NS;
    assert_int_equal(wait_of(&g, "10.0.0.1", now), 0);
    fail_from(&g, "10.0.0.1", now);
    assert_int_equal(wait_of(&g, "10.0.0.1", now), GUARD_INTERVAL_NS);
    now += GUARD_BURST * GUARD_INTERVAL_NS;
    for (int i = 0; i < GUARD_BURST; i++) {
        assert_int_equal(wait_of(&g, "10.0.0.1", now), 0);
        fail_from(&g, "10.0.0.1", now);
    }
    assert_true(wait_of(&g, "10.0.0.1", now) > 0);
}

static void test_guard_counts_ipv6_by_network(void **state)
{
    struct token_guard g = {0};
    char address[64];

    for (int i = 0; i < GUARD_BURST; i++) {
        snprintf(address, sizeof(address), "2001:db8:0:7::%x", i + 1);
        fail_from(&g, address, NS_PER_S);
    }
    assert_true(wait_of(&g, "2001:db8:0:7:ffff::1", NS_PER_S) > 0);
    assert_int_equal(wait_of(&g, "2001:db8:0:8::1", NS_PER_S), 0);
}

/* Those who fail once each do not drive out the one who fails all the time. */
static void test_guard_is_bounded(void **state)
{
    struct token_guard g = {0};
    char address[64];

    for (int i = 0; i < 2 * GUARD_BURST; i++)
        fail_from(&g, "10.0.0.1", NS_PER_S);
    for (int i = 0; i < 10 * GUARD_SLOTS; i++) {
        snprintf(address, sizeof(address), "172.16.%d.%d", i / 250, i % 250);
        fail_from(&g, address, NS_PER_S);
    }
    assert_true(wait_of(&g, "10.0.0.1", NS_PER_S) > 0);
}

static void test_hosts(void **state)
{
    struct listen_address addresses[2];
    const char *reason;
    char *names[] = {(char *)"profd.Example.com"};
    size_t n;

    assert_int_equal(listen_addresses_parse("10.0.0.5:9460, [2001:db8::5]:9460", addresses, 2, &n, &reason),
                     0);
    assert_int_equal(n, 2);
    const struct host_rules rules = {addresses, n, names, ARRAY_SIZE(names)};
    static const char *const ours[] = {
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1",
        "127.8.9.10:80",
        "[::1]",
        "[::1]:65535",
        "[::ffff:127.0.0.1]:80",
        "10.0.0.5",
        "10.0.0.5:1",
        "[2001:db8::5]",
        "[2001:DB8:0::5]:9460",
        "profd.example.com",
        "PROFD.example.COM:443",
    };
    static const char *const others[] = {
        "",
        ":",
        ":80",
        "localhost:",
        "localhost:x",
        "localhost:80x",
        "localhost:123456",
        "localhost:80:80",
        "localhost.",
        "localhost.evil.example",
        "evil.localhost",
        "localhost evil",
        "evil",
        "evil:9460",
        "127.0.0.1.evil.example",
        "127.0.0.1evil",
        "127.1",
        "2130706433",
        "0x7f.1",
        "[::1]evil",
        "[::1]evil:80",
        "[::1",
        "::1",
        "[::1]]",
        "[[::1]",
        "[localhost]",
        "[127.0.0.1]",
        "[10.0.0.5]",
        "[]",
        "[",
        "]",
        "10.0.0.6",
        "10.0.0.5.",
        "[2001:db8::6]",
        "0.0.0.0",
        "[::]",
        "profd.example.com.evil",
        "xprofd.example.com",
        "profd.example.com@evil",
        "[::ffff:127.evil]",
        "[fe80::1%eth0]",
    };

    for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
        if (!host_is_ours(ours[i], &rules))
            fail_msg("%s is ours", ours[i]);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (host_is_ours(others[i], &rules))
            fail_msg("%s is not ours", others[i]);
}

static void test_hosts_of_a_wildcard(void **state)
{
    struct listen_address addresses[1];
    const char *reason;
    size_t n;

    assert_int_equal(listen_addresses_parse("0.0.0.0:9460", addresses, 1, &n, &reason), 0);
    const struct host_rules rules = {addresses, n};
    assert_true(host_is_ours("192.168.7.7:9460", &rules));
    assert_false(host_is_ours("[2001:db8::5]:9460", &rules));
    assert_false(host_is_ours("evil", &rules));
}

static void test_listen_addresses(void **state)
{
    struct listen_address a[2];
    const char *reason = NULL;
    size_t n;

    assert_int_equal(listen_addresses_parse("  localhost:1 ,\t[::]:2,", a, 2, &n, &reason), 0);
    assert_int_equal(n, 2);
    assert_string_equal(a[0].text, "localhost:1");
    assert_true(address_is_loopback(&a[0].ip));
    assert_true(address_is_wildcard(&a[1].ip));
    assert_int_equal(listen_addresses_parse("127.0.0.1:1 127.0.0.1:2 127.0.0.1:3", a, 2, &n, &reason),
                     -EINVAL);
    assert_int_equal(listen_addresses_parse("127.0.0.1:1 node7:2", a, 2, &n, &reason), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_rights),
        cmocka_unit_test(test_no_tokens),
        cmocka_unit_test(test_wrong_tokens),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_guard),
        cmocka_unit_test(test_guard_counts_ipv6_by_network),
        cmocka_unit_test(test_guard_is_bounded),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_hosts_of_a_wildcard),
        cmocka_unit_test(test_listen_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
