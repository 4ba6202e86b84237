/* SPDX-License-Identifier: Apache-2.0 */
/* Names in archives, and how they stand in requests. */
#include "archive/archive_url.h"
#include "archive/s3_answer.h"
#include "archive/s3_call.h"
#include "base/alloc.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

static void test_urls(void **state)
{
    static const struct {
        const char *text, *bucket, *prefix, *path;
    } good[] = {
        {"s3://traces", "traces", "", NULL},         {"s3://traces/", "traces", "", NULL},
        {"s3://a.b-c/x/y//", "a.b-c", "x/y/", NULL}, {"file:///srv/traces/", "", NULL, "/srv/traces"},
        {"s3://abc/date=1", "abc", "date=1/", NULL},
    };
    static const char *const bad[] = {
        "",           "traces",    "s3://",         "s3://ab",       "s3://Traces",
        "s3://a..b",  "s3://-abc", "s3://abc/../x", "s3://abc/a//b", "s3://abc/\n",
        "file://srv", "file:///",  "http://abc",    "s3://a_bc"};

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        struct archive_url u = {0};
        const char *reason;
        assert_int_equal(archive_url_parse(good[i].text, &u, &reason), 0);
        assert_string_equal(u.bucket, good[i].bucket);
        assert_true(streq(u.prefix, good[i].prefix) && streq(u.path, good[i].path));
        archive_url_done(&u);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct archive_url u;
        const char *reason = NULL;
        assert_int_equal(archive_url_parse(bad[i], &u, &reason), -EINVAL);
        assert_non_null(reason);
    }
}

static void test_endpoints(void **state)
{
    static const struct {
        const char *text, *base, *host;
        int port;
    } good[] = {
        {"https://s3.example", "https://s3.example", "s3.example", 443},
        {"http://127.0.0.1:7480/", "http://127.0.0.1:7480", "127.0.0.1", 7480},
        {"https://[::1]:443", "https://[::1]", "[::1]", 443},
        {"http://s3:80", "http://s3", "s3", 80},
    };
    static const char *const bad[] = {"s3.example",  "https://",        "https://a/b",  "https://u@h",
                                      "https://h:0", "https://h:x",     "https://[::1", "https://[x]",
                                      "https://h?x", "https://h:80:80", "ftp://h"};

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        struct archive_endpoint e = {0};
        const char *reason;
        assert_int_equal(archive_endpoint_parse(good[i].text, &e, &reason), 0);
        assert_string_equal(e.base, good[i].base);
        assert_string_equal(e.host, good[i].host);
        assert_int_equal(e.port, good[i].port);
        archive_endpoint_done(&e);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct archive_endpoint e;
        const char *reason;
        assert_int_equal(archive_endpoint_parse(bad[i], &e, &reason), -EINVAL);
    }
}

static void test_keys(void **state)
{
    static const char *const good[] = {"a", "a/b", "date=1/x:y", "a b", "ü", "..a", ".a", "a..", "..."};
    static const char *const bad[] = {"",     "/a",           "a/",         "a//b",         ".",
                                      "..",   "a/../b",       "a/.",        "\n",           "a\x7f",
                                      "\xff", ".profd-tmp/x", "a/.profd-x", "a\xe2\x80\xae"};

    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_true(archive_key_is_valid(good[i]) && archive_prefix_is_valid(good[i]));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(archive_key_is_valid(bad[i]));
    assert_true(archive_prefix_is_valid("") && archive_prefix_is_valid("a/") &&
                archive_prefix_is_valid("a/."));
    assert_false(archive_prefix_is_valid("/") || archive_prefix_is_valid("../"));
}

static void test_parts(void **state)
{
    assert_int_equal(archive_part_size(1), ARCHIVE_PART_SIZE);
    assert_int_equal(archive_part_size(ARCHIVE_PART_SIZE * ARCHIVE_PARTS_MAX), ARCHIVE_PART_SIZE);
    assert_int_equal(archive_part_size(ARCHIVE_PART_SIZE * ARCHIVE_PARTS_MAX + 1), 2 * ARCHIVE_PART_SIZE);
    assert_int_equal(archive_part_count(0), 1);
    assert_int_equal(archive_part_count(ARCHIVE_PART_SIZE), 1);
    assert_int_equal(archive_part_count(ARCHIVE_PART_SIZE + 1), 2);
    assert_int_equal(archive_part_count(ARCHIVE_PART_SIZE * ARCHIVE_PARTS_MAX + 1),
                     ARCHIVE_PARTS_MAX / 2 + 1);
}

static char *text_of(const struct archive_request *q)
{
    const struct s3_service service = {
        .root = (char *)"http://h/bucket", .prefix = (char *)"a=b/", .encryption = (char *)"AES256"};
    const struct s3_progress progress = {q->verb == ARCHIVE_GET && q->after ? 7 : 0, "etag"};
    struct s3_text t;
    char *text;

    s3_text_build(&service, q, &progress, "HASH", &t);
    text = xasprintf("%s %s", t.method, t.url);
    for (size_t i = 0; i < t.n_headers; i++)
        append_str(&text, "|%s", t.headers[i]);
    if (t.body)
        append_str(&text, "|%s", t.body);
    s3_text_done(&t);
    return text;
}

/* Each as libcurl 7.88 signs it: sorted, encoded, every name with "=". */
static void test_requests(void **state)
{
    static const struct archive_part parts[] = {{1, 5, "e1"}, {2, 5, "e2"}};
#define EMPTY "|x-amz-content-sha256: " S3_SHA256_OF_NOTHING
    static const struct {
        struct archive_request q;
        const char *text;
    } cases[] = {
        {{ARCHIVE_PUT, .key = "x y/z:+", .exclusive = true},
         "PUT http://h/bucket/a%3Db/x%20y/z%3A%2B|Content-Type: application/octet-stream|If-None-Match: "
         "*|x-amz-meta-sha256: HASH|x-amz-server-side-encryption: AES256|x-amz-content-sha256: HASH"},
        {{ARCHIVE_HEAD, .key = "~._-"}, "HEAD http://h/bucket/a%3Db/~._-" EMPTY},
        {{ARCHIVE_GET, .key = "k"}, "GET http://h/bucket/a%3Db/k" EMPTY},
        {{ARCHIVE_GET, .key = "k", .offset = 10, .size = 20, .after = "go on"},
         "GET http://h/bucket/a%3Db/k|Range: bytes=17-29|If-Match: \"etag\"" EMPTY},
        {{ARCHIVE_GET, .key = "k", .after = "go on"},
         "GET http://h/bucket/a%3Db/k|Range: bytes=7-|If-Match: \"etag\"" EMPTY},
        {{ARCHIVE_DELETE, .key = "k"}, "DELETE http://h/bucket/a%3Db/k" EMPTY},
        {{ARCHIVE_LIST, .key = "p/", .after = "t=&/+", .max = 7},
         "GET http://h/bucket/"
         "?continuation-token=t%3D%26%2F%2B&encoding-type=url&list-type=2&max-keys=7&prefix=a%3Db%2Fp%"
         "2F" EMPTY},
        {{ARCHIVE_UPLOAD_PART, .key = "k", .upload_id = "2~a/b", .part = 3},
         "PUT http://h/bucket/a%3Db/k?partNumber=3&uploadId=2~a%2Fb|Content-Type: "
         "application/octet-stream|x-amz-content-sha256: HASH"},
        {{ARCHIVE_UPLOAD_PARTS, .key = "k", .upload_id = "u", .after = "1000"},
         "GET http://h/bucket/a%3Db/k?max-parts=1000&part-number-marker=1000&uploadId=u" EMPTY},
        {{ARCHIVE_UPLOAD_ABORT, .key = "k", .upload_id = "u"},
         "DELETE http://h/bucket/a%3Db/k?uploadId=u" EMPTY},
        {{ARCHIVE_UPLOAD_CREATE, .key = "k"},
         "POST http://h/bucket/a%3Db/k?uploads=|Content-Type: "
         "application/octet-stream|x-amz-server-side-encryption: "
         "AES256" EMPTY "|"},
        {{ARCHIVE_UPLOAD_COMPLETE, .key = "k", .upload_id = "u", .parts = parts, .n_parts = 2},
         "POST http://h/bucket/a%3Db/k?uploadId=u|Content-Type: application/xml|x-amz-content-sha256: "
         "e91b26fccb004f8b608053c386f7494b1beafe67a8e14a116418d7d6796a8450|"
         "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
         "<Part><PartNumber>1</PartNumber><ETag>\"e1\"</ETag></Part><Part><PartNumber>2</"
         "PartNumber><ETag>\"e2\"</ETag></Part>"
         "</CompleteMultipartUpload>"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(freep) char *text = text_of(&cases[i].q);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_decoding(void **state)
{
    static const char *const bad[] = {"%", "%4", "%4x", "%00", "a%zz"};

    char good[] = "a%20b+c%2B%C3%BC";
    assert_true(s3_key_decode(good));
    assert_string_equal(good, "a b c+\xc3\xbc");
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        char text[8];
        snprintf(text, sizeof(text), "%s", bad[i]);
        assert_false(s3_key_decode(text));
    }
}

static void test_addresses(void **state)
{
    static const char *const refused[] = {
        "169.254.169.254",        "169.254.7.7",        "fe80::1",        "fd00:ec2::254",
        "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "100.100.100.200"};
    static const char *const allowed[] = {"10.0.0.1",   "127.0.0.1", "::1",
                                          "52.216.1.1", "fd00::1",   "169.253.0.1"};
    struct in6_addr a;

    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        assert_int_equal(address_parse(refused[i], &a), 0);
        assert_non_null(s3_address_refused(&a, false));
        assert_null(s3_address_refused(&a, true));
    }
    for (size_t i = 0; i < ARRAY_SIZE(allowed); i++) {
        assert_int_equal(address_parse(allowed[i], &a), 0);
        assert_null(s3_address_refused(&a, false));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),      cmocka_unit_test(test_endpoints), cmocka_unit_test(test_keys),
        cmocka_unit_test(test_parts),     cmocka_unit_test(test_requests),  cmocka_unit_test(test_decoding),
        cmocka_unit_test(test_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
