/* SPDX-License-Identifier: Apache-2.0 */
/* Answers about traces that are written event by event, so that each is known. */
#include "tests/unit/cmocka-all.h"
#include "tests/unit/read-fixture.h"
#include "trace/columns/lane_view.h"
#include "trace/columns/writer.h"
#include "trace/view/view.h"

#include <errno.h>

/* A call and its kernel, two kernels at once, nested operators, one that never ends, a counter. Microseconds. */
static const char text[] =
    HEAD "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"outer\",\"pid\":1,\"tid\":2,\"ts\":100,\"dur\":100},"
         "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"inner\",\"pid\":1,\"tid\":2,\"ts\":110,\"dur\":30},"
         "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"inner\",\"pid\":1,\"tid\":2,\"ts\":150,\"dur\":20},"
         "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":2,\"ts\":"
         "155,\"dur\":5,"
         "\"args\":{\"correlation\":9}},"
         "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":170,\"dur\":20,"
         "\"args\":{\"device\":0,\"stream\":7,\"correlation\":9,\"grid\":[1,2,3],\"note\":\"x\"}},"
         "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"attention\",\"pid\":0,\"tid\":7,\"ts\":180,\"dur\":30,"
         "\"args\":{\"device\":0,\"stream\":7}},"
         "{\"ph\":\"B\",\"cat\":\"cpu_op\",\"name\":\"endless\",\"pid\":1,\"tid\":3,\"ts\":190},"
         "{\"ph\":\"C\",\"name\":\"queue\",\"pid\":1,\"ts\":120,\"args\":{\"depth\":4}},"
         "{\"ph\":\"C\",\"name\":\"queue\",\"pid\":1,\"ts\":160,\"args\":{\"depth\":1}}" TAIL;

struct opened {
    struct read_result read;
    struct trace_view *view;
};

static struct opened open_text(const char *trace)
{
    struct opened o = {.read = read_in(trace, strlen(trace), (struct read_options){0})};
    char *reason = NULL;

    assert_int_equal(o.read.result, 0);
    assert_int_equal(trace_view_open(o.read.columns_fd, dup(o.read.source_fd), &o.view, &reason), 0);
    return o;
}

static void close_text(struct opened *o)
{
    trace_view_free(o->view);
    read_result_free(&o->read);
}

static json_t *ask(const struct opened *o, const char *request)
{
    struct problem p = {0};
    struct view_answer a;
    char error[200];

    if (view_answer(o->view, request, strlen(request), &a, &p) < 0)
        fail_msg("%s: %s", request, p.what);
    assert_true(a.is_json);
    json_t *answer = json_parse(a.bytes, a.size, error);
    assert_non_null(answer);
    free(a.bytes);
    return answer;
}

static void refuse(const struct opened *o, const char *request, int expected, enum problem_kind kind)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct view_answer a;

    assert_int_equal(view_answer(o->view, request, strlen(request), &a, &p), expected);
    assert_int_equal(p.kind, kind);
    assert_null(a.bytes);
}

/* expected: JSON whose members the answer must have, in arrays as many. */
static void assert_has(const json_t *answer, const json_t *expected, const char *where)
{
    const char *name;
    json_t *member;
    size_t i;

    if (json_is_object(expected)) {
        json_object_foreach((json_t *)expected, name, member)
            assert_has(json_object_get(answer, name), member, name);
    } else if (json_is_array(expected)) {
        if (json_array_size(answer) != json_array_size(expected))
            fail_msg("%s has %zu items", where, json_array_size(answer));
        json_array_foreach(expected, i, member)
            assert_has(json_array_get(answer, i), member, where);
    } else if (!json_equal(answer, expected)) {
        char *found = answer ? json_dumps(answer, JSON_ENCODE_ANY) : NULL;
        fail_msg("%s is %s", where, found ? found : "missing");
    }
}

static void check(const struct opened *o, const char *request, const char *expected)
{
    _cleanup_json_ answer = ask(o, request), *wanted = NULL;
    char error[200];

    wanted = json_parse(expected, strlen(expected), error);
    assert_non_null(wanted);
    assert_has(answer, wanted, request);
}

static void test_timeline(void **state)
{
    struct opened o = open_text(text);

    check(&o, "{\"ask\":\"timeline\",\"trace\":\"t5\"}",
          "{\"trace\":\"t5\",\"length_ns\":110000,\"slices\":7,\"lanes\":6,\"name_block\":1024,\"tracks\":["
          "{\"kind\":\"gpu\",\"title\":\"GPU 0 stream "
          "7\",\"device\":0,\"stream\":7,\"lanes\":1,\"slices\":1,\"busy_ns\":20000},"
          "{\"kind\":\"gpu\",\"title\":\"GPU 0 stream 7 "
          "(overlapping)\",\"lanes\":1,\"slices\":1,\"busy_ns\":30000},"
          "{\"kind\":\"thread\",\"title\":\"thread 2\",\"lanes\":3,\"slices\":4,\"busy_ns\":100000},"
          "{\"kind\":\"thread\",\"title\":\"thread 3\",\"lanes\":1,\"slices\":1,\"busy_ns\":20000}],"
          "\"counters\":[{\"min\":1.0,\"max\":4.0,\"samples\":2}]}");
    close_text(&o);
}

static void test_slice(void **state)
{
    struct opened o = open_text(text);

    /* Slices in order of time: outer, inner, inner, call, gemm, attention, endless. */
    check(&o, "{\"ask\":\"slice\",\"slice\":4}",
          "{\"name\":\"gemm\",\"class\":\"gemm\",\"category\":\"kernel\",\"begin\":70000,\"dur\":20000,"
          "\"self\":20000,"
          "\"args\":{\"device\":0,\"stream\":7,\"correlation\":9,\"grid\":[1,2,3],\"note\":\"x\"},"
          "\"launch\":{\"slice\":3,\"delay_ns\":10000,\"parents\":[{\"slice\":2},{\"slice\":0}]},"
          "\"launched\":[],\"parents\":[],"
          "\"same\":{\"count\":1,\"rank\":0,\"sum\":20000}}");
    check(&o, "{\"ask\":\"slice\",\"slice\":3}",
          "{\"parents\":[{\"slice\":2},{\"slice\":0}],\"launched\":[{\"slice\":4}],\"depth\":2,\"class\":"
          "\"\"}");
    check(&o, "{\"ask\":\"slice\",\"slice\":2}",
          "{\"name\":\"inner\",\"self\":15000,\"gap_before_ns\":10000,\"before\":{\"slice\":1},"
          "\"same\":{\"count\":2,\"rank\":0,\"sum\":50000,\"min\":20000,\"max\":30000,\"previous\":{"
          "\"slice\":1}}}");
    check(&o, "{\"ask\":\"slice\",\"slice\":6}", "{\"dur\":-1,\"self\":20000}");
    /* By place: nothing at 45 us of the lane of inner, one within 5 us. */
    _cleanup_json_ inner = ask(&o, "{\"ask\":\"slice\",\"slice\":1}");
    int64_t lane = json_get_int(inner, "lane", -1);
    char request[128];
    snprintf(request, sizeof(request), "{\"ask\":\"slice\",\"lane\":%d,\"at\":44999}", (int)lane);
    refuse(&o, request, -ENOENT, PROBLEM_NOT_FOUND);
    snprintf(request, sizeof(request), "{\"ask\":\"slice\",\"lane\":%d,\"at\":44000,\"within\":5000}",
             (int)lane);
    check(&o, request, "{\"slice\":1}");
    snprintf(request, sizeof(request), "{\"ask\":\"slice\",\"lane\":%d,\"at\":39999}", (int)lane);
    check(&o, request, "{\"slice\":1}");
    close_text(&o);
}

static void test_search(void **state)
{
    struct opened o = open_text(text);

    check(&o, "{\"ask\":\"search\",\"name\":\"NN\"}",
          "{\"count\":2,\"sum\":50000,\"names\":[{\"name\":\"inner\",\"count\":2,\"sum\":50000}],"
          "\"matches\":[{\"slice\":1},{\"slice\":2}],\"more\":false}");
    check(&o, "{\"ask\":\"search\",\"name\":\"n\",\"limit\":2,\"after\":1}",
          "{\"count\":5,\"matches\":[{\"slice\":2},{\"slice\":3}],\"more\":true}");
    /* What begins in the part. */
    check(&o, "{\"ask\":\"search\",\"name\":\"inner\",\"from\":10001,\"to\":50001}",
          "{\"count\":1,\"sum\":20000,\"matches\":[{\"slice\":2}]}");
    check(&o, "{\"ask\":\"search\",\"name\":\"nothing\"}", "{\"count\":0,\"names\":[],\"matches\":[]}");
    refuse(&o, "{\"ask\":\"search\"}", -EINVAL, PROBLEM_BAD_REQUEST);
    close_text(&o);
}

static void test_selection(void **state)
{
    struct opened o = open_text(text);

    /* 20 us to 60 us after the first slice: of outer 40, of the first inner 20, of the second 10, of the call 5. */
    check(&o, "{\"ask\":\"selection\",\"from\":20000,\"to\":60000}",
          "{\"count\":4,\"busy\":40000,\"more\":false,\"rows\":["
          "{\"name\":\"outer\",\"count\":1,\"sum\":40000,\"self\":10000},"
          "{\"name\":\"inner\",\"count\":2,\"sum\":30000,\"mean\":15000,\"min\":10000,\"max\":20000,\"self\":"
          "25000},"
          "{\"name\":\"cudaLaunchKernel\",\"count\":1,\"sum\":5000,\"self\":5000}]}");
    check(&o, "{\"ask\":\"selection\",\"top\":1}",
          "{\"count\":7,\"busy\":110000,\"more\":true,\"rows\":[{\"name\":\"outer\"}]}");
    refuse(&o, "{\"ask\":\"selection\",\"from\":5,\"to\":5}", -EINVAL, PROBLEM_BAD_REQUEST);
    refuse(&o, "{\"ask\":\"selection\",\"first_lane\":0,\"last_lane\":6}", -ENOENT, PROBLEM_NOT_FOUND);
    close_text(&o);
}

static void test_tile(void **state)
{
    static const char request[] =
        "{\"ask\":\"tile\",\"level\":10,\"index\":0,\"first_lane\":0,\"last_lane\":0}";
    struct opened o = open_text(text);
    struct problem p = {0};
    struct view_answer a;
    struct {
        uint32_t lanes, runs, start[2], name;
        uint16_t x, width;
        uint8_t fill;
    } tile;

    /* The lane of outer: 100 us from the beginning on, which are 98 pixels of 1024 ns. */
    assert_int_equal(view_answer(o.view, request, strlen(request), &a, &p), 0);
    assert_false(a.is_json || a.is_gzip);
    assert_int_equal(a.size, 8 + 2 * 4 + 9);
    memcpy(&tile, a.bytes, a.size);
    assert_true(tile.lanes == 1 && tile.runs == 1 && tile.start[0] == 0 && tile.start[1] == 1);
    assert_true(tile.x == 0 && tile.width == 98 && tile.fill == 255);
    assert_true(text_is(columns_text(o.view->c, tile.name), "outer"));
    free(a.bytes);
    refuse(&o, "{\"ask\":\"tile\",\"level\":63,\"index\":0}", -EINVAL, PROBLEM_BAD_REQUEST);
    refuse(&o, "{\"ask\":\"tile\",\"level\":62,\"index\":1}", -EINVAL, PROBLEM_BAD_REQUEST);
    refuse(&o, "{\"ask\":\"tile\",\"level\":1}", -EINVAL, PROBLEM_BAD_REQUEST);
    refuse(&o, "{\"ask\":\"tile\",\"level\":1,\"index\":0,\"sum\":\"0\"}", -ESTALE, PROBLEM_CONFLICT);
    refuse(&o, "{\"ask\":\"tiles\"}", -EINVAL, PROBLEM_INTERNAL);
    refuse(&o, "no JSON", -EINVAL, PROBLEM_INTERNAL);
    close_text(&o);
}

static void check_tile(const struct opened *o, const char *more, const char *bytes, size_t size)
{
    _cleanup_(freep) char *request = xasprintf("{\"ask\":\"tile\",\"level\":10,\"index\":0%s}", more);
    struct problem p = {0};
    struct view_answer a;

    assert_int_equal(view_answer(o->view, request, strlen(request), &a, &p), 0);
    assert_int_equal(a.size, size);
    assert_memory_equal(a.bytes, bytes, size);
    free(a.bytes);
}

/* Tiles that are kept are those that were computed, and more of them than there is room for push out each other. */
static void test_kept_tiles(void **state)
{
    struct opened o = open_text(text), other = open_text(text);
    struct problem p = {0};
    struct view_answer a, b;

    for (int round = 0; round < 3; round++) {
        for (int index = 0; index < 400; index++) {
            _cleanup_(freep) char *request =
                xasprintf("{\"ask\":\"tile\",\"level\":%d,\"index\":%d,\"first_lane\":0,\"last_lane\":%d}",
                          index % 7, index / 7, index % 2);
            assert_int_equal(view_answer(o.view, request, strlen(request), &a, &p), 0);
            assert_int_equal(view_answer(o.view, request, strlen(request), &b, &p), 0);
            assert_int_equal(a.size, b.size);
            assert_memory_equal(a.bytes, b.bytes, a.size);
            free(b.bytes);
            if (index % 100 == 0) {
                assert_int_equal(view_answer(other.view, request, strlen(request), &b, &p), 0);
                assert_int_equal(a.size, b.size);
                assert_memory_equal(a.bytes, b.bytes, a.size);
                free(b.bytes);
            }
            free(a.bytes);
        }
    }
    static const char all[] = "{\"ask\":\"tile\",\"level\":10,\"index\":0}";
    static const char one[] = "{\"ask\":\"tile\",\"level\":10,\"index\":0,\"first_lane\":0,\"last_lane\":0}";
    assert_int_equal(view_answer(other.view, all, strlen(all), &a, &p), 0);
    assert_int_equal(view_answer(other.view, one, strlen(one), &b, &p), 0);
    assert_true(a.size > b.size);
    for (int round = 0; round < 2; round++) {
        check_tile(&o, "", a.bytes, a.size);
        check_tile(&o, ",\"first_lane\":0,\"last_lane\":0", b.bytes, b.size);
    }
    free(a.bytes);
    free(b.bytes);
    close_text(&o);
    close_text(&other);
}

static void test_empty_trace(void **state)
{
    struct opened o =
        open_text(HEAD "{\"ph\":\"C\",\"name\":\"queue\",\"pid\":1,\"ts\":120,\"args\":{\"depth\":4}}" TAIL);
    struct problem p = {0};
    struct view_answer a;

    check(&o, "{\"ask\":\"timeline\"}", "{\"slices\":0,\"lanes\":0,\"tracks\":[]}");
    check(&o, "{\"ask\":\"steps\"}", "{\"steps\":[]}");
    check(&o, "{\"ask\":\"selection\"}", "{\"count\":0,\"busy\":0,\"rows\":[]}");
    check(&o, "{\"ask\":\"search\",\"name\":\"a\"}", "{\"count\":0}");
    refuse(&o, "{\"ask\":\"slice\",\"slice\":0}", -ENOENT, PROBLEM_NOT_FOUND);
    refuse(&o, "{\"ask\":\"slice\",\"lane\":0,\"at\":0}", -ENOENT, PROBLEM_NOT_FOUND);
    static const char tile[] = "{\"ask\":\"tile\",\"level\":3,\"index\":0}";
    assert_int_equal(view_answer(o.view, tile, strlen(tile), &a, &p), 0);
    assert_int_equal(a.size, 12);
    free(a.bytes);
    close_text(&o);
}

/* The same columns without lanes, as an earlier program wrote them. */
static int without_lanes(const struct columns *c)
{
    static const enum column_table left_out[] = {TABLE_lane, TABLE_by_lane, TABLE_lanemip};
    _cleanup_(columns_writer_freep) struct columns_writer *w = NULL;
    int fd = memory_file("", 0);

    assert_int_equal(columns_writer_new(fd, &w), 0);
    for (uint32_t i = 0; i < columns_texts(c); i++)
        columns_put_text(w, columns_text(c, i).p, columns_text(c, i).size);
    for (enum column column = 0; column < _COLUMN_MAX; column++) {
        enum column_table table = column_specs[column].table;
        bool is_lane = table == left_out[0] || table == left_out[1] || table == left_out[2];
        for (uint64_t row = 0; !is_lane && table != TABLE_checkpoint && row < columns_rows(c, table); row++)
            columns_put(w, column, columns_get(c, column, row));
    }
    assert_int_equal(columns_writer_finish(w, false, NULL), 0);
    return fd;
}

/* Many slices of two threads, some nested, with gaps. The caller frees it. */
static char *many_slices(void)
{
    char *trace = NULL;
    size_t size;
    FILE *out = open_memstream(&trace, &size);

    fputs(HEAD EVENT, out);
    for (int i = 0; i < 6000; i++)
        fprintf(
            out,
            ",{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"n%d\",\"pid\":1,\"tid\":%d,\"ts\":%d,\"dur\":%d}",
            i % 7, i % 2, 10 + i / 6 * 20 + i % 6, i % 6 < 2 ? 18 - i % 6 : (i * 7919) % 3);
    fputs(TAIL, out);
    fclose(out);
    return trace;
}

static void test_lanes_made_in_memory(void **state)
{
    _cleanup_(freep) char *trace = many_slices();
    struct opened o = open_text(trace);
    _cleanup_(closep) int fd = without_lanes(o.view->c);
    _cleanup_(trace_view_freep) struct trace_view *made = NULL;
    const struct lane_table *a = &o.view->lanes, *b;
    struct lane_run runs[2][64];
    uint64_t compared = 0;

    assert_int_equal(trace_view_open(fd, -1, &made, NULL), 0);
    b = &made->lanes;
    assert_true(!a->made && b->made && a->n == b->n && a->n > 3);
    for (uint64_t lane = 0; lane < a->n; lane++) {
        struct lane_rows x = lane_table_rows(a, lane), y = lane_table_rows(b, lane);
        assert_true(x.track == y.track && x.depth == y.depth && x.end - x.first == y.end - y.first);
        for (int64_t step = 1000; step < 10000000; step *= 7) {
            struct lane_view view = {.from = o.view->first_ns + step * 3, .step = step, .pixels = 64};
            size_t n = lane_view_read(a, lane, &view, runs[0]);
            assert_int_equal(lane_view_read(b, lane, &view, runs[1]), n);
            for (size_t i = 0; i < n; i++, compared++) {
                const struct lane_run *p = &runs[0][i], *q = &runs[1][i];
                assert_true(p->x == q->x && p->width == q->width && p->busy == q->busy);
                assert_int_equal(lane_table_slice(a, p->at), lane_table_slice(b, q->at));
            }
            assert_int_equal(lane_busy(a, lane, view.from, view.from + 64 * step),
                             lane_busy(b, lane, view.from, view.from + 64 * step));
        }
    }
    assert_true(compared > 300);
    close_text(&o);
}

/* The busy part of a lane is what a walk through it finds. */
static void test_busy(void **state)
{
    _cleanup_(freep) char *trace = many_slices();
    struct opened o = open_text(trace);

    for (uint64_t lane = 0; lane < o.view->lanes.n; lane++) {
        struct lane_rows rows = lane_table_rows(&o.view->lanes, lane);
        for (int64_t part = 0; part < 40; part++) {
            int64_t from = o.view->first_ns + part * part * 12345, to = from + part * 100003 + 1,
                    expected = 0;
            for (uint64_t at = rows.first; at < rows.end; at++) {
                int64_t ts = lane_table_ts(&o.view->lanes, at), end = ts + lane_table_dur(&o.view->lanes, at);
                expected += MAX(MIN(end, to) - MAX(ts, from), 0);
            }
            assert_int_equal(lane_busy(&o.view->lanes, lane, from, to), expected);
        }
    }
    close_text(&o);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeline),    cmocka_unit_test(test_slice),
        cmocka_unit_test(test_search),      cmocka_unit_test(test_selection),
        cmocka_unit_test(test_tile),        cmocka_unit_test(test_kept_tiles),
        cmocka_unit_test(test_empty_trace), cmocka_unit_test(test_lanes_made_in_memory),
        cmocka_unit_test(test_busy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
