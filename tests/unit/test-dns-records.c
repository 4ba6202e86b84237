/* SPDX-License-Identifier: Apache-2.0 */
/* Records out of the bytes of answers, and addresses of name servers. What asks is tests/integration/test_sources.py. */
#include "base/alloc.h"
#include "daemon/fleet/dns_records.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

/* One question of the name "a.", and answers. */
#define HEAD(n_answers)    "\0\7\x81\x80\0\1\0" n_answers "\0\0\0\0\1a\0\0\1\0\1"
#define RECORD(type, size) "\xc0\x0c\0" type "\0\1\0\0\0\x3c\0" size
#define ADDRESS(last)      RECORD("\1", "\4") "\x0a\0\0" last

static int parse(const char *bytes, size_t size, enum dns_type type, size_t max, struct dns_records *ret)
{
    return dns_records_parse((const unsigned char *)bytes, size - 1, type, max, ret);
}

#define PARSE(bytes, type, max, ret) parse(bytes, sizeof(bytes), type, max, ret)

static void test_addresses(void **state)
{
    struct dns_records r = {0};

    assert_int_equal(PARSE(HEAD("\3") ADDRESS("\1") ADDRESS("\2") ADDRESS("\1"), DNS_A, 9, &r), 0);
    assert_int_equal(r.n, 2);
    assert_string_equal(r.items[0].host, "10.0.0.1");
    assert_string_equal(r.items[1].host, "10.0.0.2");
    /* Records of another type are none of the question. */
    assert_int_equal(PARSE(HEAD("\1") ADDRESS("\3"), DNS_AAAA, 9, &r), 0);
    assert_int_equal(r.n, 2);
    assert_int_equal(
        PARSE(HEAD("\1") RECORD("\x1c", "\x10") "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1", DNS_AAAA, 9, &r), 0);
    assert_string_equal(r.items[2].host, "[fd00::1]");
    dns_records_done(&r);
    assert_int_equal(PARSE(HEAD("\2") ADDRESS("\1") ADDRESS("\2"), DNS_A, 1, &r), -E2BIG);
    dns_records_done(&r);
}

static void test_services(void **state)
{
    struct dns_records r = {0};

    assert_int_equal(
        PARSE(
            HEAD("\4") RECORD("\x21", "\x0b") "\0\1\0\1\x1f\x40\3n-1\0" RECORD(
                "\x21",
                "\x0b") "\0\1\0\1\x1f\x41\3a b\0" RECORD("\x21",
                                                         "\x0b") "\0\1\0\1\0\0\3n-2\0" RECORD("\x21",
                                                                                              "\7") "\0\1\0\1"
                                                                                                    "\x1f\x40"
                                                                                                    "\0",
            DNS_SRV, 9, &r),
        0);
    assert_int_equal(r.n, 1);
    assert_string_equal(r.items[0].host, "n-1");
    assert_int_equal(r.items[0].port, 8000);
    dns_records_done(&r);
}

static void test_malformed(void **state)
{
    static const char whole[] = HEAD("\2") ADDRESS("\1") ADDRESS("\2");
    struct dns_records r = {0};

    for (size_t n = 0; n < sizeof(whole) - 1; n++) {
        assert_int_equal(parse(whole, n + 1, DNS_A, 9, &r), -EPROTO);
        dns_records_done(&r);
    }
    /* An address of three bytes; a service without its target, and one whose target points to itself. */
    assert_int_equal(PARSE(HEAD("\1") RECORD("\1", "\3") "\x0a\0\0", DNS_A, 9, &r), -EPROTO);
    assert_int_equal(PARSE(HEAD("\1") RECORD("\x21", "\6") "\0\1\0\1\x1f\x40", DNS_SRV, 9, &r), -EPROTO);
    assert_int_equal(PARSE(HEAD("\1") RECORD("\x21", "\x08") "\0\1\0\1\x1f\x40\xc0\x25", DNS_SRV, 9, &r),
                     -EPROTO);
    dns_records_done(&r);
}

static void test_resolvers(void **state)
{
    static const struct {
        const char *text;
        bool right;
    } cases[] = {
        {"127.0.0.1", true},
        {"127.0.0.1:8600", true},
        {"[::1]", true},
        {"[::1]:8600", true},
        {"consul:8600", false},
        {"127.0.0.1:0", false},
        {"127.0.0.1:x", false},
        {"http://127.0.0.1", false},
        {"", false},
        {"u@127.0.0.1", false},
        {"127.0.0.1/x", false},
        {"127.0.0.1:99999", false},
        {"::1", false},
        {"[::1", false},
        {"[::1]:", false},
    };
    const char *reason;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(dns_resolver_check(cases[i].text, &reason), cases[i].right ? 0 : -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_services),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_resolvers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
