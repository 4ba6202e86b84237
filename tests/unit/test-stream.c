/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "tests/unit/pack.h"
#include "trace/read/decompress.h"

#define TEXT_SIZE 70000

struct outcome {
    struct stream_summary sum;
    uint8_t *out;
    size_t out_size;
};

/* Feeds input in pieces of in_step and gives room in pieces of out_step. */
static struct outcome decode(const uint8_t *in, size_t size, size_t in_step, size_t out_step,
                             struct stream_limits limits)
{
    struct outcome o = {.out = xcalloc(4 * TEXT_SIZE + out_step, 1)};
    _cleanup_(stream_freep) struct stream *s = NULL;

    assert_int_equal(stream_new(limits, &s), 0);
    for (size_t at = 0; at < size; at += in_step) {
        struct stream_io io = {.in = in + at, .in_size = MIN(in_step, size - at)};
        do {
            io.out = o.out + o.out_size;
            io.out_size = out_step;
            const uint8_t *in_before = io.in;
            size_t size_before = io.in_size;
            stream_decode(s, &io);
            /* What a decoder gives back was not given to it by this call. */
            assert_true(io.in_size <= size_before && io.in == in_before + (size_before - io.in_size));
            o.out_size += out_step - io.out_size;
            assert_true(o.out_size <= 4 * TEXT_SIZE);
        } while (io.in_size > 0 || io.out_size == 0);
    }
    stream_finish(s, &o.sum);
    assert_int_equal(o.sum.in, size);
    assert_int_equal(o.sum.out, o.out_size);
    return o;
}

static struct outcome decode_whole(const uint8_t *in, size_t size)
{
    return decode(in, size, size ? size : 1, TEXT_SIZE, STREAM_LIMITS_DEFAULT);
}

static char *make_text(void)
{
    char *text = xcalloc(TEXT_SIZE + 64, 1);
    for (size_t n = 0, i = 0; n < TEXT_SIZE; i++)
        n += (size_t)sprintf(text + n, "{\"ts\": %zu.%03zu, \"dur\": %zu},\n", i * 977, i % 1000,
                             i * i % 4099);
    return text;
}

typedef uint8_t *packer(const void *data, size_t size, size_t *ret_size);

static void check_round_trips(packer *pack, enum stream_coding coding)
{
    static const size_t steps[] = {1, 2, 3, 7, 100, 4096, 1 << 20};
    _cleanup_(freep) char *text = make_text();
    size_t size;
    _cleanup_(freep) uint8_t *packed = pack(text, TEXT_SIZE, &size);

    for (size_t i = 0; i < ARRAY_SIZE(steps); i++)
        for (size_t k = 0; k < ARRAY_SIZE(steps); k++) {
            struct outcome o = decode(packed, size, steps[i], steps[k], STREAM_LIMITS_DEFAULT);
            assert_int_equal(o.sum.result, STREAM_COMPLETE);
            assert_int_equal(o.sum.coding, coding);
            assert_int_equal(o.sum.members, 1);
            assert_string_equal(o.sum.reason, "");
            assert_int_equal(o.out_size, TEXT_SIZE);
            assert_memory_equal(o.out, text, TEXT_SIZE);
            free(o.out);
        }
}

static void test_gzip_in_any_pieces(void **state)
{
    check_round_trips(pack_gzip, STREAM_GZIP);
}

static void test_zstd_in_any_pieces(void **state)
{
    check_round_trips(pack_zstd, STREAM_ZSTD);
}

static void check_cut_anywhere(packer *pack)
{
    static const char text[] = "{\"traceEvents\": [{\"ph\": \"X\", \"ts\": 1, \"dur\": 2}]}\n";
    size_t size;
    _cleanup_(freep) uint8_t *packed = pack(text, strlen(text), &size);
    char reason[64];

    for (size_t cut = 1; cut < size; cut++) {
        struct outcome o = decode_whole(packed, cut);
        assert_int_equal(o.sum.result, STREAM_TRUNCATED);
        snprintf(reason, sizeof(reason), "ends after %zu bytes", cut);
        assert_non_null(strstr(o.sum.reason, reason));
        assert_memory_equal(o.out, text, o.out_size);
        free(o.out);
    }
}

static void test_cut_anywhere(void **state)
{
    check_cut_anywhere(pack_gzip);
    check_cut_anywhere(pack_zstd);
}

/* One bit of the last `n` bytes at a time. */
static void check_wrong_trailer(packer *pack, size_t n)
{
    _cleanup_(freep) char *text = make_text();
    size_t size;
    _cleanup_(freep) uint8_t *packed = pack(text, TEXT_SIZE, &size);

    for (size_t i = size - n; i < size; i++) {
        packed[i] ^= 0x10;
        struct outcome o = decode(packed, size, 1000, 1000, STREAM_LIMITS_DEFAULT);
        assert_int_equal(o.sum.result, STREAM_CORRUPT);
        assert_string_not_equal(o.sum.reason, "");
        free(o.out);
        packed[i] ^= 0x10;
    }
}

static void test_checksum_and_length(void **state)
{
    check_wrong_trailer(pack_gzip, 8);
    check_wrong_trailer(pack_zstd, 4);
}

static void test_bad_block(void **state)
{
    static const uint8_t method[] = {0x1f, 0x8b, 0x07, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3};
    static const uint8_t block[] = {0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff, 0xff, 0xff};

    struct outcome o = decode_whole(method, sizeof(method));
    assert_int_equal(o.sum.result, STREAM_CORRUPT);
    assert_non_null(strstr(o.sum.reason, "method"));
    free(o.out);
    o = decode_whole(block, sizeof(block));
    assert_int_equal(o.sum.result, STREAM_CORRUPT);
    assert_non_null(strstr(o.sum.reason, "block"));
    free(o.out);
}

/* The decoder may hold bytes of earlier calls in its bit buffer when it finds an error. */
static void test_errors_are_within_the_file(void **state)
{
    static const struct {
        size_t size;
        const char *data;
    } cases[] = {
        {28, "\x1f\x8b\x08\0\0\0\0\0\0\x03\xdb\xdb\x45\x64\xe8\xcf\x50\xff\xb7\xca\xf0\xc1\x53\x01\x31\x42"
             "\x7d\xf3"},
        {27,
         "\x1f\x8b\x08\0\0\0\0\0\0\x03\x33\x40\xf9\x29\x12\x3f\x55\x07\xc9\x37\xa3\xac\x0e\xd4\x6f\xa4\xa3"},
        {31, "\x1f\x8b\x08\0\0\0\0\0\0\x03\xaa\xe0\x88\x54\xb2\x25\xda\xde\xca\xd3\xb1\x92\xde\xcf\x31\x6a"
             "\x54\x71\xeb"
             "\x5e\xc1"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        for (size_t in_step = 1; in_step <= cases[i].size; in_step++)
            for (size_t out_step = 1; out_step <= 40; out_step++) {
                struct outcome o = decode((const uint8_t *)cases[i].data, cases[i].size, in_step, out_step,
                                          STREAM_LIMITS_DEFAULT);
                assert_int_equal(o.sum.result, STREAM_CORRUPT);
                const char *place = strstr(o.sum.reason, " near byte ");
                assert_non_null(place);
                assert_true(strtoull(place + strlen(" near byte "), NULL, 10) <= cases[i].size);
                free(o.out);
            }
}

/* What follows a member, in pieces of every size up to that of a magic number. */
static struct outcome decode_followed(packer *pack, const void *tail, size_t tail_size, size_t step)
{
    static const char text[] = "[1, 2, 3]";
    size_t size;
    uint8_t *packed = pack(text, strlen(text), &size);

    packed = xrealloc(packed, size + tail_size, 1);
    memcpy(packed + size, tail, tail_size);
    struct outcome o = decode(packed, size + tail_size, step, TEXT_SIZE, STREAM_LIMITS_DEFAULT);
    free(packed);
    assert_memory_equal(o.out, text, strlen(text));
    return o;
}

static void check_second_member(packer *pack)
{
    size_t size;
    _cleanup_(freep) uint8_t *second = pack("[4]", 3, &size);

    for (size_t step = 1; step < 9; step++) {
        struct outcome o = decode_followed(pack, second, size, step);
        assert_int_equal(o.sum.result, STREAM_COMPLETE);
        assert_int_equal(o.sum.members, 2);
        assert_int_equal(o.out_size, 9 + 3);
        assert_int_equal(o.sum.ignored, 0);
        assert_memory_equal(o.out + 9, "[4]", 3);
        free(o.out);
    }
}

static void test_members(void **state)
{
    check_second_member(pack_gzip);
    check_second_member(pack_zstd);
}

/* The packed size of the text that decode_followed() packs, which is where the tail begins. */
static size_t packed_size(packer *pack)
{
    size_t size;
    free(pack("[1, 2, 3]", 9, &size));
    return size;
}

static void test_what_follows_is_a_defect(void **state)
{
    static const struct {
        packer *pack;
        const char *tail;
        size_t size;
        const char *reason; /* ends with the offset */
    } cases[] = {
        {pack_gzip, "\0\0trash", 7, "7 bytes follow the end of the last gzip member at byte "},
        {pack_gzip, "\x1f", 1, "1 bytes follow the end of the last gzip member at byte "},
        {pack_gzip, "\x1f\x1f\x8b", 3, "3 bytes follow the end of the last gzip member at byte "},
        {pack_zstd, "\0\0\0", 3, "3 zero bytes follow the end of the last zstd member at byte "},
        {pack_zstd, "\x28\xb5", 2, "2 bytes follow the end of the last zstd member at byte "},
    };
    char reason[160];

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
        for (size_t step = 1; step < 5; step++) {
            struct outcome o = decode_followed(cases[i].pack, cases[i].tail, cases[i].size, step);
            assert_int_equal(o.sum.result, STREAM_FOLLOWED);
            assert_int_equal(o.sum.ignored, cases[i].size);
            snprintf(reason, sizeof(reason), "%s%zu", cases[i].reason, packed_size(cases[i].pack));
            assert_string_equal(o.sum.reason, reason);
            assert_int_equal(o.out_size, 9);
            free(o.out);
        }
}

/* As gzip(1) does, for blocks of tapes and archives; but no more than such a block. */
static void test_zero_padding_of_gzip(void **state)
{
    _cleanup_(freep) uint8_t *zeros = xcalloc(STREAM_PADDING_MAX + 1, 1);

    for (size_t n = 1; n <= STREAM_PADDING_MAX + 1; n = n < 4 ? n + 1 : n == 4 ? STREAM_PADDING_MAX : n + 1) {
        struct outcome o = decode_followed(pack_gzip, zeros, n, 1000);
        assert_int_equal(o.sum.result, n <= STREAM_PADDING_MAX ? STREAM_COMPLETE : STREAM_FOLLOWED);
        assert_int_equal(o.sum.ignored, n);
        assert_non_null(strstr(o.sum.reason, "zero bytes follow the end of the last gzip member at byte "));
        free(o.out);
    }
}

/* Every optional field of a gzip header, in pieces of every size and cut everywhere. */
static void test_header_fields(void **state)
{
    static const uint8_t header[] = "\x1f\x8b\x08\x1f\0\0\0\0\0\x03\x03\0abcname\0comment\0\x12\x34";
    const size_t header_size = sizeof(header) - 1;
    uint8_t data[256];
    size_t size;
    _cleanup_(freep) uint8_t *packed = pack_gzip("[1, 2]", 6, &size);

    memcpy(data, header, header_size);
    memcpy(data + header_size, packed + 10, size - 10);
    size += header_size - 10;
    for (size_t step = 1; step <= size; step++) {
        struct outcome o = decode(data, size, step, 64, STREAM_LIMITS_DEFAULT);
        assert_int_equal(o.sum.result, STREAM_COMPLETE);
        assert_int_equal(o.out_size, 6);
        free(o.out);
        o = decode(data, step, step, 64, STREAM_LIMITS_DEFAULT);
        assert_int_equal(o.sum.result, step == size ? STREAM_COMPLETE : STREAM_TRUNCATED);
        free(o.out);
    }
    data[3] = 0x20;
    struct outcome o = decode_whole(data, size);
    assert_int_equal(o.sum.result, STREAM_CORRUPT);
    assert_non_null(strstr(o.sum.reason, "reserved"));
    free(o.out);
}

static void test_skippable_frame(void **state)
{
    static const uint8_t skip[] = {0x53, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 'h', 'i'};
    uint8_t data[256];
    size_t size;
    _cleanup_(freep) uint8_t *frame = pack_zstd("text", 4, &size);

    memcpy(data, skip, sizeof(skip));
    memcpy(data + sizeof(skip), frame, size);
    struct outcome o = decode(data, sizeof(skip) + size, 1, 1, STREAM_LIMITS_DEFAULT);
    assert_int_equal(o.sum.result, STREAM_COMPLETE);
    assert_int_equal(o.out_size, 4);
    free(o.out);
}

static void test_plain(void **state)
{
    static const char *const texts[] = {"{}", "x", "\x28\xb5\x2fno", "{\"a\": 1}\n"};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct outcome o = decode((const uint8_t *)texts[i], strlen(texts[i]), 1, 3, STREAM_LIMITS_DEFAULT);
        assert_int_equal(o.sum.coding, STREAM_PLAIN);
        assert_int_equal(o.sum.result, STREAM_COMPLETE);
        assert_int_equal(o.out_size, strlen(texts[i]));
        assert_memory_equal(o.out, texts[i], o.out_size);
        free(o.out);
    }
    struct outcome nothing = decode_whole(NULL, 0);
    assert_int_equal(nothing.sum.result, STREAM_COMPLETE);
    assert_int_equal(nothing.out_size, 0);
    free(nothing.out);
}

static void test_limits(void **state)
{
    _cleanup_(freep) uint8_t *zeros = xcalloc(4 * TEXT_SIZE, 1);
    size_t size;
    _cleanup_(freep) uint8_t *packed = pack_gzip(zeros, 4 * TEXT_SIZE, &size);
    struct stream_limits ratio = {.out_max = 1 << 30, .ratio_max = 10, .ratio_floor = 50000};
    struct stream_limits total = {.out_max = 60000, .ratio_max = 100000, .ratio_floor = 0};

    assert_true(size < 4 * TEXT_SIZE / 20);
    struct outcome o = decode(packed, size, 100, 1000, ratio);
    assert_int_equal(o.sum.result, STREAM_OVER_LIMIT);
    assert_non_null(strstr(o.sum.reason, "unpacks to more than 10 times its size"));
    assert_true(o.out_size <= 60000);
    free(o.out);
    o = decode(packed, size, 100, 1000, total);
    assert_int_equal(o.sum.result, STREAM_OVER_LIMIT);
    assert_non_null(strstr(o.sum.reason, "size limit"));
    assert_true(o.out_size <= 61000);
    free(o.out);
    o = decode(packed, size, 100, 1000, STREAM_LIMITS_DEFAULT);
    assert_int_equal(o.sum.result, STREAM_COMPLETE);
    free(o.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gzip_in_any_pieces),
        cmocka_unit_test(test_zstd_in_any_pieces),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_checksum_and_length),
        cmocka_unit_test(test_bad_block),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_errors_are_within_the_file),
        cmocka_unit_test(test_what_follows_is_a_defect),
        cmocka_unit_test(test_zero_padding_of_gzip),
        cmocka_unit_test(test_header_fields),
        cmocka_unit_test(test_skippable_frame),
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
