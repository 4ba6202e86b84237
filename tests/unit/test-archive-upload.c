/* SPDX-License-Identifier: Apache-2.0 */
/* The upload of a file, request by request, against scripted results. */
#include "archive/upload.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

#define SHA   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OTHER "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define LARGE (ARCHIVE_SINGLE_MAX + 1)

struct script {
    enum archive_verb verb;
    int err;
    const char *sha256; /* HEAD */
    const char *etag;   /* UPLOAD_PART */
    size_t n_parts;     /* UPLOAD_PARTS: so many, with the tags that were kept */
};

static int play(uint64_t size, const struct archive_upload_state *kept, const struct script *steps, size_t n,
                bool *ret_existed)
{
    const struct archive_file file = {"key", -1, size, SHA};
    _cleanup_(archive_upload_freep) struct archive_upload *u = archive_upload_new(&file, kept, NS_PER_S, 0);
    const struct problem *p;
    struct archive_request q;

    for (size_t i = 0; i < n; i++) {
        struct archive_result r = {.err = steps[i].err};
        assert_true(archive_upload_next(u, &q));
        assert_int_equal(q.verb, steps[i].verb);
        if (q.verb == ARCHIVE_UPLOAD_PART)
            assert_int_equal(q.offset, (q.part - 1) * ARCHIVE_PART_SIZE);
        r.object.size = size;
        snprintf(r.object.sha256, sizeof(r.object.sha256), "%s", steps[i].sha256 ? steps[i].sha256 : "");
        snprintf(r.object.etag, sizeof(r.object.etag), "%s", steps[i].etag ? steps[i].etag : "tag");
        if (q.verb == ARCHIVE_UPLOAD_CREATE && r.err == 0)
            r.upload_id = xstrdup("upload");
        for (size_t k = 0; k < steps[i].n_parts; k++) {
            VEC_GROW(r.parts, r.n_parts, r.cap_parts);
            r.parts[r.n_parts++] = (struct archive_part){(unsigned)k + 1, ARCHIVE_PART_SIZE, "kept"};
        }
        archive_upload_take(u, &r);
        archive_result_done(&r);
    }
    assert_false(archive_upload_next(u, &q));
    *ret_existed = archive_upload_existed(u);
    return archive_upload_result(u, &p);
}

#define PLAY(size, kept, existed, ...)                                                                       \
    ({                                                                                                       \
        static const struct script _steps[] = {__VA_ARGS__};                                                 \
        bool _existed;                                                                                       \
        int _r = play(size, kept, _steps, ARRAY_SIZE(_steps), &_existed);                                    \
        assert_int_equal(_existed, existed);                                                                 \
        _r;                                                                                                  \
    })

static void test_single(void **state)
{
    assert_int_equal(PLAY(5, NULL, false, {ARCHIVE_PUT}, {ARCHIVE_HEAD, 0, SHA}), 0);
    assert_int_equal(PLAY(5, NULL, false, {ARCHIVE_PUT, -EACCES}), -EACCES);
    assert_int_equal(PLAY(5, NULL, true, {ARCHIVE_PUT, -EEXIST}, {ARCHIVE_HEAD, 0, SHA}), 0);
    assert_int_equal(PLAY(5, NULL, false, {ARCHIVE_PUT, -EEXIST}, {ARCHIVE_HEAD, 0, OTHER}), -EEXIST);
    /* A service without conditions. */
    assert_int_equal(PLAY(5, NULL, false, {ARCHIVE_PUT, -EOPNOTSUPP}, {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_PUT},
                          {ARCHIVE_HEAD, 0, SHA}),
                     0);
    /* What was sent is not there, or is another. */
    assert_int_equal(PLAY(5, NULL, false, {ARCHIVE_PUT}, {ARCHIVE_HEAD, -ENOENT}), -ENOENT);
    assert_int_equal(PLAY(5, NULL, false, {ARCHIVE_PUT}, {ARCHIVE_HEAD, 0, OTHER}), -EEXIST);
    assert_int_equal(PLAY(5, NULL, false, {ARCHIVE_PUT, -EEXIST}, {ARCHIVE_HEAD, -ENOENT},
                          {ARCHIVE_PUT, -EEXIST}, {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_PUT, -EEXIST},
                          {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_PUT, -EEXIST}, {ARCHIVE_HEAD, -ENOENT}),
                     -ENOENT);
}

#define FIVE_PARTS                                                                                           \
    {ARCHIVE_UPLOAD_PART}, {ARCHIVE_UPLOAD_PART}, {ARCHIVE_UPLOAD_PART}, {ARCHIVE_UPLOAD_PART},              \
    {                                                                                                        \
        ARCHIVE_UPLOAD_PART                                                                                  \
    }

static void test_large(void **state)
{
    assert_int_equal(PLAY(LARGE, NULL, false, {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_UPLOAD_CREATE}, FIVE_PARTS,
                          {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_UPLOAD_COMPLETE}, {ARCHIVE_HEAD, 0, SHA}),
                     0);
    assert_int_equal(PLAY(LARGE, NULL, true, {ARCHIVE_HEAD, 0, SHA}), 0);
    /* Somebody was faster; CompleteMultipartUpload would replace. */
    assert_int_equal(PLAY(LARGE, NULL, true, {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_UPLOAD_CREATE}, FIVE_PARTS,
                          {ARCHIVE_HEAD, 0, SHA}),
                     0);
    assert_int_equal(PLAY(LARGE, NULL, false, {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_UPLOAD_CREATE}, FIVE_PARTS,
                          {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_UPLOAD_COMPLETE}, {ARCHIVE_HEAD, 0, OTHER}),
                     -EEXIST);
    /* The answer to the completion was lost. */
    assert_int_equal(PLAY(LARGE, NULL, true, {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_UPLOAD_CREATE}, FIVE_PARTS,
                          {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_UPLOAD_COMPLETE, -ENOENT},
                          {ARCHIVE_HEAD, 0, SHA}),
                     0);
    assert_int_equal(PLAY(LARGE, NULL, false, {ARCHIVE_HEAD, -EACCES}), -EACCES);
}

static void test_resumption(void **state)
{
    struct archive_part parts[] = {{1, 0, "kept"}, {2, 0, "kept"}, {3, 0, "another"}, {4, 0, ""}, {5, 0, ""}};
    const struct archive_upload_state kept = {(char *)"upload", parts, ARRAY_SIZE(parts)};

    /* Two parts are as they were kept; the third is there with another tag. */
    assert_int_equal(PLAY(LARGE, &kept, false, {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_UPLOAD_PARTS, .n_parts = 3},
                          {ARCHIVE_UPLOAD_PART}, {ARCHIVE_UPLOAD_PART}, {ARCHIVE_UPLOAD_PART},
                          {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_UPLOAD_COMPLETE}, {ARCHIVE_HEAD, 0, SHA}),
                     0);
    /* The service has lost it: from the beginning. */
    assert_int_equal(PLAY(LARGE, &kept, false, {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_UPLOAD_PARTS, -ENOENT},
                          {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_UPLOAD_CREATE}, FIVE_PARTS,
                          {ARCHIVE_HEAD, -ENOENT}, {ARCHIVE_UPLOAD_COMPLETE}, {ARCHIVE_HEAD, 0, SHA}),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_resumption),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
