/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/util.h"
#include "tests/unit/cmocka-all.h"

/* As the words joined by '|'. */
static void check(const char *list, const char *expected)
{
    char found[64] = "";
    const char *word;
    size_t size;

    while ((size = words_next(&list, &word)) > 0)
        snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%.*s", *found ? "|" : "", (int)size,
                 word);
    assert_string_equal(found, expected);
    assert_int_equal(*list, '\0');
}

static void test_words(void **state)
{
    check("", "");
    check(" ,\t,", "");
    check("a", "a");
    check("a b,c\td", "a|b|c|d");
    check(" , 10.0.0.0/8 ,, [::1]:2\t", "10.0.0.0/8|[::1]:2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
