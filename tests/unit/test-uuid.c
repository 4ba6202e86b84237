/* SPDX-License-Identifier: Apache-2.0 */
/* UUIDs: what they look like, and which texts are one or the beginning of one. */
#include "tests/unit/cmocka-all.h"

#include "base/alloc.h"
#include "base/uuid.h"

static void test_new(void **state _unused_)
{
    _cleanup_(freep) char *a = uuid_new();
    _cleanup_(freep) char *b = uuid_new();

    assert_int_equal(strlen(a), UUID_LENGTH);
    assert_true(uuid_is(a) && uuid_is(b));
    assert_true(uuid_is_prefix(a));
    assert_int_equal(a[14], '4');
    assert_non_null(strchr("89ab", a[19]));
    assert_string_not_equal(a, b);
}

static void test_texts(void **state _unused_)
{
    static const struct {
        const char *text;
        bool is, is_prefix;
    } cases[] = {
        {"6b1f0000-0000-4000-8000-00000000001f", true, true},
        {"6b1f0000-0000-4000-8000-00000000001f0", false, false},
        {"6b1f0000-0000-4000-8000-00000000001", false, true},
        {"6B1F0000-0000-4000-8000-00000000001F", false, false},
        {"6b1f0000-0000-4000-8000-00000000001g", false, false},
        {"6b1f0000-0000-4000-8000_00000000001f", false, false},
        {"6b1f0000", false, true},
        {"6b1f000", false, false},
        {"6b1f00000", false, false},
        {"6b1f0000-", false, true},
        {"12345678", false, false},
        {"12345678-", false, true},
        {"123456789012", false, false},
        {"s7", false, false},
        {"t12345678", false, false},
        {"", false, false},
        {NULL, false, false},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        assert_int_equal(uuid_is(cases[i].text), cases[i].is);
        assert_int_equal(uuid_is_prefix(cases[i].text), cases[i].is_prefix);
    }
}

static void test_too_short(void **state _unused_)
{
    assert_true(uuid_is_too_short("6b1f0"));
    assert_true(uuid_is_too_short("f"));
    assert_false(uuid_is_too_short("6b1f0000"));
    assert_false(uuid_is_too_short("1234567"));
    assert_false(uuid_is_too_short("6b1f0g"));
    assert_false(uuid_is_too_short(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_too_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
