/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "trace/columns/block.h"
#include "trace/read/sorted_run.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#define SPOOL_ROOM (UINT64_C(64) << 20)

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 16 ^ *state << 32;
}

/* An event all of whose fields tell its number; every third has arguments in two groups. */
static void add_event(struct intake *in, int64_t ts, uint32_t number)
{
    struct event *e = intake_event(in);

    *e = (struct event){
        .ts = ts,
        .dur = (int64_t)number * 7 - 3,
        .offset = (uint64_t)number * 100,
        .name = number * 3,
        .thread = number % 17,
        .category = (uint16_t)(number % 5 == 0 ? CATEGORY_NONE : number % 11),
        .phase = (uint8_t)(number % _EVENT_PHASE_MAX),
        .flags = (uint8_t)(number % 2),
    };
    for (unsigned group = 0; number % 3 == 0 && group < ARG_GROUPS; group += 2) {
        int64_t *row = intake_args(in, group);

        assert_non_null(row);
        row[0] = number;
        row[arg_group_width[group] - 1] = group % 4 == 0 ? -(int64_t)number : 4;
    }
}

static void check_event(struct run_cursor *c, int64_t ts, uint32_t number)
{
    const struct event *e = run_cursor_event(c);

    assert_non_null(e);
    assert_int_equal(e->ts, ts);
    assert_int_equal(e->dur, (int64_t)number * 7 - 3);
    assert_int_equal(e->offset, (uint64_t)number * 100);
    assert_int_equal(e->name, number * 3);
    assert_int_equal(e->thread, number % 17);
    assert_int_equal(e->category, number % 5 == 0 ? CATEGORY_NONE : number % 11);
    assert_int_equal(e->phase, number % _EVENT_PHASE_MAX);
    assert_int_equal(e->flags & SLICE_HAS_ARGS, number % 2);
    for (unsigned group = 0; group < ARG_GROUPS; group++) {
        const struct packed_rows *rows;
        int64_t row[ARG_COLUMNS_MAX];
        size_t at;

        assert_int_equal((e->flags & EVENT_IN_GROUP(group)) != 0, number % 3 == 0 && group % 2 == 0);
        if (!(e->flags & EVENT_IN_GROUP(group)))
            continue;
        assert_int_equal(run_cursor_args(c, group, &rows, &at), 0);
        for (unsigned i = 0; i < arg_group_width[group]; i++)
            packed_rows_get(rows, i, at, 1, &row[i]);
        assert_int_equal(row[0], number);
        for (size_t i = 1; i + 1 < arg_group_width[group]; i++)
            assert_int_equal(row[i], COLUMN_NULL);
        assert_int_equal(row[arg_group_width[group] - 1], group % 4 == 0 ? -(int64_t)number : 4);
        run_cursor_args_next(c, group);
    }
}

struct expected {
    int64_t ts, rank;
    uint32_t number;
};

static int by_time(const void *pa, const void *pb)
{
    const struct expected *a = pa, *b = pb;

    if (a->ts != b->ts)
        return a->ts < b->ts ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* Complete events and ends come before others of their time; all of these have different durations. */
static int64_t rank_of(uint32_t number, uint32_t n)
{
    uint32_t phase = number % _EVENT_PHASE_MAX;

    if (phase == EVENT_END)
        return -1;
    return phase == EVENT_COMPLETE && number > 0 ? n - number : n;
}

/* Packs events with these times and reads them back, sorted. */
static void round_trip(const int64_t *times, uint32_t n, struct spill *spill)
{
    _cleanup_(intake_freep) struct intake *in = NULL;
    _cleanup_(run_freep) struct event_run *run = NULL;
    _cleanup_(run_cursor_freep) struct run_cursor *c = NULL;
    _cleanup_(freep) struct expected *expected = malloc((n + 1) * sizeof(*expected));

    assert_int_equal(intake_new(1 << 20, &in), 0);
    for (uint32_t i = 0; i < n; i++) {
        expected[i] = (struct expected){times[i], rank_of(i, n), i};
        add_event(in, times[i], i);
    }
    qsort(expected, n, sizeof(*expected), by_time);
    assert_int_equal(run_pack(in->batch, spill, &run), 0);
    batch_reset(in->batch);
    assert_int_equal(run_events(run), n);
    assert_int_equal(run_cursor_new(run, spill, &c), 0);
    for (uint32_t i = 0; i < n; i++) {
        check_event(c, expected[i].ts, expected[i].number);
        run_cursor_next(c);
    }
    assert_null(run_cursor_event(c));
    assert_int_equal(run_cursor_error(c), 0);
}

static void round_trip_of(int64_t (*time)(uint32_t i, uint64_t *random), uint32_t n)
{
    _cleanup_(spill_freep) struct spill *spill = NULL;
    _cleanup_(freep) int64_t *times = malloc((n + 1) * sizeof(*times));
    uint64_t random = 1;

    for (uint32_t i = 0; i < n; i++)
        times[i] = time(i, &random);
    assert_int_equal(spill_new(SPOOL_ROOM, -1, &spill), 0);
    round_trip(times, n, spill);
}

static int64_t rising(uint32_t i, uint64_t *random)
{
    return 1000 + (int64_t)i;
}

static int64_t falling(uint32_t i, uint64_t *random)
{
    return -(int64_t)i;
}

static int64_t often_equal(uint32_t i, uint64_t *random)
{
    return (int64_t)(next_random(random) % 100);
}

static int64_t anywhere(uint32_t i, uint64_t *random)
{
    return MAX((int64_t)next_random(random), INT64_MIN + 1);
}

static int64_t two_sequences(uint32_t i, uint64_t *random)
{
    return i % 2 == 0 ? (int64_t)i : INT64_C(1712195495505582988) + i;
}

static void test_sorts_by_time_and_then_by_rank(void **state)
{
    static const uint32_t counts[] = {0,    1,           2, BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1,
                                      5000, BATCH_EVENTS};

    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        round_trip_of(rising, counts[i]);
        round_trip_of(falling, counts[i]);
        round_trip_of(often_equal, counts[i]);
        round_trip_of(anywhere, counts[i]);
        round_trip_of(two_sequences, counts[i]);
    }
}

/* Without complete events, what begins and ends at one time does so in the order of the file. */
static void test_ties_without_complete_events_stay_in_order(void **state)
{
    _cleanup_(intake_freep) struct intake *in = NULL;
    _cleanup_(spill_freep) struct spill *spill = NULL;
    _cleanup_(run_freep) struct event_run *run = NULL;
    _cleanup_(run_cursor_freep) struct run_cursor *c = NULL;

    assert_int_equal(spill_new(SPOOL_ROOM, -1, &spill), 0);
    assert_int_equal(intake_new(1 << 20, &in), 0);
    for (uint64_t i = 0; i < 100; i++)
        *intake_event(in) =
            (struct event){.ts = 5, .offset = i, .phase = i % 2 == 0 ? EVENT_BEGIN : EVENT_END};
    assert_int_equal(run_pack(in->batch, spill, &run), 0);
    assert_int_equal(run_cursor_new(run, spill, &c), 0);
    for (uint64_t i = 0; i < 100; i++, run_cursor_next(c))
        assert_int_equal(run_cursor_event(c)->offset, i);
}

static void test_runs_share_a_spool(void **state)
{
    _cleanup_(spill_freep) struct spill *spill = NULL;
    _cleanup_(closep) int fd = memfd_create("spill", MFD_CLOEXEC);
    int64_t times[3000];
    uint64_t random = 7;

    /* most of it goes to the file */
    assert_int_equal(spill_new(1 << 20, fd, &spill), 0);
    for (int k = 0; k < 40; k++) {
        for (size_t i = 0; i < ARRAY_SIZE(times); i++)
            times[i] = anywhere(0, &random);
        round_trip(times, ARRAY_SIZE(times), spill);
    }
    assert_true(spill_memory(spill) <= 2 << 20);
}

static void test_spool_gives_back_what_it_took(void **state)
{
    _cleanup_(spill_freep) struct spill *spill = NULL;
    _cleanup_(closep) int fd = memfd_create("spill", MFD_CLOEXEC);
    static uint8_t piece[300001], back[300001];
    uint64_t offsets[20];

    assert_int_equal(spill_new(2 << 20, fd, &spill), 0);
    for (size_t k = 0; k < ARRAY_SIZE(offsets); k++) {
        memset(piece, (int)k + 1, sizeof(piece));
        assert_int_equal(spill_write(spill, piece, sizeof(piece) - k, &offsets[k]), 0);
        /* also the last one, which is still being collected */
        assert_int_equal(spill_read(spill, offsets[k], back, sizeof(piece) - k), 0);
        assert_memory_equal(back, piece, sizeof(piece) - k);
    }
    for (size_t k = ARRAY_SIZE(offsets); k-- > 0;) {
        memset(piece, (int)k + 1, sizeof(piece));
        assert_int_equal(spill_read(spill, offsets[k], back, sizeof(piece) - k), 0);
        assert_memory_equal(back, piece, sizeof(piece) - k);
    }
    assert_true(spill_read(spill, offsets[19] + sizeof(piece), back, 1) < 0);
}

static void test_spool_without_a_file_has_a_limit(void **state)
{
    _cleanup_(spill_freep) struct spill *spill = NULL;
    static uint8_t piece[1 << 20];
    uint64_t offset;

    assert_int_equal(spill_new(2 << 20, -1, &spill), 0);
    assert_int_equal(spill_write(spill, piece, sizeof(piece), &offset), 0);
    assert_int_equal(spill_write(spill, piece, sizeof(piece), &offset), 0);
    assert_int_equal(spill_write(spill, piece, 1, &offset), -ENOMEM);
    assert_int_equal(spill_write(spill, piece, 1, &offset), -ENOMEM);
    assert_int_equal(spill_memory(spill), 2 << 20);
}

static void test_a_file_that_is_full_is_an_error(void **state)
{
    _cleanup_(spill_freep) struct spill *spill = NULL;
    _cleanup_(closep) int fd = open("/dev/full", O_RDWR | O_CLOEXEC);
    static uint8_t piece[1 << 20];
    uint64_t offset;

    if (fd < 0)
        skip();
    assert_int_equal(spill_new(0, fd, &spill), 0);
    assert_int_equal(spill_write(spill, piece, sizeof(piece), &offset), -ENOSPC);
    assert_int_equal(spill_write(spill, piece, 1, &offset), -ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sorts_by_time_and_then_by_rank),
        cmocka_unit_test(test_ties_without_complete_events_stay_in_order),
        cmocka_unit_test(test_runs_share_a_spool),
        cmocka_unit_test(test_spool_gives_back_what_it_took),
        cmocka_unit_test(test_spool_without_a_file_has_a_limit),
        cmocka_unit_test(test_a_file_that_is_full_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
