/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests of browsers come from profd's own page. */
#include "base/page_request.h"
#include "tests/unit/cmocka-all.h"

#define HOST "127.0.0.1:9460"
#define OWN  "http://" HOST

static void test_origins(void **state)
{
    static const struct {
        const char *host, *origin;
        enum page_verdict verdict;
    } cases[] = {
        {HOST, NULL, PAGE_REQUEST_ALLOWED},
        {NULL, NULL, PAGE_REQUEST_ALLOWED},
        {HOST, OWN, PAGE_REQUEST_ALLOWED},
        {HOST, "https://" HOST, PAGE_REQUEST_ALLOWED},
        {"NODE.example", "https://node.example", PAGE_REQUEST_ALLOWED},
        {"[::1]:80", "http://[::1]:80", PAGE_REQUEST_ALLOWED},
        {NULL, OWN, PAGE_REQUEST_FOREIGN},
        {HOST, "", PAGE_REQUEST_FOREIGN},
        {HOST, "null", PAGE_REQUEST_FOREIGN},
        {"", "http://", PAGE_REQUEST_ALLOWED}, /* an empty host is not profd's: another rule refuses it */
        {HOST, HOST, PAGE_REQUEST_FOREIGN},
        {HOST, "ws://" HOST, PAGE_REQUEST_FOREIGN},
        {HOST, "http://127.0.0.1:9461", PAGE_REQUEST_FOREIGN},
        {HOST, "http://127.0.0.1", PAGE_REQUEST_FOREIGN},
        {HOST, OWN "0", PAGE_REQUEST_FOREIGN},
        {HOST, OWN "/", PAGE_REQUEST_FOREIGN},
        {HOST, OWN ".evil.example", PAGE_REQUEST_FOREIGN},
        {HOST, "http://evil@" HOST, PAGE_REQUEST_FOREIGN},
        {HOST, "http://localhost:9460", PAGE_REQUEST_FOREIGN},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct page_request r = {
            .method = "GET", .path = "/v1/usage", .host = cases[i].host, .origin = cases[i].origin};
        if (page_request_check(&r) != cases[i].verdict)
            fail_msg("%s at %s", cases[i].origin, cases[i].host);
        assert_int_equal(page_request_is_browser(&r), cases[i].origin != NULL);
    }
}

static void test_sites(void **state)
{
    static const struct {
        const char *method, *path, *site, *mode, *dest;
        enum page_verdict verdict;
    } cases[] = {
        {"POST", "/v1/sessions", "same-origin", "cors", "empty", PAGE_REQUEST_ALLOWED},
        {"GET", "/", "none", "navigate", "document", PAGE_REQUEST_ALLOWED},
        {"GET", "/", "cross-site", "navigate", "document", PAGE_REQUEST_ALLOWED},
        {"GET", "/", "same-site", "navigate", "document", PAGE_REQUEST_ALLOWED},
        {"GET", "/", "cross-site", "navigate", "iframe", PAGE_REQUEST_FOREIGN},
        {"GET", "/", "cross-site", "no-cors", "document", PAGE_REQUEST_FOREIGN},
        {"GET", "/", "cross-site", NULL, NULL, PAGE_REQUEST_FOREIGN},
        {"HEAD", "/", "cross-site", "navigate", "document", PAGE_REQUEST_FOREIGN},
        {"POST", "/", "cross-site", "navigate", "document", PAGE_REQUEST_FOREIGN},
        {"GET", "/v1/usage", "cross-site", "navigate", "document", PAGE_REQUEST_FOREIGN},
        {"GET", "/v1/usage", "same-site", "cors", "empty", PAGE_REQUEST_FOREIGN},
        {"GET", "/v1/usage", "", "cors", "empty", PAGE_REQUEST_FOREIGN},
        {"GET", "/v1/usage", "Same-Origin", "cors", "empty", PAGE_REQUEST_FOREIGN},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct page_request r = {.method = cases[i].method,
                                       .path = cases[i].path,
                                       .host = HOST,
                                       .site = cases[i].site,
                                       .mode = cases[i].mode,
                                       .dest = cases[i].dest};
        if (page_request_check(&r) != cases[i].verdict)
            fail_msg("%s %s %s", cases[i].method, cases[i].path, cases[i].site);
    }
    const struct page_request both = {
        .method = "GET", .path = "/v1/usage", .host = HOST, .origin = OWN, .site = "same-site"};
    assert_int_equal(page_request_check(&both), PAGE_REQUEST_FOREIGN);
}

static void test_bodies(void **state)
{
    static const struct {
        const char *origin, *site, *type;
        bool has_body;
        enum page_verdict verdict;
    } cases[] = {
        {OWN, NULL, "application/json", true, PAGE_REQUEST_ALLOWED},
        {OWN, NULL, "application/JSON; charset=utf-8", true, PAGE_REQUEST_ALLOWED},
        {OWN, NULL, NULL, false, PAGE_REQUEST_ALLOWED},
        {OWN, NULL, NULL, true, PAGE_REQUEST_NOT_JSON},
        {OWN, NULL, "text/plain", true, PAGE_REQUEST_NOT_JSON},
        {OWN, NULL, "application/jsonx", true, PAGE_REQUEST_NOT_JSON},
        {NULL, "same-origin", "text/plain", true, PAGE_REQUEST_NOT_JSON},
        {NULL, NULL, "text/plain", true, PAGE_REQUEST_ALLOWED}, /* no browser */
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        const struct page_request r = {.method = "POST",
                                       .path = "/v1/sessions",
                                       .host = HOST,
                                       .origin = cases[i].origin,
                                       .site = cases[i].site,
                                       .content_type = cases[i].type,
                                       .has_body = cases[i].has_body};
        assert_int_equal(page_request_check(&r), cases[i].verdict);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_origins),
        cmocka_unit_test(test_sites),
        cmocka_unit_test(test_bodies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
