/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "trace/columns/columns.h"
#include "trace/columns/layout.h"
#include "trace/columns/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Enough rows of slices that all kinds of blocks, chunks and pages are there. */
#define MANY_ROWS 1000000

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 16 ^ *state << 32;
}

static int new_file(void)
{
    int fd = memfd_create("columns", MFD_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static struct columns_writer *new_writer(int fd)
{
    struct columns_writer *w = NULL;

    assert_int_equal(columns_writer_new(fd, &w), 0);
    return w;
}

static struct columns *open_good(int fd)
{
    struct columns *c = NULL;
    char *reason = NULL;
    int r = columns_open(fd, &c, &reason);

    if (r < 0)
        fail_msg("%s", reason ? reason : "?");
    assert_null(reason);
    return c;
}

static int open_file(int fd, struct columns **ret)
{
    _cleanup_(freep) char *reason = NULL;
    int r = columns_open(fd, ret, &reason);

    /* Whatever is wrong with a file is said. */
    if (r == -EBADMSG || r == -EPROTONOSUPPORT)
        assert_non_null(reason);
    return r;
}

/* A file with one of everything, of a few hundred rows. */
static int write_small(uint64_t *ret_window)
{
    int fd = new_file();
    _cleanup_(columns_writer_freep) struct columns_writer *w = new_writer(fd);
    uint64_t size = 0;
    struct stat st;

    for (int64_t i = 0; i < 600; i++) {
        columns_put(w, COL_slice_ts, 1700000000000000000 + i * 10);
        columns_put(w, COL_slice_dur, i % 7 == 0 ? -1 : i * i * i);
        columns_put(w, COL_slice_name, i % 3);
        columns_put(w, COL_slice_category, i % 5 == 0 ? COLUMN_NULL : 3);
        columns_put(w, COL_slice_track, i % 2);
        columns_put(w, COL_slice_parent, i % 10 == 0 ? COLUMN_NULL : i - i % 10);
    }
    columns_put_text(w, "aten::mm", 8);
    columns_put_text(w, "", 0);
    columns_put_text(w, "with\0zero", 9);
    columns_put_text(w, "kernel", 6);
    columns_put(w, COL_track_kind, TRACK_THREAD);
    columns_put(w, COL_track_kind, TRACK_OVERFLOW);
    columns_put(w, COL_meta_key, META_rank);
    columns_put(w, COL_meta_value, 3);
    columns_put(w, COL_meta_key, META_backend);
    columns_put(w, COL_meta_value, 0);
    *ret_window = columns_put_bytes(w, "window", 6);
    assert_int_equal(columns_writer_finish(w, false, &size), 0);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, size);
    return fd;
}

/* What calls in the writer's thread put, in their order. */
struct caller {
    struct columns_writer *writer;
    int64_t n;
};

static void put_in_call(void *arg)
{
    struct caller *c = arg;

    for (int i = 0; i < 100; i++, c->n++)
        columns_put(c->writer, COL_counter_ts, c->n * c->n);
}

static int write_with_calls(void)
{
    int fd = new_file();
    _cleanup_(columns_writer_freep) struct columns_writer *w = new_writer(fd);
    struct caller caller = {.writer = w};
    size_t call = 0;

    for (int64_t i = 0; i < 400000; i++) {
        columns_put(w, COL_slice_ts, i * 3);
        if (i % 100 == 0)
            call = columns_call(w, put_in_call, &caller);
        if (i % 100000 == 0) {
            columns_wait_for(w, call);
            assert_int_equal(caller.n, i + 100);
        }
    }
    columns_wait_for(w, call);
    columns_write_early(w);
    assert_int_equal(columns_writer_finish(w, true, NULL), 0);
    return fd;
}

static void test_calls_in_the_writers_thread(void **state)
{
    _cleanup_(closep) int fd = write_with_calls(), again = write_with_calls();
    _cleanup_(columns_closep) struct columns *c = open_good(fd);
    size_t size = (size_t)columns_size(c);
    void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    void *q = mmap(NULL, size, PROT_READ, MAP_PRIVATE, again, 0);

    assert_int_equal(columns_rows(c, TABLE_slice), 400000);
    assert_int_equal(columns_rows(c, TABLE_counter), 400000);
    for (int64_t i = 0; i < 400000; i += 37) {
        assert_int_equal(columns_get(c, COL_slice_ts, (uint64_t)i), i * 3);
        assert_int_equal(columns_get(c, COL_counter_ts, (uint64_t)i), i * i);
    }
    /* The file does not depend on who was faster. */
    assert_memory_equal(p, q, size);
    munmap(p, size);
    munmap(q, size);
}

static void test_small_file(void **state)
{
    uint64_t window;
    _cleanup_(closep) int fd = write_small(&window);
    _cleanup_(columns_closep) struct columns *c = open_good(fd);
    struct text t = columns_text(c, 2);

    assert_int_equal(columns_rows(c, TABLE_slice), 600);
    assert_int_equal(columns_rows(c, TABLE_track), 2);
    assert_int_equal(columns_rows(c, TABLE_flow), 0);
    assert_int_equal(columns_get(c, COL_slice_ts, 599), 1700000000000005990);
    assert_int_equal(columns_get(c, COL_slice_dur, 599), 599 * 599 * 599);
    assert_int_equal(columns_get(c, COL_slice_dur, 7), -1);
    assert_int_equal(columns_get(c, COL_slice_parent, 599), 590);
    assert_true(columns_get(c, COL_slice_parent, 590) == COLUMN_NULL);
    assert_true(columns_get(c, COL_slice_ts, 600) == COLUMN_NULL);
    assert_true(columns_get(c, COL_slice_ts, UINT64_MAX) == COLUMN_NULL);
    /* Never put, of a table that has rows. */
    assert_true(columns_get(c, COL_track_name, 1) == COLUMN_NULL);

    assert_int_equal(columns_texts(c), 4);
    assert_int_equal(t.size, 9);
    assert_memory_equal(t.p, "with\0zero", 9);
    assert_int_equal(columns_text(c, 4).size, 0);
    assert_int_equal(columns_text(c, -1).size, 0);
    assert_int_equal(columns_text(c, COLUMN_NULL).size, 0);
    assert_int_equal(columns_find_text(c, "kernel", 6), 3);
    assert_int_equal(columns_find_text(c, "", 0), 1);
    assert_int_equal(columns_find_text(c, "with\0zero", 9), 2);
    assert_int_equal(columns_find_text(c, "with", 4), -1);

    assert_int_equal(columns_meta(c, META_rank), 3);
    assert_true(columns_meta(c, META_world_size) == COLUMN_NULL);
    t = columns_meta_text(c, META_backend);
    assert_int_equal(t.size, 8);
    assert_memory_equal(t.p, "aten::mm", 8);
    assert_int_equal(columns_meta_text(c, META_device_name).size, 0);

    assert_memory_equal(columns_bytes(c, window, 6), "window", 6);
    assert_null(columns_bytes(c, 0, 6));
    assert_null(columns_bytes(c, window, SIZE_MAX));
    assert_null(columns_bytes(c, UINT64_MAX, 6));
    assert_int_equal(columns_damage(c), -1);
}

static void test_references_are_checked(void **state)
{
    _cleanup_(closep) int fd = new_file();
    _cleanup_(columns_writer_freep) struct columns_writer *w = new_writer(fd);
    _cleanup_(columns_closep) struct columns *c = NULL;
    static const int64_t tracks[] = {0, 1, 2, -1, COLUMN_NULL, INT64_MAX};
    int64_t values[BLOCK_ROWS];

    for (size_t i = 0; i < ARRAY_SIZE(tracks); i++) {
        columns_put(w, COL_slice_track, tracks[i]);
        columns_put(w, COL_slice_name, tracks[i]);
        columns_put(w, COL_slice_parent, tracks[i]);
        columns_put(w, COL_slice_dur, tracks[i]);
    }
    columns_put(w, COL_track_kind, 0);
    columns_put(w, COL_track_kind, 0);
    assert_int_equal(columns_writer_finish(w, false, NULL), 0);
    c = open_good(fd);

    assert_int_equal(columns_block(c, COL_slice_track, 0, BLOCK_ROWS, values), ARRAY_SIZE(tracks));
    for (size_t i = 0; i < ARRAY_SIZE(tracks); i++) {
        bool there = tracks[i] == 0 || tracks[i] == 1;

        assert_true(values[i] == (there ? tracks[i] : COLUMN_NULL));
        assert_true(columns_get(c, COL_slice_track, i) == values[i]);
        /* There are six slices, no strings, and a duration may be anything. */
        assert_true(columns_get(c, COL_slice_parent, i) == (i < 3 ? tracks[i] : COLUMN_NULL));
        assert_true(columns_get(c, COL_slice_name, i) == COLUMN_NULL);
        assert_true(columns_get(c, COL_slice_dur, i) == tracks[i]);
    }
    assert_int_equal(columns_block(c, COL_slice_name, 0, BLOCK_ROWS, values), ARRAY_SIZE(tracks));
    assert_true(values[0] == COLUMN_NULL);
}

static void test_put_many(void **state)
{
    _cleanup_(closep) int fd = new_file();
    _cleanup_(columns_writer_freep) struct columns_writer *w = new_writer(fd);
    _cleanup_(columns_closep) struct columns *c = NULL;
    static const size_t pieces[] = {1, 255, 256, 3, 1000, 0, 509, 4096, 7};
    int64_t values[4096];
    size_t row = 0;

    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        for (size_t k = 0; k < pieces[i]; k++)
            values[k] = (int64_t)(row++ * 3);
        columns_put_many(w, COL_slice_ts, values, pieces[i]);
    }
    assert_int_equal(columns_writer_finish(w, false, NULL), 0);
    c = open_good(fd);
    assert_int_equal(columns_rows(c, TABLE_slice), row);
    while (row-- > 0)
        assert_int_equal(columns_get(c, COL_slice_ts, row), row * 3);
}

static void test_unequal_columns(void **state)
{
    _cleanup_(closep) int fd = new_file();
    _cleanup_(columns_writer_freep) struct columns_writer *w = new_writer(fd);

    columns_put(w, COL_slice_ts, 1);
    columns_put(w, COL_slice_ts, 2);
    columns_put(w, COL_slice_dur, 1);
    assert_int_equal(columns_writer_finish(w, false, NULL), -EINVAL);
}

static void test_empty_file(void **state)
{
    _cleanup_(closep) int fd = new_file();
    _cleanup_(columns_writer_freep) struct columns_writer *w = new_writer(fd);
    _cleanup_(columns_closep) struct columns *c = NULL;
    int64_t value;

    assert_int_equal(columns_writer_finish(w, true, NULL), 0);
    c = open_good(fd);
    assert_int_equal(columns_rows(c, TABLE_slice), 0);
    assert_int_equal(columns_block(c, COL_slice_ts, 0, 1, &value), 0);
    assert_int_equal(columns_lower_bound(c, COL_slice_ts, 5), 0);
    assert_int_equal(columns_find_text(c, "a", 1), -1);
}

static void test_write_error(void **state)
{
    _cleanup_(closep) int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    _cleanup_(columns_writer_freep) struct columns_writer *w = NULL;

    if (fd < 0)
        skip();
    w = new_writer(fd);
    for (int64_t i = 0; i < MANY_ROWS; i++)
        columns_put(w, COL_slice_ts, i * i * i);
    assert_int_equal(columns_writer_finish(w, false, NULL), -ENOSPC);
}

struct expected {
    int64_t ts, dur, place, text;
};

static int64_t any_width(uint64_t *random)
{
    uint64_t r = next_random(random);

    return r % 11 == 0 ? COLUMN_NULL : (int64_t)(next_random(random) >> (r >> 8 & 63));
}

/* The same sequence of rows whenever it is begun with the same seed. */
static struct expected next_row(uint64_t *random, int64_t *ts)
{
    /* Ties, steps, and now and then a leap that takes a wider block. */
    uint64_t r = next_random(random);
    struct expected e;

    *ts += r % 4 == 0 ? 0 : r % 10007 == 1 ? (int64_t)1 << (r >> 20) % 38 : (int64_t)(r >> 32) % 5000;
    e.ts = *ts;
    e.dur = any_width(random);
    e.place = (int64_t)next_random(random);
    e.text = (int64_t)(next_random(random) % 1000);
    return e;
}

static void write_many(int fd)
{
    _cleanup_(columns_writer_freep) struct columns_writer *w = new_writer(fd);
    uint64_t random = 42;
    int64_t ts = -12345, pair[2];

    for (size_t i = 0; i < MANY_ROWS; i++) {
        struct expected e = next_row(&random, &ts);

        columns_put(w, COL_slice_ts, e.ts);
        columns_put(w, COL_slice_dur, e.dur);
        columns_put_many(w, COL_slice_offset, &e.place, 1);
        columns_put(w, COL_slice_name, e.text);
        pair[i % 2] = (int64_t)i;
        if (i % 2)
            columns_put_many(w, COL_slice_depth, pair, 2);
        if (i % 1000 == 0) {
            char text[64];

            columns_put_text(w, text, (size_t)snprintf(text, sizeof(text), "string %zu", i / 1000));
        }
    }
    assert_int_equal(columns_writer_finish(w, false, NULL), 0);
}

static void check_range(const struct columns *c, enum column column, uint64_t row, int64_t value)
{
    int64_t min, max;

    if (value != COLUMN_NULL && columns_block_range(c, column, row, &min, &max))
        assert_true(min <= value && value <= max);
}

/* What all rows have in common takes hardly any bytes. */
static void test_equal_rows(void **state)
{
    _cleanup_(closep) int fd = new_file();
    _cleanup_(columns_writer_freep) struct columns_writer *w = new_writer(fd);
    _cleanup_(columns_closep) struct columns *c = NULL;
    uint64_t size;

    for (int i = 0; i < 100000; i++) {
        columns_put(w, COL_name_name, COLUMN_NULL);
        columns_put(w, COL_flow_out, COLUMN_NULL);
        columns_put(w, COL_flow_id, 7);
        columns_put(w, COL_slice_ts, i * INT64_C(10));
        columns_put(w, COL_slice_track, COLUMN_NULL);
    }
    assert_int_equal(columns_writer_finish(w, false, &size), 0);
    /* An entry in the directory for each block, and 16 bytes for those of steps; track and flow.out have no
     * values, so the file does not contain them. */
    assert_true(size < 100000 / BLOCK_ROWS * (3 * 16 + 16) + 1024);
    c = open_good(fd);
    assert_int_equal(columns_rows(c, TABLE_name), 100000);
    assert_int_equal(columns_rows(c, TABLE_flow), 100000);
    assert_int_equal(columns_get(c, COL_slice_ts, 99999), 999990);
    assert_int_equal(columns_get(c, COL_flow_id, 99999), 7);
    assert_true(columns_get(c, COL_name_name, 99999) == COLUMN_NULL);
    assert_true(columns_get(c, COL_slice_track, 5) == COLUMN_NULL &&
                columns_get(c, COL_flow_out, 5) == COLUMN_NULL);
}

static void test_many_rows(void **state)
{
    _cleanup_(closep) int fd = new_file();
    _cleanup_(columns_closep) struct columns *c = NULL;
    int64_t ts[BLOCK_ROWS], dur[BLOCK_ROWS], place[BLOCK_ROWS], name[BLOCK_ROWS], depth[BLOCK_ROWS],
        clock = -12345;
    uint64_t random = 42, row = 0;

    write_many(fd);
    c = open_good(fd);
    assert_int_equal(columns_rows(c, TABLE_slice), MANY_ROWS);
    for (uint64_t first = 0; first < MANY_ROWS; first += BLOCK_ROWS) {
        size_t n = columns_block(c, COL_slice_ts, first, BLOCK_ROWS, ts);

        assert_int_equal(n, MIN(BLOCK_ROWS, MANY_ROWS - first));
        assert_int_equal(columns_block(c, COL_slice_dur, first, BLOCK_ROWS, dur), n);
        assert_int_equal(columns_block(c, COL_slice_offset, first, BLOCK_ROWS, place), n);
        assert_int_equal(columns_block(c, COL_slice_name, first, BLOCK_ROWS, name), n);
        assert_int_equal(columns_block(c, COL_slice_depth, first, BLOCK_ROWS, depth), n);
        for (size_t i = 0; i < n; i++, row++) {
            struct expected e = next_row(&random, &clock);

            if (ts[i] != e.ts || dur[i] != e.dur || place[i] != e.place || name[i] != e.text ||
                depth[i] != (int64_t)row || columns_get(c, COL_slice_dur, row) != e.dur ||
                columns_get(c, COL_slice_offset, row) != e.place)
                fail_msg("row %ju differs", (uintmax_t)row);
            check_range(c, COL_slice_dur, row, e.dur);
            check_range(c, COL_slice_ts, row, e.ts);
        }
    }
    assert_int_equal(columns_texts(c), 1000);
    for (int64_t i = 0; i < 1000; i++) {
        char text[64];
        size_t size = (size_t)snprintf(text, sizeof(text), "string %jd", (intmax_t)i);

        assert_int_equal(columns_find_text(c, text, size), i);
        assert_int_equal(columns_text(c, i).size, size);
        assert_memory_equal(columns_text(c, i).p, text, size);
    }
    assert_int_equal(columns_damage(c), -1);
}

static void test_lower_bound(void **state)
{
    _cleanup_(closep) int fd = new_file();
    _cleanup_(columns_closep) struct columns *c = NULL;
    uint64_t rows;

    write_many(fd);
    c = open_good(fd);
    rows = columns_rows(c, TABLE_slice);
    assert_int_equal(columns_lower_bound(c, COL_slice_ts, INT64_MIN), 0);
    assert_int_equal(columns_lower_bound(c, COL_slice_ts, INT64_MAX), rows);
    for (uint64_t row = 1; row < rows; row += row < 2000 ? 1 : 997) {
        int64_t value = columns_get(c, COL_slice_ts, row);
        uint64_t found = columns_lower_bound(c, COL_slice_ts, value);

        assert_true(found <= row);
        assert_int_equal(columns_get(c, COL_slice_ts, found), value);
        assert_true(found == 0 || columns_get(c, COL_slice_ts, found - 1) < value);
        assert_true(columns_get(c, COL_slice_ts, columns_lower_bound(c, COL_slice_ts, value + 1)) != value);
    }
}

/* Rows of any range, as numbers of 64 and of 32 bits, are what is read one by one. */
static void test_ranges_of_rows(void **state)
{
    static const uint64_t firsts[] = {0, 1, 255, 256, 300, 511, 599, 600, UINT64_MAX};
    static const size_t counts[] = {0, 1, 2, 255, 256, 257, 600, 1000};
    static const enum column columns[] = {COL_slice_ts, COL_slice_name, COL_slice_category, COL_slice_parent,
                                          COL_slice_flags};
    uint64_t window;
    _cleanup_(closep) int fd = write_small(&window);
    _cleanup_(columns_closep) struct columns *c = open_good(fd);
    int64_t values[1000];
    uint32_t codes[1000];

    for (size_t k = 0; k < ARRAY_SIZE(columns) * ARRAY_SIZE(firsts) * ARRAY_SIZE(counts); k++) {
        enum column column = columns[k % ARRAY_SIZE(columns)];
        uint64_t first = firsts[k / ARRAY_SIZE(columns) % ARRAY_SIZE(firsts)];
        size_t n = counts[k / ARRAY_SIZE(columns) / ARRAY_SIZE(firsts)];
        size_t there = first < 600 ? MIN(n, 600 - first) : 0;

        assert_int_equal(columns_values(c, column, first, n, values), there);
        assert_int_equal(columns_codes(c, column, first, n, codes), there);
        for (size_t i = 0; i < there; i++) {
            int64_t value = columns_get(c, column, first + i);

            assert_true(values[i] == value);
            assert_true(codes[i] == (value >= 0 && value < UINT32_MAX ? value : COLUMN_NO_CODE));
        }
    }
}

static void test_zone_map(void **state)
{
    _cleanup_(closep) int fd = new_file();
    _cleanup_(columns_closep) struct columns *c = NULL;
    uint64_t middle = MANY_ROWS / 2, blocks = 0;
    int64_t ts;

    write_many(fd);
    c = open_good(fd);
    ts = columns_get(c, COL_slice_ts, middle);
    for (uint64_t row = 0; (row = columns_next_in_range(c, COL_slice_ts, row, MANY_ROWS, ts, ts)) < MANY_ROWS;
         blocks++)
        row += BLOCK_ROWS - row % BLOCK_ROWS;
    assert_true(blocks > 0 && blocks < MANY_ROWS / BLOCK_ROWS / 4);
    /* What is skipped has no such value. */
    for (uint64_t row = 0, next; row < MANY_ROWS; row = next + 1) {
        next = columns_next_in_range(c, COL_slice_dur, row, MANY_ROWS, INT64_MIN + 1, 1000);
        for (; row < next; row++)
            assert_true(columns_get(c, COL_slice_dur, row) == COLUMN_NULL ||
                        columns_get(c, COL_slice_dur, row) > 1000);
    }
    assert_int_equal(columns_next_in_range(c, COL_slice_ts, 5, MANY_ROWS, INT64_MIN, INT64_MAX), 5);
    assert_int_equal(columns_next_in_range(c, COL_slice_ts, 5, 3, INT64_MIN, INT64_MAX), 3);
    assert_int_equal(columns_next_in_range(c, COL_slice_ts, 5, MANY_ROWS, INT64_MIN + 1, -99999), MANY_ROWS);
}

/* Everything a reader can be asked, as one number. Each answer is checked for what holds of any file. */
static uint64_t digest(const struct columns *c)
{
    uint64_t hash = 1;

    for (enum column column = 0; column < _COLUMN_MAX; column++) {
        uint64_t rows = columns_rows(c, column_specs[column].table);
        int64_t values[BLOCK_ROWS];

        for (uint64_t first = 0; first < rows; first += BLOCK_ROWS) {
            size_t n = columns_block(c, column, first, BLOCK_ROWS, values);

            for (size_t i = 0; i < n; i++) {
                assert_true(columns_get(c, column, first + i) == values[i]);
                hash = (hash ^ (uint64_t)values[i]) * UINT64_C(1099511628211);
            }
        }
    }
    for (uint32_t i = 0; i < columns_texts(c); i++) {
        struct text t = columns_text(c, i);

        for (size_t k = 0; k < t.size; k++)
            hash = (hash ^ (uint8_t)t.p[k]) * UINT64_C(1099511628211);
    }
    for (enum meta_key key = 0; key < _META_MAX; key++)
        hash = (hash ^ (uint64_t)columns_meta(c, key)) * UINT64_C(1099511628211);
    return hash;
}

static void test_flipped_bytes(void **state)
{
    uint64_t window, good;
    _cleanup_(closep) int fd = write_small(&window);
    _cleanup_(columns_closep) struct columns *whole = open_good(fd);
    size_t size = columns_size(whole), refused = 0, damaged = 0;

    good = digest(whole);
    for (size_t at = 0; at < size; at++) {
        _cleanup_(columns_closep) struct columns *c = NULL;
        uint8_t byte, flipped;
        int r;

        assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
        flipped = byte ^ (uint8_t)(1 << at % 8);
        assert_int_equal(pwrite(fd, &flipped, 1, (off_t)at), 1);
        r = open_file(fd, &c);
        if (r < 0) {
            refused++;
        } else {
            uint64_t now = digest(c);

            if (columns_damage(c) >= 0)
                damaged++;
            else
                assert_int_equal(now, good);
        }
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
    }
    /* Nothing here is padding: not one flip may pass unseen. The file is a single page, so that even what is
     * not looked at is covered. */
    assert_int_equal(refused + damaged, size);
}

static void test_damaged_page(void **state)
{
    _cleanup_(closep) int fd = new_file();
    _cleanup_(columns_closep) struct columns *c = NULL;
    uint64_t random = 42, missing = 0;
    int64_t ts = -12345;

    write_many(fd);
    assert_int_equal(pwrite(fd, "damage", 6, 3 << 20), 6);
    c = open_good(fd);
    assert_int_equal(columns_damage(c), -1);
    for (uint64_t row = 0; row < MANY_ROWS; row++) {
        struct expected e = next_row(&random, &ts);
        int64_t place = columns_get(c, COL_slice_offset, row);

        /* Right or missing, but never wrong. */
        assert_true(place == e.place || place == COLUMN_NULL);
        missing += place == COLUMN_NULL;
        assert_true(columns_get(c, COL_slice_ts, row) == e.ts || columns_damage(c) >= 0);
    }
    assert_true(missing < MANY_ROWS / 50);
    assert_true(columns_damage(c) >= 0 && columns_damage(c) <= 3 << 20);
}

static void test_truncated(void **state)
{
    uint64_t window;
    _cleanup_(closep) int fd = write_small(&window);
    _cleanup_(columns_closep) struct columns *whole = open_good(fd);
    size_t size = columns_size(whole);

    while (size-- > 0) {
        struct columns *c = NULL;

        assert_int_equal(ftruncate(fd, (off_t)size), 0);
        assert_int_equal(open_file(fd, &c), -EBADMSG);
        assert_null(c);
    }
}

static void test_other_version(void **state)
{
    uint64_t window;
    _cleanup_(closep) int fd = write_small(&window);
    static const uint8_t other[2] = {2, 0};
    struct columns *c = NULL;

    /* Refused as another version whatever else is in the file. */
    assert_int_equal(pwrite(fd, other, sizeof(other), 14), 2);
    assert_int_equal(ftruncate(fd, 500), 0);
    assert_int_equal(open_file(fd, &c), -EPROTONOSUPPORT);
}

static uint32_t crc32c(const uint8_t *p, size_t size)
{
    uint32_t crc = UINT32_MAX;

    while (size--) {
        crc ^= *p++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

/* The frame as docs/columns.md describes it. */
static void test_frame(void **state)
{
    uint64_t window, sums_place;
    _cleanup_(closep) int fd = write_small(&window);
    uint8_t file[16384];
    uint32_t sum;
    ssize_t size = pread(fd, file, sizeof(file), 0);

    assert_true(size > 80 && size < (ssize_t)sizeof(file));
    assert_memory_equal(file, "PROFD COLUMNS\n\3\0", 16);
    assert_memory_equal(file + size - 8, "PROFDEND", 8);
    memcpy(&sums_place, file + size - 64 + 16, 8);
    assert_int_equal(sums_place, size - 64 - 4);
    memcpy(&sum, file + sums_place, 4);
    assert_int_equal(sum, crc32c(file, sums_place));
}

static void *find_all(void *arg)
{
    for (int64_t i = 0; i < 1000; i++) {
        char text[64];

        if (columns_find_text(arg, text, (size_t)snprintf(text, sizeof(text), "string %jd", (intmax_t)i)) !=
            i)
            return (void *)"wrong number";
    }
    return (void *)(digest(arg) == 0 ? "?" : NULL);
}

static void test_threads(void **state)
{
    _cleanup_(closep) int fd = new_file();
    _cleanup_(columns_closep) struct columns *c = NULL;
    pthread_t threads[4];

    write_many(fd);
    c = open_good(fd);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, find_all, c), 0);
    for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
        void *wrong;

        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
}

/* Makes the sums fit what the file holds, so that nothing but that can be found fault with. */
static void seal(uint8_t *file, size_t size)
{
    uint8_t *trailer = file + size - sizeof(struct layout_trailer);
    struct layout_trailer t;

    memcpy(&t, trailer, sizeof(t));
    uint32_t *sums = (uint32_t *)(file + t.sums);
    for (uint32_t i = 0; i < t.n_sums; i++)
        sums[i] = layout_sum(0, file + i * LAYOUT_PAGE, MIN(t.sums - i * LAYOUT_PAGE, LAYOUT_PAGE));
    t.sum = 0;
    t.sum =
        layout_sum(layout_sum(0, sums, t.n_sums * sizeof(*sums)), &t, offsetof(struct layout_trailer, magic));
    memcpy(trailer, &t, sizeof(t));
}

/* A string can only be as long as what is left beside the others: here each is said to be the whole file. */
static void test_strings_share_no_bytes(void **state)
{
    _cleanup_(closep) int fd = new_file();
    _cleanup_(columns_writer_freep) struct columns_writer *w = new_writer(fd);
    struct columns *c = NULL;
    bool tried = false;
    uint64_t size;

    for (int i = 0; i < 300; i++) {
        char text[64];

        columns_put_text(w, text, (size_t)snprintf(text, sizeof(text), "string %03d", i));
    }
    assert_int_equal(columns_writer_finish(w, false, &size), 0);
    uint8_t *file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(file != MAP_FAILED);
    struct layout_trailer t;
    memcpy(&t, file + size - sizeof(t), sizeof(t));
    const struct layout_column *columns = (const struct layout_column *)(file + t.columns);
    for (uint32_t i = 0; i < t.n_columns; i++) {
        struct layout_block *blocks = (struct layout_block *)(file + columns[i].blocks);

        if (!streq(columns[i].name, "text.size"))
            continue;
        seal(file, size);
        columns_close(open_good(fd));
        blocks[0].base = blocks[1].base = (int64_t)t.payload_end / 2;
        seal(file, size);
        assert_int_equal(open_file(fd, &c), -EBADMSG);
        assert_null(c);
        tried = true;
    }
    assert_true(tried);
    munmap(file, size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_file),
        cmocka_unit_test(test_calls_in_the_writers_thread),
        cmocka_unit_test(test_references_are_checked),
        cmocka_unit_test(test_put_many),
        cmocka_unit_test(test_unequal_columns),
        cmocka_unit_test(test_empty_file),
        cmocka_unit_test(test_write_error),
        cmocka_unit_test(test_equal_rows),
        cmocka_unit_test(test_strings_share_no_bytes),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_lower_bound),
        cmocka_unit_test(test_ranges_of_rows),
        cmocka_unit_test(test_zone_map),
        cmocka_unit_test(test_flipped_bytes),
        cmocka_unit_test(test_damaged_page),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_other_version),
        cmocka_unit_test(test_frame),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
