/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/engine_version.h"
#include "tests/unit/cmocka-all.h"

static void test_order(void **state)
{
    static const char *const ascending[] = {
        "0.9",    "0.10.0.dev3",  "0.10.0a1",     "0.10.0b2",  "0.10.0rc1", "v0.10.0rc2",
        "0.10.0", "0.10.0.post1", "0.10.0.post2", "0.10.1rc1", "0.10.1",    "0.30.0rc2",
        "0.30.0", "1.0",          "1.0.0.1",      "2026.9.21",
    };

    for (size_t i = 0; i < ARRAY_SIZE(ascending); i++)
        for (size_t k = 0; k < ARRAY_SIZE(ascending); k++) {
            struct engine_version a, b;
            assert_int_equal(engine_version_parse(ascending[i], &a), 0);
            assert_int_equal(engine_version_parse(ascending[k], &b), 0);
            int r = engine_version_compare(&a, &b);
            assert_int_equal((r > 0) - (r < 0), (i > k) - (i < k));
        }
}

static void test_spellings(void **state)
{
    static const struct {
        const char *text, *same;
        bool is_dev;
    } cases[] = {
        {"v0.30.0", "0.30.0", false},
        {"0.30", "0.30.0", false},
        {"0.30.0+cu129", "0.30.0", false},
        {"0.30.0+rocm700", "0.30.0", false},
        {"0.30.0-rc.2", "0.30.0rc2", false},
        {"0.30.0.RC2", "0.30.0rc2", false},
        {"0.30.0c2", "0.30.0rc2", false},
        {"0.30.0_post1", "0.30.0.post1", false},
        {"0.30.1.dev20+g017e9f444", "0.30.1.dev0", true},
        {"0.30.0rc3.dev5+g017e9f444.d20260817", "0.30.0rc3", true},
        {"0.30.0.post1.dev4", "0.30.0.post1", true},
        {"2.9.0.dev20250801+cu126", "2.9.0.dev0", true},
        {"2.1.0a0+32f93b1", "2.1.0a0", false},
        {"0.30.0+g017e9f444", "0.30.0", true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct engine_version a, b;
        assert_int_equal(engine_version_parse(cases[i].text, &a), 0);
        assert_int_equal(engine_version_parse(cases[i].same, &b), 0);
        assert_int_equal(engine_version_compare(&a, &b), 0);
        assert_int_equal(a.is_dev, cases[i].is_dev);
    }
}

static void test_no_versions(void **state)
{
    static const char *const texts[] = {
        NULL,        "",     "main",       "dev",   "v",       "7",         "0.",         "0.x",         ".1",
        "0.1.2.3.4", "0.1 ", "0.30.0rc2x", "1.2;3", "0.1.0~1", "0.1.devil", "0.20260817", "9999999999.1"};
    struct engine_version v;

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        assert_int_equal(engine_version_parse(texts[i], &v), -EINVAL);
}

/* A change that came between 0.30.0rc2 and 0.31.0. */
static void test_changes(void **state)
{
    static const struct version_change change = {"0.30.0rc3", "0.31.0"};
    static const struct {
        const char *version;
        enum version_answer answer;
    } cases[] = {
        {"0.29.0", VERSION_NO},
        {"0.30.0rc2", VERSION_NO},
        {"0.30.0rc3", VERSION_UNCERTAIN},
        {"0.30.0", VERSION_UNCERTAIN},
        {"0.31.0rc1", VERSION_UNCERTAIN},
        {"0.31.0", VERSION_YES},
        {"0.31.0.post1", VERSION_YES},
        {"0.28.1.dev4+g017e9f444", VERSION_NO},
        {"0.29.1.dev4+g017e9f444", VERSION_UNCERTAIN}, /* what becomes 0.30.0 */
        {"0.30.0rc2.dev4+g017e9f444", VERSION_UNCERTAIN},
        {"0.30.1.dev400+g017e9f444", VERSION_UNCERTAIN},
        {"0.31.0.dev4+g017e9f444", VERSION_UNCERTAIN},
        {"0.31.1.dev4+g017e9f444", VERSION_YES},
        {"0.1.dev1+g017e9f444", VERSION_UNCERTAIN},
        {"0.0.0.dev1", VERSION_UNCERTAIN},
        {"0.1.0", VERSION_NO},
        {"main", VERSION_UNCERTAIN},
        {NULL, VERSION_UNCERTAIN},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (version_has(cases[i].version, &change) != cases[i].answer)
            fail_msg("%s", cases[i].version);
}

/* SGLang's releases are the third part: a build after 0.5.15 is 0.5.16.dev. */
static void test_changes_of_patches(void **state)
{
    static const struct version_change change = {"0.5.16.dev0", "0.5.16"};
    static const struct {
        const char *version;
        enum version_answer answer;
    } cases[] = {
        {"0.5.15.post1", VERSION_NO},
        {"0.5.16rc0", VERSION_UNCERTAIN},
        {"0.5.16", VERSION_YES},
        {"0.5.14.dev9+g017e9f444", VERSION_NO},
        {"0.5.16.dev9+g017e9f444", VERSION_UNCERTAIN},
        {"0.5.17.dev9+g017e9f444", VERSION_YES},
        {"0.6.0", VERSION_YES},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        if (version_has(cases[i].version, &change) != cases[i].answer)
            fail_msg("%s", cases[i].version);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_no_versions),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_changes_of_patches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
