/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "tests/unit/pack.h"
#include "trace/columns/writer.h"
#include "trace/read/decompress.h"
#include "trace/read/event_text.h"
#include "trace/read/scan.h"
#include <sys/mman.h>

#define TEXT_SIZE   ((size_t)14 << 20)
#define PART_SIZE   ((size_t)6 << 20)
#define EVENTS_MAX  200000
#define PACKED_ROOM (TEXT_SIZE + (1 << 20))

/* A text of objects, what it is packed to, and the checkpoints that were made while it was unpacked. */
struct fixture {
    char *text;
    uint64_t places[EVENTS_MAX];
    size_t n;
    uint8_t *packed;
    size_t packed_size;
    struct checkpoint_list list;
};

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static void make_text(struct fixture *f)
{
    uint32_t state = 7;

    f->text = xcalloc(TEXT_SIZE + 512, 1);
    for (size_t size = 0; size < TEXT_SIZE; f->n++) {
        uint32_t r = next_random(&state);
        f->places[f->n] = size;
        size +=
            (size_t)sprintf(f->text + size,
                            "{\"ph\": \"X\", \"name\": \"a \\\" } \\\\ %x\", \"args\": {\"a\": [%u, {}]}, "
                            "\"pad\": \"%.*s\"},\n",
                            r, r, (int)(r % 40), "0123456789012345678901234567890123456789");
    }
    /* A sentinel: the last object may reach behind TEXT_SIZE. */
    f->n--;
}

/* As gzip does, in blocks with codes of their own. */
static size_t pack_blocks(const char *data, size_t size, uint8_t *out, size_t capacity)
{
    _cleanup_(freep) uint8_t *level_buffer = xcalloc(ISAL_DEF_LVL1_DEFAULT, 1);
    struct isal_zstream z;

    isal_deflate_init(&z);
    z.gzip_flag = IGZIP_GZIP;
    z.level = 1;
    z.level_buf = level_buffer;
    z.level_buf_size = ISAL_DEF_LVL1_DEFAULT;
    z.end_of_stream = 1;
    z.next_in = (uint8_t *)data;
    z.avail_in = (uint32_t)size;
    z.next_out = out;
    z.avail_out = (uint32_t)capacity;
    assert_int_equal(isal_deflate(&z), COMP_OK);
    assert_int_equal(z.avail_in, 0);
    return z.total_out;
}

static size_t pack_frame(const char *data, size_t size, uint8_t *out, size_t capacity)
{
    size_t n = ZSTD_compress(out, capacity, data, size, 1);
    assert_false(ZSTD_isError(n));
    return n;
}

typedef size_t packer(const char *data, size_t size, uint8_t *out, size_t capacity);

/* In several members or frames where part_size is less than the text's. */
static void pack_text(struct fixture *f, packer *pack, size_t part_size)
{
    f->packed = xcalloc(PACKED_ROOM, 1);
    for (size_t at = 0; at < TEXT_SIZE; at += part_size)
        f->packed_size += pack(f->text + at, MIN(part_size, TEXT_SIZE - at), f->packed + f->packed_size,
                               PACKED_ROOM - f->packed_size);
}

/* Decodes from a byte of the file on, and compares with the text from `out` on. */
static void decode_and_compare(const struct fixture *f, struct stream *s, size_t in_at, size_t out,
                               size_t in_step, size_t capacity)
{
    _cleanup_(freep) uint8_t *piece = xcalloc(capacity, 1);

    for (; in_at < f->packed_size; in_at += in_step) {
        struct stream_io io = {.in = f->packed + in_at, .in_size = MIN(in_step, f->packed_size - in_at)};
        do {
            io.out = piece;
            io.out_size = capacity;
            stream_decode(s, &io);
            size_t n = capacity - io.out_size;
            assert_true(out + n <= TEXT_SIZE);
            assert_memory_equal(piece, f->text + out, n);
            out += n;
        } while (io.in_size > 0 || io.out_size == 0);
    }
    assert_int_equal(out, TEXT_SIZE);
}

static void make_checkpoints(struct fixture *f, size_t in_step, size_t capacity)
{
    _cleanup_(stream_freep) struct stream *s = NULL;
    struct stream_summary sum;

    assert_int_equal(stream_new(STREAM_LIMITS_DEFAULT, &s), 0);
    stream_keep_checkpoints(s, &f->list);
    decode_and_compare(f, s, 0, 0, in_step, capacity);
    stream_finish(s, &sum);
    assert_int_equal(sum.result, STREAM_COMPLETE);
    for (size_t i = 0; i < f->list.n; i++)
        assert_true(f->list.items[i].out >= (i ? f->list.items[i - 1].out : 0) + CHECKPOINT_SPACING);
}

static void done(struct fixture *f)
{
    free(f->text);
    free(f->packed);
    checkpoint_list_done(&f->list);
    free(f);
}

static struct fixture *fixture(packer *pack, size_t part_size, size_t in_step, size_t capacity)
{
    struct fixture *f = xcalloc(1, sizeof(*f));

    make_text(f);
    pack_text(f, pack, part_size);
    make_checkpoints(f, in_step, capacity);
    return f;
}

/* Everything behind a checkpoint can be had from it. */
static void check_resuming(const struct fixture *f, enum stream_coding coding, bool windows)
{
    uint8_t window[CHECKPOINT_WINDOW];

    for (size_t i = 0; i < f->list.n; i++) {
        const struct checkpoint *c = &f->list.items[i];
        _cleanup_(stream_freep) struct stream *s = NULL;
        struct stream_summary sum;

        assert_int_equal(c->window != NULL, windows);
        if (windows) {
            assert_int_equal(checkpoint_unpack(c->window, c->window_size, window), 0);
            assert_memory_equal(window, f->text + c->out - CHECKPOINT_WINDOW, CHECKPOINT_WINDOW);
        }
        assert_int_equal(stream_new(STREAM_LIMITS_DEFAULT, &s), 0);
        stream_resume(s, coding, c->in_bit, windows ? window : NULL);
        decode_and_compare(f, s, c->in_bit / 8, c->out, 5000, 100000);
        stream_finish(s, &sum);
        assert_int_equal(sum.result, STREAM_COMPLETE);
    }
}

static void test_within_a_gzip_member(void **state)
{
    static const struct {
        size_t in_step, capacity;
    } cases[] = {{1 << 20, 1 << 20}, {70000, 1 << 20}, {1 << 20, 100001}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct fixture *f = fixture(pack_blocks, TEXT_SIZE, cases[i].in_step, cases[i].capacity);
        assert_in_range(f->list.n, 2, 3);
        check_resuming(f, STREAM_GZIP, true);
        done(f);
    }
}

static void test_starts_of_members_and_frames(void **state)
{
    struct fixture *f = fixture(pack_frame, PART_SIZE, 1 << 20, 1 << 20);
    assert_int_equal(f->list.n, 2);
    assert_int_equal(f->list.items[0].out, PART_SIZE);
    assert_int_equal(f->list.items[1].out, 2 * PART_SIZE);
    check_resuming(f, STREAM_ZSTD, false);
    done(f);

    /* A call gives less than a window, so that there is none to be kept. */
    f = fixture(pack_blocks, PART_SIZE, 1 << 20, 20000);
    assert_int_equal(f->list.n, 2);
    check_resuming(f, STREAM_GZIP, false);
    done(f);
}

static void test_distance_doubles(void **state)
{
    struct checkpoint_list list = {0};
    uint64_t out = 0;

    for (size_t i = 0; i < CHECKPOINTS_MAX; i++) {
        out += CHECKPOINT_SPACING;
        assert_true(checkpoint_due(&list, out));
        checkpoint_add(&list, 0, out, NULL);
        assert_false(checkpoint_due(&list, out + CHECKPOINT_SPACING - 1));
    }
    assert_int_equal(list.n, CHECKPOINTS_MAX);
    out += CHECKPOINT_SPACING;
    checkpoint_add(&list, 0, out, NULL);
    assert_int_equal(list.n, CHECKPOINTS_MAX / 2 + 1);
    assert_int_equal(list.items[0].out, 2 * (uint64_t)CHECKPOINT_SPACING);
    assert_false(checkpoint_due(&list, out + CHECKPOINT_SPACING));
    assert_true(checkpoint_due(&list, out + 2 * (uint64_t)CHECKPOINT_SPACING));
    checkpoint_list_done(&list);
}

static void test_bad_window(void **state)
{
    uint8_t window[CHECKPOINT_WINDOW] = {0}, packed[256];
    size_t size = ZSTD_compress(packed, sizeof(packed), window, sizeof(window) - 1, 1);

    assert_int_equal(checkpoint_unpack(packed, size, window), -EBADMSG);
    assert_int_equal(checkpoint_unpack(packed, size / 2, window), -EBADMSG);
    assert_int_equal(checkpoint_unpack(packed, 0, window), -EBADMSG);
    size = ZSTD_compress(packed, sizeof(packed), window, sizeof(window), 1);
    assert_int_equal(checkpoint_unpack(packed, size, window), 0);
}

static int file_of(const void *data, size_t size)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), (ssize_t)size);
    return fd;
}

/* Columns with nothing in them but what leads to a text. */
static struct columns *columns_of(const struct fixture *f, const char *coding)
{
    _cleanup_(columns_writer_freep) struct columns_writer *w = NULL;
    _cleanup_(closep) int fd = memfd_create("columns", MFD_CLOEXEC);
    struct columns *c = NULL;
    char *reason = NULL;
    uint64_t size;

    assert_int_equal(columns_writer_new(fd, &w), 0);
    columns_put_text(w, "", 0);
    columns_put_text(w, coding, strlen(coding));
    columns_put(w, COL_meta_key, META_coding);
    columns_put(w, COL_meta_value, 1);
    columns_put(w, COL_meta_key, META_source_bytes);
    columns_put(w, COL_meta_value, (int64_t)f->packed_size);
    for (size_t i = 0; i < f->list.n; i++) {
        const struct checkpoint *p = &f->list.items[i];
        columns_put(w, COL_checkpoint_in_bit, (int64_t)p->in_bit);
        columns_put(w, COL_checkpoint_out, (int64_t)p->out);
        uint64_t place = p->window ? columns_put_bytes(w, p->window, p->window_size) : 0;
        columns_put(w, COL_checkpoint_window, (int64_t)place);
        columns_put(w, COL_checkpoint_window_size, (int64_t)p->window_size);
    }
    assert_int_equal(columns_writer_finish(w, false, &size), 0);
    assert_int_equal(columns_open(fd, &c, &reason), 0);
    free(reason);
    return c;
}

static void assert_event(struct event_source *s, const struct fixture *f, size_t i)
{
    size_t size = f->places[i + 1] - f->places[i] - strlen(",\n");
    struct text text;

    assert_int_equal(event_source_text(s, f->places[i], &text), 0);
    assert_int_equal(text.size, size);
    assert_memory_equal(text.p, f->text + f->places[i], size);
}

static void check_events(const struct fixture *f, const char *coding)
{
    _cleanup_(closep) int fd = file_of(f->packed, f->packed_size);
    _cleanup_(columns_closep) struct columns *c = columns_of(f, coding);
    _cleanup_(event_source_freep) struct event_source *s = NULL;
    uint32_t state = 1;

    assert_int_equal(event_source_new(fd, c, &s), 0);
    for (size_t k = 0; k < 40; k++)
        assert_event(s, f, next_random(&state) % (f->n - 1));
    for (size_t i = 0; i + 1 < f->n; i += 1 + next_random(&state) % 100)
        assert_event(s, f, i);
    assert_event(s, f, 0);
}

static void test_events_of_gzip(void **state)
{
    struct fixture *f = fixture(pack_blocks, TEXT_SIZE, 1 << 20, 1 << 20);

    check_events(f, "gzip");
    done(f);
    f = fixture(pack_blocks, PART_SIZE, 1 << 20, 1 << 20);
    check_events(f, "gzip");
    done(f);
}

static void test_events_of_zstd(void **state)
{
    struct fixture *f = fixture(pack_frame, PART_SIZE, 1 << 20, 1 << 20);

    check_events(f, "zstd");
    checkpoint_list_done(&f->list);
    check_events(f, "zstd");
    done(f);
}

static size_t copy_text(const char *data, size_t size, uint8_t *out, size_t capacity)
{
    assert_true(size <= capacity);
    memcpy(out, data, size);
    return size;
}

static void test_events_of_plain_text(void **state)
{
    struct fixture *f = fixture(copy_text, TEXT_SIZE, 1 << 20, 1 << 20);

    assert_int_equal(f->list.n, 0);
    check_events(f, "plain");
    done(f);
}

/* What leads nowhere, or astray, costs time and nothing else. */
static void test_wrong_checkpoints(void **state)
{
    struct fixture *f = fixture(pack_blocks, TEXT_SIZE, 1 << 20, 1 << 20);
    struct checkpoint *p = f->list.items, saved = p[0];

    assert_true(f->list.n >= 2);
    p[0].in_bit = 8 * f->packed_size + 5;
    check_events(f, "gzip");
    p[0].in_bit = saved.in_bit + 1;
    check_events(f, "gzip");
    p[0] = saved;
    p[0].out += 2;
    check_events(f, "gzip");
    p[0] = saved;
    p[0].window_size /= 2;
    check_events(f, "gzip");
    p[0] = saved;
    done(f);
}

static void test_another_file(void **state)
{
    struct fixture *f = fixture(pack_blocks, TEXT_SIZE, 1 << 20, 1 << 20);
    _cleanup_(columns_closep) struct columns *c = columns_of(f, "gzip");
    _cleanup_(closep) int larger = file_of(f->packed, f->packed_size);
    _cleanup_(closep) int other = file_of(f->text, f->packed_size);
    struct event_source *s = NULL;
    struct text text;

    assert_int_equal(write(larger, "", 1), 1);
    assert_int_equal(event_source_new(larger, c, &s), -ESTALE);
    assert_int_equal(event_source_new(other, c, &s), 0);
    assert_int_equal(event_source_text(s, f->places[1] + 1, &text), -ESTALE);
    assert_int_equal(event_source_text(s, TEXT_SIZE, &text), -EIO);
    event_source_free(s);
    done(f);
}

static void test_object_without_end(void **state)
{
    struct fixture f = {.packed_size = SCAN_ITEM_MAX + (1 << 20)};
    _cleanup_(freep) uint8_t *text = xcalloc(f.packed_size, 1);
    memset(text, ' ', f.packed_size);
    text[3] = '{';
    _cleanup_(closep) int fd = file_of(text, f.packed_size);
    _cleanup_(columns_closep) struct columns *c = columns_of(&f, "plain");
    _cleanup_(event_source_freep) struct event_source *s = NULL;
    struct text event;

    assert_int_equal(event_source_new(fd, c, &s), 0);
    assert_int_equal(event_source_text(s, 3, &event), -EFBIG);
    assert_int_equal(event_source_text(s, 4, &event), -ESTALE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_within_a_gzip_member), cmocka_unit_test(test_starts_of_members_and_frames),
        cmocka_unit_test(test_distance_doubles),     cmocka_unit_test(test_bad_window),
        cmocka_unit_test(test_events_of_gzip),       cmocka_unit_test(test_events_of_zstd),
        cmocka_unit_test(test_events_of_plain_text), cmocka_unit_test(test_wrong_checkpoints),
        cmocka_unit_test(test_another_file),         cmocka_unit_test(test_object_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
