/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of which pages are fetched when they are needed: the same values, each page once, damage and threads. */
#include "base/fs.h"
#include "tests/unit/cmocka-all.h"
#include "trace/columns/columns.h"
#include "trace/columns/layout.h"
#include "trace/columns/writer.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define ROWS    400000
#define THREADS 4

struct remote {
    int source_fd, part_fd;
    uint64_t size;
    uint64_t bytes; /* that were fetched */
    unsigned calls;
    _Atomic unsigned inside; /* read() must not run twice at a time */
    uint64_t damage;         /* offset of a byte that arrives damaged; 0: none */
    uint64_t fail;           /* offset whose fetch fails; 0: none */
    uint8_t *pages;          /* how often each was fetched */
};

static int remote_read(void *arg, uint64_t offset, uint64_t size)
{
    struct remote *r = arg;
    _cleanup_(freep) uint8_t *data = malloc(size);

    assert_int_equal(atomic_fetch_add(&r->inside, 1), 0);
    assert_true(offset % LAYOUT_PAGE == 0 && offset + size <= r->size);
    assert_int_equal(pread_full(r->source_fd, data, size, offset), size);
    for (uint64_t page = offset / LAYOUT_PAGE; page * LAYOUT_PAGE < offset + size; page++)
        r->pages[page]++;
    r->bytes += size;
    r->calls++;
    bool fails = r->fail && r->fail >= offset && r->fail < offset + size;
    if (r->damage >= offset && r->damage < offset + size && r->damage)
        data[r->damage - offset] ^= 1;
    if (!fails)
        assert_int_equal(pwrite_full(r->part_fd, data, size, offset), 0);
    atomic_fetch_sub(&r->inside, 1);
    return fails ? -EIO : 0;
}

static int write_source(void)
{
    int fd = memfd_create("source", MFD_CLOEXEC);
    struct columns_writer *w = NULL;
    uint64_t state = 1;

    assert_int_equal(columns_writer_new(fd, &w), 0);
    for (int64_t i = 0; i < ROWS; i++) {
        state = state * UINT64_C(6364136223846793005) + 1;
        columns_put(w, COL_slice_ts, i * 10);
        columns_put(w, COL_slice_dur, (int64_t)(state >> 30));
        columns_put(w, COL_slice_name, i % 2);
    }
    columns_put_text(w, "aten::mm", 8);
    columns_put_text(w, "kernel", 6);
    columns_put(w, COL_meta_key, META_rank);
    columns_put(w, COL_meta_value, 3);
    assert_int_equal(columns_writer_finish(w, false, NULL), 0);
    columns_writer_free(w);
    return fd;
}

static int setup(void **state)
{
    struct remote *r = calloc(1, sizeof(*r));
    struct stat st;

    r->source_fd = write_source();
    r->part_fd = memfd_create("part", MFD_CLOEXEC);
    assert_int_equal(fstat(r->source_fd, &st), 0);
    r->size = (uint64_t)st.st_size;
    assert_true(r->size > 20 * LAYOUT_PAGE);
    r->pages = calloc(r->size / LAYOUT_PAGE + 1, 1);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct remote *r = *state;

    close(r->source_fd);
    close(r->part_fd);
    free(r->pages);
    free(r);
    return 0;
}

static int open_remote(struct remote *r, struct columns **ret)
{
    _cleanup_(freep) char *reason = NULL;
    int error =
        columns_open_partial(r->part_fd, r->size, &(struct columns_fetch){remote_read, r}, ret, &reason);

    if (error == -EBADMSG)
        assert_non_null(reason);
    return error;
}

static void forget(struct remote *r)
{
    memset(r->pages, 0, r->size / LAYOUT_PAGE + 1);
    r->bytes = r->calls = 0;
}

/* The number of values that differ from those of the source. */
static size_t count_differences(const struct remote *r, const struct columns *c)
{
    _cleanup_(columns_closep) struct columns *complete = NULL;
    int64_t expected[BLOCK_ROWS], got[BLOCK_ROWS];
    size_t n = 0;

    assert_int_equal(columns_open(r->source_fd, &complete, NULL), 0);
    for (uint64_t row = 0; row < ROWS; row += BLOCK_ROWS) {
        size_t some = columns_block(complete, COL_slice_dur, row, BLOCK_ROWS, expected);
        assert_int_equal(columns_block(c, COL_slice_dur, row, BLOCK_ROWS, got), some);
        for (size_t i = 0; i < some; i++)
            n += expected[i] != got[i];
    }
    return n;
}

static void test_pages_come_when_they_are_needed(void **state)
{
    struct remote *r = *state;
    _cleanup_(columns_closep) struct columns *c = NULL;

    assert_int_equal(open_remote(r, &c), 0);
    assert_int_equal(columns_rows(c, TABLE_slice), ROWS);
    assert_int_equal(columns_meta(c, META_rank), 3);
    assert_true(r->bytes < r->size / 2);
    assert_int_equal(columns_get(c, COL_slice_ts, 7), 70);
    assert_int_equal(columns_get(c, COL_slice_ts, ROWS - 1), (ROWS - 1) * 10);
    assert_true(r->bytes < r->size);
    assert_int_equal(count_differences(r, c), 0);
    assert_int_equal(columns_damage(c), -1);
    for (uint64_t page = 0; page <= r->size / LAYOUT_PAGE; page++)
        assert_true(r->pages[page] <= 1);
    /* Not page by page. */
    assert_true(r->calls < r->size / LAYOUT_PAGE / 2);
}

static void test_what_is_there_is_not_fetched_again(void **state)
{
    struct remote *r = *state;
    _cleanup_(columns_closep) struct columns *first = NULL, *second = NULL;

    assert_int_equal(open_remote(r, &first), 0);
    assert_int_equal(count_differences(r, first), 0);
    forget(r);
    assert_int_equal(open_remote(r, &second), 0);
    assert_int_equal(count_differences(r, second), 0);
    assert_int_equal(r->bytes, 0);
}

/* What an earlier process has left damaged is fetched again: each page, the page sums and the trailer among them. */
static void test_what_was_left_damaged_is_fetched_again(void **state)
{
    struct remote *r = *state;

    for (uint64_t page = 0; page <= r->size / LAYOUT_PAGE; page++) {
        _cleanup_(columns_closep) struct columns *first = NULL, *second = NULL;
        uint64_t offset = MIN(page * LAYOUT_PAGE + 5, r->size - 1);
        uint8_t byte;
        assert_int_equal(open_remote(r, &first), 0);
        assert_int_equal(count_differences(r, first), 0);
        assert_int_equal(pread(r->part_fd, &byte, 1, (off_t)offset), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(r->part_fd, &byte, 1, (off_t)offset), 1);
        forget(r);
        assert_int_equal(open_remote(r, &second), 0);
        assert_int_equal(count_differences(r, second), 0);
        assert_int_equal(columns_damage(second), -1);
        assert_int_equal(ftruncate(r->part_fd, 0), 0);
    }
}

/* No byte of the file arrives damaged unnoticed, and no page whose fetch fails reads as data. */
static void test_damage_is_noticed(void **state)
{
    struct remote *r = *state;

    for (uint64_t offset = 5; offset < r->size; offset += LAYOUT_PAGE / 2) {
        for (int fails = 0; fails < 2; fails++) {
            _cleanup_(columns_closep) struct columns *c = NULL;
            assert_int_equal(ftruncate(r->part_fd, 0), 0);
            r->damage = fails ? 0 : offset;
            r->fail = fails ? offset : 0;
            int error = open_remote(r, &c);
            if (error < 0) {
                assert_true(error == -EBADMSG || error == -EIO || error == -EPROTONOSUPPORT);
                continue;
            }
            size_t n = count_differences(r, c);
            for (uint64_t row = 0; row < ROWS; row += BLOCK_ROWS)
                columns_get(c, COL_slice_ts, row);
            assert_true(n == 0 || columns_damage(c) >= 0);
        }
    }
    r->damage = r->fail = 0;
}

static void test_a_file_of_another_size(void **state)
{
    struct remote *r = *state;
    struct columns *c = NULL;

    assert_int_equal(ftruncate(r->part_fd, (off_t)r->size + 1), 0);
    assert_int_equal(open_remote(r, &c), -ESTALE);
    assert_int_equal(ftruncate(r->part_fd, 100), 0);
    assert_int_equal(open_remote(r, &c), 0);
    columns_close(c);
    r->size = 20;
    assert_int_equal(ftruncate(r->part_fd, 0), 0);
    assert_int_equal(open_remote(r, &c), -EBADMSG);
}

struct reader {
    const struct remote *remote;
    const struct columns *columns;
    size_t differences;
};

static void *read_all(void *arg)
{
    struct reader *reader = arg;

    reader->differences = count_differences(reader->remote, reader->columns);
    return NULL;
}

static void test_threads(void **state)
{
    struct remote *r = *state;
    _cleanup_(columns_closep) struct columns *c = NULL;
    struct reader readers[THREADS];
    pthread_t threads[THREADS];

    assert_int_equal(open_remote(r, &c), 0);
    for (size_t i = 0; i < THREADS; i++) {
        readers[i] = (struct reader){r, c, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, &readers[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(readers[i].differences, 0);
    }
    for (uint64_t page = 0; page <= r->size / LAYOUT_PAGE; page++)
        assert_true(r->pages[page] <= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pages_come_when_they_are_needed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_there_is_not_fetched_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_was_left_damaged_is_fetched_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damage_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_file_of_another_size, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
