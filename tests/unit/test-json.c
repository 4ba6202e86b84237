/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"
#include "tests/unit/cmocka-all.h"

static void check(const char *text, size_t values_max, bool is_taken)
{
    char error[200] = "";
    _cleanup_json_ j = json_parse_bounded(text, strlen(text), values_max, error);

    assert_int_equal(j != NULL, is_taken);
    if (!is_taken)
        assert_non_null(strstr(error, "values"));
}

static void test_bound(void **state)
{
    check("7", 1, true);
    check("[1,2,3]", 4, true);
    check("[1,2,3]", 3, false);
    check("{\"a\":{\"b\":[]},\"c\":1}", 5, true);
    check("{\"a\":{\"b\":[]},\"c\":1}", 4, false);
}

static void test_texts_are_not_values(void **state)
{
    check("[\",,,,[[[{{{\"]", 2, true);
    check("[\"\\\",,,,\\\\\",1]", 3, true);
    check("[\"\\\\\",[],[],[]]", 3, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_texts_are_not_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
