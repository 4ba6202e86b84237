/* SPDX-License-Identifier: Apache-2.0 */
/* Views of lanes of real traces, held against a scan of all slices. */
#include "tests/unit/cmocka-all.h"
#include "trace/columns/lane_view.h"
#include "trace/columns/writer.h"
#include "trace/read/reader.h"

#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>

#define PIXELS_MAX  1024
#define VIEWS       12
#define DESCRIPTORS 16

struct drawn {
    int64_t slice, dur, name, begun; /* slice: -1 for none; begun: what begins in the pixel lasts */
};

/* What a scan of all slices finds. */
struct scan {
    const struct columns *c;
    struct lane_table lanes_of;
    uint64_t n, n_lanes;
    uint32_t *lanes; /* of each slice */
    bool *overlaps;  /* of each lane */
    int64_t *until;  /* of each lane */
    struct drawn *drawn;
};

static uint64_t n_compared, n_drawn, n_overlapping;

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 20;
}

static int64_t get(const struct scan *s, enum column column, uint64_t row)
{
    return columns_get(s->c, column, row);
}

static int64_t shown_dur(const struct scan *s, uint64_t slice)
{
    int64_t dur = get(s, COL_slice_dur, slice);

    return dur < 0 ? columns_meta(s->c, META_last_ns) - get(s, COL_slice_ts, slice) : dur;
}

static uint32_t lane_of(const struct scan *s, int64_t track, int64_t depth)
{
    uint32_t lane = 0;

    while (get(s, COL_lane_track, lane) != track || get(s, COL_lane_depth, lane) != depth)
        assert_true(++lane < s->n_lanes);
    return lane;
}

static void scan_lanes(struct scan *s)
{
    for (uint64_t i = 0; i < s->n; i++) {
        int64_t ts = get(s, COL_slice_ts, i), track = get(s, COL_slice_track, i),
                depth = get(s, COL_slice_depth, i);
        uint32_t lane = lane_of(s, track, depth);

        s->lanes[i] = lane;
        s->overlaps[lane] |= ts < s->until[lane];
        s->until[lane] = MAX(s->until[lane], ts + shown_dur(s, i));
    }
}

static void draw(struct scan *s, const struct lane_view *v, uint64_t slice)
{
    int64_t ts = get(s, COL_slice_ts, slice) - v->from, dur = shown_dur(s, slice);
    int64_t first = ts < 0 ? -1 : ts / v->step, last = dur < v->step   ? first
                                                       : ts + dur <= 0 ? -1
                                                                       : (ts + dur - 1) / v->step;

    for (int64_t x = MAX(first, 0); x <= last && x < v->pixels; x++) {
        struct drawn *d = &s->drawn[s->lanes[slice] * PIXELS_MAX + (uint64_t)x];
        int64_t begun = d->begun + (x == first ? dur : 0);

        if (d->slice < 0 || dur > d->dur)
            *d = (struct drawn){(int64_t)slice, dur, get(s, COL_slice_name, slice), 0};
        d->begun = begun;
    }
}

static size_t runs_of(const struct drawn *drawn, const struct lane_view *v, struct lane_run *ret)
{
    const struct drawn *before = NULL;
    size_t n = 0;

    for (uint32_t x = 0; x < v->pixels; x++) {
        const struct drawn *d = &drawn[x];
        bool is_short = d->dur < v->step;
        int64_t busy = is_short ? MIN(d->begun, v->step) : v->step;

        if (d->slice < 0) {
            before = NULL;
            continue;
        }
        if (before &&
            (before->slice == d->slice || (is_short && before->dur < v->step && before->name == d->name))) {
            ret[n - 1].width++;
            ret[n - 1].busy += busy;
        } else {
            ret[n++] = (struct lane_run){x, 1, (uint64_t)d->slice, busy};
        }
        before = d;
    }
    return n;
}

static void compare_view(struct scan *s, const struct lane_view *v)
{
    struct lane_run runs[PIXELS_MAX], expected[PIXELS_MAX];

    for (uint64_t i = 0; i < s->n_lanes * PIXELS_MAX; i++)
        s->drawn[i] = (struct drawn){.slice = -1};
    for (uint64_t i = 0; i < s->n; i++)
        draw(s, v, i);
    for (uint64_t lane = 0; lane < s->n_lanes; lane++) {
        size_t n = lane_view_read(&s->lanes_of, lane, v, runs),
               wanted = runs_of(&s->drawn[lane * PIXELS_MAX], v, expected);

        for (size_t i = 1; i < n; i++)
            assert_true(runs[i].x >= runs[i - 1].x + runs[i - 1].width);
        assert_true(n == 0 || runs[n - 1].x + runs[n - 1].width <= v->pixels);
        if (s->overlaps[lane])
            continue;
        assert_int_equal(n, wanted);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(runs[i].x, expected[i].x);
            assert_int_equal(runs[i].width, expected[i].width);
            assert_int_equal(get(s, COL_by_lane_slice, runs[i].at), expected[i].at);
            assert_int_equal(runs[i].busy, expected[i].busy);
        }
        n_compared++;
        n_drawn += n;
    }
}

static void compare_trace(const struct columns *c)
{
    static const uint32_t pixels[] = {PIXELS_MAX, 1000, 100, 7, 1};
    struct scan s = {.c = c, .n = columns_rows(c, TABLE_slice), .n_lanes = columns_rows(c, TABLE_lane)};
    int64_t first = columns_meta(c, META_first_ns), last = columns_meta(c, META_last_ns);
    uint64_t random = 5;

    assert_int_equal(lane_table_open(c, &s.lanes_of), 0);
    s.lanes = calloc(s.n + 1, sizeof(*s.lanes));
    s.overlaps = calloc(s.n_lanes + 1, sizeof(*s.overlaps));
    s.until = calloc(s.n_lanes + 1, sizeof(*s.until));
    s.drawn = calloc(s.n_lanes * PIXELS_MAX + 1, sizeof(*s.drawn));
    assert_true(s.lanes && s.overlaps && s.until && s.drawn);
    for (uint64_t i = 0; i < s.n_lanes; i++)
        s.until[i] = INT64_MIN;
    scan_lanes(&s);
    for (uint64_t i = 0; i < s.n_lanes; i++)
        n_overlapping += s.overlaps[i];
    for (int i = 0; s.n > 0 && i < VIEWS; i++) {
        int64_t span = MAX((last - first) >> (i * 2), 1), slack = MAX(last - first - span, 1);
        int64_t from = first + (int64_t)(next_random(&random) % (uint64_t)slack) - (i == 1 ? span / 2 : 0);
        struct lane_view v =
            lane_view_of(i == 0 ? first : from, i == 0 ? last + 1 : from + span, pixels[i % 5]);

        compare_view(&s, &v);
    }
    lane_table_done(&s.lanes_of);
    free(s.lanes);
    free(s.overlaps);
    free(s.until);
    free(s.drawn);
}

static int compare_file(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    struct read_options options = {.spill_fd = -1};
    _cleanup_(closep) int fd = memfd_create("columns", MFD_CLOEXEC),
                          source = open(path, O_RDONLY | O_CLOEXEC);
    _cleanup_(columns_closep) struct columns *c = NULL;
    struct read_summary sum;

    if (kind != FTW_F || !strstr(path, ".json"))
        return 0;
    assert_true(fd >= 0 && source >= 0);
    options.source_fd = source;
    options.columns_fd = fd;
    if (trace_read(&options, &sum) < 0 || columns_open(fd, &c, NULL) < 0)
        return 0;
    compare_trace(c);
    return 0;
}

static void test_views_of_real_traces(void **state)
{
    assert_int_equal(nftw(TRACES_DIR, compare_file, DESCRIPTORS, FTW_PHYS), 0);
    assert_true(n_compared > 500 && n_drawn > 5000);
    print_message("%ju lanes compared, %ju runs; %ju lanes have slices that overlap\n", (uintmax_t)n_compared,
                  (uintmax_t)n_drawn, (uintmax_t)n_overlapping);
}

/* One lane, put together by hand: ts and dur of each slice, in microseconds that are pixels. */
static void test_the_rule(void **state)
{
    static const struct {
        int64_t ts, dur, name;
    } slices[] = {{-5000, 6500, 0}, {1500, 100, 1}, {1700, 200, 2},  {2000, 0, 2},  {3000, 0, 1},
                  {3100, 0, 2},     {5000, 300, 1}, {5900, 2000, 2}, {7950, 10, 1}, {9000, -1, 0}};
    static const struct lane_run expected[] = {
        {0, 2, 0, 2000}, {2, 1, 3, 0}, {3, 1, 4, 0}, {5, 3, 7, 3000}, {9, 3, 9, 3000}};
    const struct lane_view v = lane_view_of(0, 12000, 12);
    _cleanup_(closep) int fd = memfd_create("columns", MFD_CLOEXEC);
    _cleanup_(columns_writer_freep) struct columns_writer *w = NULL;
    _cleanup_(columns_closep) struct columns *c = NULL;
    struct lane_table lanes;
    struct lane_run runs[12];

    assert_int_equal(columns_writer_new(fd, &w), 0);
    for (size_t i = 0; i < ARRAY_SIZE(slices); i++) {
        columns_put(w, COL_slice_name, slices[i].name);
        columns_put(w, COL_by_lane_slice, (int64_t)i);
        columns_put(w, COL_by_lane_ts, slices[i].ts);
        columns_put(w, COL_by_lane_dur, slices[i].dur);
    }
    for (int i = 0; i < 3; i++)
        columns_put_text(w, &"abc"[i], 1);
    columns_put(w, COL_lane_first, 0);
    columns_put(w, COL_lane_count, ARRAY_SIZE(slices));
    columns_put(w, COL_meta_key, META_last_ns);
    columns_put(w, COL_meta_value, 20000);
    assert_int_equal(columns_writer_finish(w, false, NULL), 0);
    assert_int_equal(columns_open(fd, &c, NULL), 0);

    assert_int_equal(v.step, 1000);
    assert_int_equal(lane_table_open(c, &lanes), 0);
    assert_int_equal(lane_view_read(&lanes, 0, &v, runs), ARRAY_SIZE(expected));
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        assert_int_equal(runs[i].x, expected[i].x);
        assert_int_equal(runs[i].width, expected[i].width);
        assert_int_equal(runs[i].at, expected[i].at);
        assert_int_equal(runs[i].busy, expected[i].busy);
    }
    assert_int_equal(lane_view_read(&lanes, 1, &v, runs), 0);
    lane_table_done(&lanes);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_rule),
                                              cmocka_unit_test(test_views_of_real_traces)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
