/* SPDX-License-Identifier: Apache-2.0 */
/* What S3 services answer: documents, heads, and what follows from them. */
#include "archive/s3_credentials.h"
#include "archive/s3_failure.h"
#include "archive/s3_request.h"
#include "archive/s3_retry.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

static int parse(const char *text, struct s3_xml *ret)
{
    _cleanup_(freep) char *reason = NULL;
    int r = s3_xml_parse(text, strlen(text), ret, &reason);

    assert_true((r == 0) == (reason == NULL));
    return r;
}

static void test_documents(void **state)
{
    struct s3_xml x;

    assert_int_equal(parse("<?xml version='1.0' "
                           "encoding='UTF-8'?>\n<Error><Code>A&amp;B</Code><Message><![CDATA[<x>]]></Message>"
                           "<Resource>/a</Resource></Error>",
                           &x),
                     0);
    assert_int_equal(x.document, S3_DOCUMENT_ERROR);
    assert_string_equal(x.code, "A&B");
    assert_string_equal(x.message, "<x>");
    s3_xml_done(&x);
    assert_int_equal(
        parse(
            "<s:ListBucketResult xmlns:s='http://s3/'><s:IsTruncated>true</s:IsTruncated>"
            "<s:NextContinuationToken>t</s:NextContinuationToken><s:Contents><s:Key>a</"
            "s:Key><s:Owner><s:ID>x</s:ID>"
            "</s:Owner><s:Size>18446744073709551615</s:Size></s:Contents><s:Contents/></s:ListBucketResult>",
            &x),
        0);
    assert_int_equal(x.n_objects, 2);
    assert_true(x.is_truncated && x.objects[0].size == UINT64_MAX && streq(x.objects[0].key, "a") &&
                !x.objects[1].key);
    s3_xml_done(&x);
    assert_int_equal(parse("<html><Code>x</Code></html>", &x), 0);
    assert_int_equal(x.document, S3_DOCUMENT_NONE);
    s3_xml_done(&x);
}

static void test_bad_documents(void **state)
{
    static const char *const bad[] = {
        "",
        "text",
        "<Error>",
        "<Error></error>",
        "<Error/><Error/>",
        "<!DOCTYPE a><Error/>",
        "<!DOCTYPE a [<!ENTITY b 'c'>]><Error><Code>&b;</Code></Error>",
        "<Error><Code>&undefined;</Code></Error>",
        "<Error><Code>a</Code><Code>b</Code></Error>",
        "<Error><Code/><Code/></Error>",
        "<Error><Code><b/></Code></Error>",
        "<ListBucketResult><IsTruncated>maybe</IsTruncated></ListBucketResult>",
        "<ListBucketResult><Contents><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Size>18446744073709551616</Size></Contents></ListBucketResult>",
        "<a><a><a><a><a><a><a><a><a/></a></a></a></a></a></a></a></a>",
        "<Error><Code>\x01</Code></Error>",
    };
    struct s3_xml x;

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_int_equal(parse(bad[i], &x), -EPROTO);
        s3_xml_done(&x);
    }
    _cleanup_(freep) char *text = xcalloc(1, 2 * S3_TEXT_MAX);
    strcpy(text, "<Error><Code>");
    memset(text + strlen(text), 'a', S3_TEXT_MAX + 1);
    strcat(text, "</Code></Error>");
    assert_int_equal(parse(text, &x), -EPROTO);
    s3_xml_done(&x);
}

static void take(struct s3_head *h, const char *line)
{
    assert_int_equal(s3_head_take(h, line, strlen(line)), 0);
}

static void test_heads(void **state)
{
    struct s3_head h = {0};

    take(&h, "HTTP/1.1 100 Continue\r\n");
    take(&h, "ETag: \"interim\"\r\n");
    take(&h, "\r\n");
    take(&h, "HTTP/1.1 206 Partial Content\r\n");
    assert_string_equal(h.etag, "");
    take(&h, "etag:W/\"x\"\r\n"); /* a weak one is none */
    assert_string_equal(h.etag, "");
    take(&h, "ETAG: \"abc-5\"\r\n");
    take(&h, "Content-Range: bytes 10-19/100\r\n");
    take(&h, "Content-Length: 10\r\n");
    take(&h, "Date: Mon, 23 Nov 2026 18:34:42 GMT\r\n");
    take(&h, "Retry-After: 7\r\n");
    take(&h, "x-amz-bucket-region: EU/../\r\n");
    take(&h, "Location: http://h/\x1b[31m\r\n");
    assert_true(h.status == 206 && h.has_range && h.first == 10 && h.last == 19 && h.total == 100 &&
                h.length == 10);
    assert_string_equal(h.etag, "abc-5");
    assert_string_equal(h.location, "http://h/");
    assert_true(h.date_s == 1795458882 && h.retry_after_s == 7 && !h.region[0]);
    take(&h, "Content-Range: bytes 19-10/100\r\n");
    assert_false(h.has_range);
    take(&h, "Content-Range: bytes 10-100/100\r\n");
    assert_false(h.has_range);
    take(&h, "Content-Length: 1e9\r\n");
    assert_false(h.has_length);
    take(&h, "Retry-After: Mon, 23 Nov 2026 18:34:42 GMT\r\n");
    assert_int_equal(h.retry_date_s, 1795458882);
    while (h.size <= S3_HEAD_MAX - 10)
        take(&h, "X: 12345\r\n");
    assert_int_equal(s3_head_take(&h, "X: 12345678\r\n", 13), -EMSGSIZE);
}

static void test_retries(void **state)
{
    static const struct {
        struct s3_attempt a;
        enum s3_retry retry;
    } cases[] = {
        {{.status = 503, .number = 1}, S3_RETRY_AFTER},
        {{.status = 500, .number = 40}, S3_RETRY_AFTER},
        {{.status = 429, .number = 1}, S3_RETRY_AFTER},
        {{.status = 408, .number = 1}, S3_RETRY_AFTER},
        {{.status = 400, .code = "RequestTimeout", .number = 1}, S3_RETRY_AFTER},
        {{.status = 200, .code = "InternalError", .number = 1}, S3_RETRY_AFTER},
        {{.status = 501, .number = 1}, S3_RETRY_NONE},
        {{.status = 400, .number = 1}, S3_RETRY_NONE},
        {{.status = 404, .code = "NoSuchKey", .number = 1}, S3_RETRY_NONE},
        {{.status = 412, .number = 1}, S3_RETRY_NONE},
        {{.status = 301, .number = 1}, S3_RETRY_NONE},
        {{.status = 403, .number = 1}, S3_RETRY_NONE},
        {{.status = 403, .number = 1, .has_new_credentials = true}, S3_RETRY_AFTER},
        {{.status = 403, .code = "RequestTimeTooSkewed", .number = 1, .has_new_credentials = true},
         S3_RETRY_NONE},
        {{.status = 400, .code = "BadDigest", .number = 2}, S3_RETRY_AFTER},
        {{.status = 400, .code = "BadDigest", .number = S3_DAMAGED_ATTEMPTS_MAX}, S3_RETRY_NONE},
        {{.err = -EBADMSG, .status = 200, .number = 1}, S3_RETRY_AFTER},
        {{.err = -ECONNRESET, .number = 1}, S3_RETRY_AFTER},
        {{.err = -ECONNREFUSED, .number = 9}, S3_RETRY_AFTER},
        {{.err = -ETIMEDOUT, .number = 1}, S3_RETRY_AFTER},
        {{.err = -EPERM, .number = 1}, S3_RETRY_NONE},
        {{.err = -EPROTO, .status = 503, .number = 1}, S3_RETRY_NONE},
        {{.err = -ENOSPC, .number = 1}, S3_RETRY_NONE},
        {{.status = 503, .number = 1, .retry_after_s = 3600}, S3_RETRY_DEADLINE},
        {{.status = 503, .number = 1, .retry_date_s = 5000, .wall_s = 1000}, S3_RETRY_DEADLINE},
        {{.status = 503, .number = 1, .retry_date_s = 1000, .wall_s = 5000}, S3_RETRY_AFTER},
    };
    int64_t wait;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        assert_int_equal(s3_retry_decide(&cases[i].a, 0, 0, 3600 * NS_PER_S, &wait), cases[i].retry);
}

static void test_waits(void **state)
{
    struct s3_attempt a = {.status = 503, .number = 1};
    int64_t wait;

    s3_retry_decide(&a, 0, 0, DEADLINE_NEVER, &wait);
    assert_int_equal(wait, S3_WAIT_FIRST_NS / 2);
    s3_retry_decide(&a, UINT32_MAX, 0, DEADLINE_NEVER, &wait);
    assert_int_equal(wait, S3_WAIT_FIRST_NS);
    a.number = 3;
    s3_retry_decide(&a, UINT32_MAX, 0, DEADLINE_NEVER, &wait);
    assert_int_equal(wait, 4 * S3_WAIT_FIRST_NS);
    a.number = 1000;
    s3_retry_decide(&a, UINT32_MAX, 0, DEADLINE_NEVER, &wait);
    assert_int_equal(wait, S3_WAIT_MOST_NS);
    a.retry_after_s = 60;
    s3_retry_decide(&a, 0, 0, DEADLINE_NEVER, &wait);
    assert_int_equal(wait, 60 * NS_PER_S);
}

static void test_credentials(void **state)
{
    static const char *const bad[] = {
        "",
        "aws_access_key_id = a\n",
        "aws_access_key_id = a\naws_secret_access_key =\n",
        "aws_access_key_id = a\naws_access_key_id = b\naws_secret_access_key = c\n",
        "aws_access_key_id = a b\naws_secret_access_key = c\n",
        "[other]\naws_access_key_id = a\naws_secret_access_key = c\n",
        "[default\naws_access_key_id = a\naws_secret_access_key = c\n",
        "{\"key\": 1}",
    };
    static const char good[] =
        "# comment\n[default]\r\naws_access_key_id=AK\r\n  aws_secret_access_key = s=c/+:\n"
        "region = x\n[other]\naws_access_key_id = no";
    _cleanup_(freep) char *reason = NULL;
    struct s3_keys k = {0};

    assert_int_equal(s3_keys_parse(good, strlen(good), &k, &reason), 0);
    assert_string_equal(k.id, "AK");
    assert_string_equal(k.secret, "s=c/+:");
    assert_null(k.token);
    s3_keys_done(&k);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        _cleanup_(freep) char *why = NULL;
        assert_int_equal(s3_keys_parse(bad[i], strlen(bad[i]), &k, &why), -EINVAL);
        assert_non_null(why);
    }
}

static void test_failures(void **state)
{
    struct s3_head head = {.status = 403, .date_s = 1000};
    struct s3_xml xml = {.document = S3_DOCUMENT_ERROR, .code = (char *)"RequestTimeTooSkewed"};
    struct s3_failure f = {.verb = ARCHIVE_PUT,
                           .name = "s3://b/k",
                           .bucket = "b",
                           .region = "r",
                           .endpoint = "https://h",
                           .credentials_file = "/c",
                           .key_id = "AK",
                           .head = &head,
                           .xml = &xml,
                           .wall_s = 4600,
                           .n_attempts = 2};
    struct problem p = {0};

    assert_int_equal(s3_failure_describe(&f, &p), -EACCES);
    assert_string_equal(p.what,
                        "cannot upload s3://b/k: the clocks of this host and of the server differ (HTTP 403 "
                        "RequestTimeTooSkewed) (2 attempts)");
    assert_non_null(strstr(p.remedy, "ahead of the server's"));
    problem_done(&p);
    xml.code = NULL;
    head.status = 412;
    f.verb = ARCHIVE_GET;
    assert_int_equal(s3_failure_describe(&f, &p), -ESTALE);
    problem_done(&p);
}

static bool text_has(const struct s3_text *t, const char *header)
{
    for (size_t i = 0; i < t->n_headers; i++)
        if (streq(t->headers[i], header))
            return true;
    return false;
}

/* Of what creates an object, and of nothing else. */
static void test_encryption(void **state)
{
    const struct s3_service service = {.root = (char *)"https://b",
                                       .prefix = (char *)"",
                                       .encryption = (char *)"aws:kms",
                                       .kms_key = (char *)"alias/traces"};
    static const bool creates[_ARCHIVE_VERB_MAX] = {[ARCHIVE_PUT] = true, [ARCHIVE_UPLOAD_CREATE] = true};

    for (int verb = 0; verb < _ARCHIVE_VERB_MAX; verb++) {
        const struct archive_request q = {.verb = (enum archive_verb)verb, .key = "k", .upload_id = "u"};
        const struct s3_progress progress = {0};
        struct s3_text t;
        s3_text_build(&service, &q, &progress, S3_SHA256_OF_NOTHING, &t);
        assert_int_equal(text_has(&t, "x-amz-server-side-encryption: aws:kms"), creates[verb]);
        assert_int_equal(text_has(&t, "x-amz-server-side-encryption-aws-kms-key-id: alias/traces"),
                         creates[verb]);
        s3_text_done(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents), cmocka_unit_test(test_bad_documents),
        cmocka_unit_test(test_heads),     cmocka_unit_test(test_retries),
        cmocka_unit_test(test_waits),     cmocka_unit_test(test_credentials),
        cmocka_unit_test(test_failures),  cmocka_unit_test(test_encryption),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
