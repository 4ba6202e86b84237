/* SPDX-License-Identifier: Apache-2.0 */
/* Which form of a file of the web page a client gets, over a table of the test's own. */
#include "base/alloc.h"
#include "daemon/api/web_page.h"
#include "tests/unit/cmocka-all.h"

/* "<!doctype html>" and 300 times "a". */
#define PLAIN_SIZE 315
/* clang-format off */
static const unsigned char zipped[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xb3, 0x51, 0x4c, 0xc9, 0x4f, 0x2e,
    0xa9, 0x2c, 0x48, 0x55, 0xc8, 0x28, 0xc9, 0xcd, 0xb1, 0x4b, 0x1c, 0x05, 0x44, 0x03, 0x00, 0xdf,
    0x6b, 0x2d, 0x43, 0x3b, 0x01, 0x00, 0x00,
};
/* clang-format on */

const struct web_asset web_assets[] = {
    {"index.html", "text/html; charset=utf-8", "\"abc\"", zipped, NULL, sizeof(zipped), 0, PLAIN_SIZE, false},
    {"short.js", "text/javascript", "\"def\"", zipped, NULL, sizeof(zipped), 0, PLAIN_SIZE - 1, true},
    {"cut.js", "text/javascript", "\"def\"", zipped, NULL, sizeof(zipped) - 9, 0, PLAIN_SIZE, true},
    {"junk.js", "text/javascript", "\"def\"", zipped + 5, NULL, sizeof(zipped) - 5, 0, PLAIN_SIZE, true},
};
const size_t web_assets_count = ARRAY_SIZE(web_assets);

static void test_encodings(void **state)
{
    static const struct {
        const char *accept;
        enum web_encoding with_brotli, without;
    } cases[] = {
        {NULL, WEB_IDENTITY, WEB_IDENTITY},
        {"", WEB_IDENTITY, WEB_IDENTITY},
        {"gzip, deflate, br, zstd", WEB_BROTLI, WEB_GZIP},
        {"gzip, deflate", WEB_GZIP, WEB_GZIP},
        {"GZIP", WEB_GZIP, WEB_GZIP},
        {"br;q=1.0, gzip;q=0.8", WEB_BROTLI, WEB_GZIP},
        {"br;q=0, gzip;q=0.001", WEB_GZIP, WEB_GZIP},
        {"br ; q=0.000,gzip ;q=0", WEB_IDENTITY, WEB_IDENTITY},
        {"identity", WEB_IDENTITY, WEB_IDENTITY},
        {"bread, gzipped", WEB_IDENTITY, WEB_IDENTITY},
        {"br;", WEB_BROTLI, WEB_IDENTITY},
        {",,, ,br", WEB_BROTLI, WEB_IDENTITY},
        {";;q=;", WEB_IDENTITY, WEB_IDENTITY},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (web_encoding_choose(cases[i].accept, true) != cases[i].with_brotli ||
            web_encoding_choose(cases[i].accept, false) != cases[i].without)
            fail_msg("%s", cases[i].accept);
    }
}

static void test_etags(void **state)
{
    static const char *const same[] = {"\"abc\"", "W/\"abc\"", "\"x\", W/\"abc\" , \"y\"", "*", " \"abc\" "};
    static const char *const others[] = {"", "abc", "\"abcd\"", "\"ab\"", "\"abc\"x", "W/", ","};

    for (size_t i = 0; i < ARRAY_SIZE(same); i++)
        assert_true(web_etag_matches(same[i], "\"abc\""));
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        assert_false(web_etag_matches(others[i], "\"abc\""));
    assert_false(web_etag_matches(NULL, "\"abc\""));
}

static void test_files(void **state)
{
    const struct web_asset *page = web_asset_find("index.html");

    assert_ptr_equal(page, &web_assets[0]);
    assert_null(web_asset_find("index.htm"));
    assert_null(web_asset_find(""));
    _cleanup_(freep) char *text = web_asset_inflate(page);
    assert_non_null(text);
    assert_int_equal(strlen(text), PLAIN_SIZE);
    assert_true(starts_with(text, "<!doctype html>aaa"));
    for (size_t i = 1; i < web_assets_count; i++)
        assert_null(web_asset_inflate(&web_assets[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encodings),
        cmocka_unit_test(test_etags),
        cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
