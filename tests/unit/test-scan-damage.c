/* SPDX-License-Identifier: Apache-2.0 */
/* What is around the events, and what is wrong with them; the same however the text comes. */
#include "tests/unit/scan-fixture.h"

#define EVENT(name)                                                                                          \
    "{\"ph\": \"X\", \"cat\": \"c\", \"name\": \"" name "\", \"pid\": 1, \"tid\": 1, \"ts\": 1, \"dur\": 1}"

/* Every damage at once, events of all dialects between. */
static const char everything[] =
    "\xEF\xBB\xBF\n{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"GPU \\\"X\\\"\", "
    "\"numSms\": 132}, "
    "{\"id\": 1}],\n\"unknown\": {\"a\": [1, \"]}\", {\"traceEvents\": [1]}], \"b\": \"\\\\\"}, \"text\": "
    "\"a\\\"}b\", "
    "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 5, \"world_size\": 16, \"pg_config\": "
    "[{\"rank\": 9}]},\n"
    "\"traceEvents\": [\n" EVENT("first") ", , " EVENT("no comma") EVENT(
        "second") ",\n"
                  "{\"ph\": \"X\", \"name\": \"broken\" \"no comma\": 1},\n" EVENT(
                      "third") ",\n"
                               "{\"ph\": \"X\", \"name\": \"a \"quoted\" word {\", \"ts\": 1, \"dur\": "
                               "1},\n" EVENT(
                                   "fourth") ",\n"
                                             "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"args\": {\"Input "
                                             "Dims\": [[[1, 2]}, \"ts\": 1, \"dur\": 1},\n" EVENT(
                                                 "fifth") ",\n"
                                                          "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": "
                                                          "\"esc\\\"aped \\u00e9 \xC3\xA9 \xFF\", \"ts\": "
                                                          "1.5, \"dur\": 1e1, \"args\": "
                                                          "{\"Input Dims\": [[1, 2], [\"[\\\\\", \"]\"]], "
                                                          "\"Input type\": [\"\xFF\"], \"x\": {\"y\": "
                                                          "[\"}\\\"\"]}}},\n"
                                                          "{\"ph\": \"C\", \"name\": \"mem\", \"pid\": 1, "
                                                          "\"ts\": 3, \"args\": {\"a\": 1, \"b\": \"2.5\"}}, "
                                                          "garbage, }\n" EVENT(
                                                              "sixth") ",\n"
                                                                       "{\"ph\": \"M\", \"name\": "
                                                                       "\"thread_name\", \"pid\": 1, "
                                                                       "\"tid\": 1, \"args\": {\"name\": "
                                                                       "\"main\"}},\n"
                                                                       "{\"ph\": \"s\", \"id\": 7, \"pid\": "
                                                                       "1, \"tid\": 1, \"ts\": 5, \"cat\": "
                                                                       "\"ac2g\", \"name\": \"ac2g\"},\n"
                                                                       "{\"ph\": \"f\", \"id\": 7, \"pid\": "
                                                                       "0, \"tid\": \"stream 7\", \"ts\": "
                                                                       "5.25, \"cat\": \"ac2g\", \"name\": "
                                                                       "\"ac2g\", \"bp\": \"e\"},\n"
                                                                       "{\"ph\": \"X\", \"name\": \"last, "
                                                                       "and broken\": 5}\n],\n\"traceName\": "
                                                                       "\"/tmp/a.json\", \"vllm_version\": "
                                                                       "\"0.11.0\", "
                                                                       "\"displayTimeUnit\": \"ms\", "
                                                                       "\"baseTimeNanoseconds\": "
                                                                       "1735632360000000000,}\n trailing";

static void test_everything(void **state)
{
    _cleanup_scanned_ struct scanned s = scan_text(everything);
    static const char *const names[] = {"first", "no comma", "second", "third", "fourth", "fifth"};
    const int64_t *meta = s.in->meta;

    assert_int_equal(s.state, SCAN_AFTER);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        assert_string_equal(fixture_text(s.in, s.in->batch->events[i].name), names[i]);
    fixture_find(s.in, "sixth");
    fixture_find(s.in, "esc\"aped \xC3\xA9 \xC3\xA9 \xEF\xBF\xBD");
    assert_int_equal(s.in->batch->n, 12);
    assert_int_equal(s.in->defects.count[DEFECT_unreadable_event], 5);
    assert_int_equal(s.in->defects.first[DEFECT_unreadable_event],
                     strstr(everything, "{\"ph\": \"X\", \"name\": \"broken\"") - everything);
    assert_int_equal(s.in->defects.count[DEFECT_bad_utf8], 1);
    assert_int_equal(s.in->defects.count[DEFECT_truncated], 0);
    assert_int_equal(s.in->defects.count[DEFECT_bytes_behind_end], 1);
    assert_int_equal(s.in->defects.first[DEFECT_bytes_behind_end], strlen(everything) - strlen("trailing"));
    assert_int_equal(meta[META_rank], 5);
    assert_int_equal(meta[META_world_size], 16);
    assert_int_equal(meta[META_devices], 2);
    assert_int_equal(meta[META_sm_count], 132);
    assert_int_equal(meta[META_base_time_ns], 1735632360000000000);
    assert_string_equal(fixture_text(s.in, (uint32_t)meta[META_backend]), "nccl");
    assert_string_equal(fixture_text(s.in, (uint32_t)meta[META_device_name]), "GPU \"X\"");
    assert_string_equal(fixture_text(s.in, (uint32_t)meta[META_display_unit]), "ms");
    assert_string_equal(fixture_text(s.in, (uint32_t)meta[META_trace_name]), "/tmp/a.json");
    assert_string_equal(fixture_text(s.in, (uint32_t)meta[META_engine_version]), "0.11.0");
    assert_string_equal(fixture_text(s.in, s.in->threads[0].name), "main");
}

static void test_any_pieces_and_processors(void **state)
{
    size_t size = strlen(everything);
    _cleanup_scanned_ struct scanned whole = scan_in_pieces(everything, size, SCAN_SIMD_PLAIN, size, false);

    for (size_t i = 0; i < ARRAY_SIZE(all_simds); i++) {
        if (!has_simd(all_simds[i]))
            continue;
        for (size_t more = 1; more <= size; more += more < 300 ? 1 : 97) {
            _cleanup_scanned_ struct scanned s = scan_in_pieces(everything, size, all_simds[i], more, false);
            if (s.digest != whole.digest || s.state != whole.state || s.events != whole.events)
                fail_msg("processor %d, pieces of %zu", (int)all_simds[i], more);
        }
    }
}

/* Wherever the text ends: nothing but what was whole, and "truncated", once. */
static void test_any_end(void **state)
{
    static const char text[] = "{\"x\": [1], \"traceEvents\": [" EVENT("a") ", " EVENT("b\\\"}") ", " EVENT(
        "c") "], \"y\": \"z\"}\n";
    const char *events[] = {strstr(text, ", {"), strstr(strstr(text, ", {") + 1, ", {"),
                            strstr(text, "], \"y\"")};
    const char *close = strrchr(text, '}');

    for (size_t size = 1; size <= strlen(text); size++) {
        _cleanup_scanned_ struct scanned s = scan_in_pieces(text, size, SCAN_SIMD_BEST, size, true);
        size_t whole = 0;
        for (size_t i = 0; i < ARRAY_SIZE(events); i++)
            whole += text + size >= events[i];
        assert_int_equal(s.in->batch->n, whole);
        assert_int_equal(s.in->defects.count[DEFECT_truncated], text + size <= close);
        assert_int_equal(s.in->defects.count[DEFECT_unreadable_event], 0);
        if (text + size <= close && whole > 0 && whole < 3)
            assert_in_range(s.in->defects.first[DEFECT_truncated], events[whole - 1] - text, size);
    }
}

static void test_what_is_no_trace(void **state)
{
    static const struct {
        const char *text;
        enum scan_state state;
        uint64_t truncated;
    } cases[] = {
        {"", SCAN_BEFORE, 0},
        {" \n\t ", SCAN_BEFORE, 0},
        {"hello", SCAN_NOT_EVENTS, 0},
        {"[[1, 2], [3]]", SCAN_NOT_EVENTS, 0},
        {"[1, {\"ph\": \"X\"}]", SCAN_NOT_EVENTS, 0},
        {"\"text\"", SCAN_NOT_EVENTS, 0},
        {"{}", SCAN_NOT_EVENTS, 0},
        {"{\"rocprofiler-sdk-tool\": [{\"traceEvents\": []}]} ", SCAN_NOT_EVENTS, 0},
        {"{\"traceEvents\": null}", SCAN_NOT_EVENTS, 0},
        {"[]", SCAN_AFTER, 0},
        {"{\"traceEvents\": []}", SCAN_AFTER, 0},
        {"{\"traceEvents\": [\n]", SCAN_OUTSIDE, 1},
        {"[", SCAN_EVENTS, 1},
        {"{\"a", SCAN_OUTSIDE, 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        for (size_t more = 1; more < 9; more++) {
            _cleanup_scanned_ struct scanned s =
                scan_in_pieces(cases[i].text, strlen(cases[i].text), SCAN_SIMD_BEST, more, true);
            assert_int_equal(s.state, cases[i].state);
            assert_int_equal(s.in->batch->n, 0);
            assert_int_equal(s.in->defects.count[DEFECT_truncated], cases[i].truncated);
        }
    }
}

static void test_bare_array(void **state)
{
    _cleanup_scanned_ struct scanned s = scan_text(" [" EVENT("a") ",\n" EVENT("b") ",\n]\n");

    assert_int_equal(s.state, SCAN_AFTER);
    assert_int_equal(s.in->batch->n, 2);
    for (int i = 0; i < _DEFECT_MAX; i++)
        assert_int_equal(s.in->defects.count[i], 0);
}

static char *repeat(char *at, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at = stpcpy(at, text);
    return at;
}

static void test_depth(void **state)
{
    static const struct {
        size_t depth;
        const char *open, *close;
        bool too_deep;
    } cases[] = {
        {SCAN_DEPTH_MAX, "[", "]", false},
        {SCAN_DEPTH_MAX + 1, "[", "]", true},
        {SCAN_DEPTH_MAX, "{\"k\":", "}", false},
        {SCAN_DEPTH_MAX + 1, "{\"k\":", "}", true},
        {100000, "[", "]", true},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(freep) char *text = malloc(cases[i].depth * 8 + 1024);
        assert_non_null(text);
        char *at = stpcpy(
            text,
            "{\"traceEvents\": [{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"deep\", \"ts\": 1, \"dur\": "
            "1, \"args\": {\"Input Dims\": ");
        at = repeat(at, cases[i].open, cases[i].depth);
        at = repeat(at, "1", 1);
        at = repeat(at, cases[i].close, cases[i].depth);
        stpcpy(at, ", \"Ev Idx\": 4}}, " EVENT("next") "]}");
        for (size_t k = 0; k < ARRAY_SIZE(all_simds); k++) {
            if (!has_simd(all_simds[k]))
                continue;
            _cleanup_scanned_ struct scanned s =
                scan_in_pieces(text, strlen(text), all_simds[k], SIZE_MAX / 2, true);
            assert_int_equal(s.in->batch->n, 2);
            assert_int_equal(s.in->defects.count[DEFECT_too_deep], cases[i].too_deep);
            assert_int_equal(fixture_arg(s.in, fixture_find(s.in, "deep"), COL_op_ev_idx), 4);
            assert_int_equal(fixture_arg(s.in, fixture_find(s.in, "deep"), COL_op_dims) == COLUMN_NULL,
                             cases[i].too_deep);
        }
    }
}

/* An event and a member that nobody could hold: they are skipped over all pieces, and counted. */
static void test_too_large(void **state)
{
    enum { SIZE = SCAN_ITEM_MAX + (1 << 20), PIECE = 1 << 20 };
    _cleanup_(freep) char *text = malloc(2 * (size_t)SIZE + 4096);

    assert_non_null(text);
    char *at = stpcpy(text, "{\"deviceProperties\": [\"");
    memset(at, '[', SIZE);
    at = stpcpy(at + SIZE, "\"], \"traceEvents\": [" EVENT("a") ", {\"ph\": \"X\", \"name\": \"");
    memset(at, '{', SIZE);
    at = stpcpy(at + SIZE, "\", \"ts\": 1, \"dur\": 1}, " EVENT("b") "]}");

    _cleanup_(intake_freep) struct intake *in = fixture_new();
    _cleanup_(scan_freep) struct scanner *s = NULL;
    _cleanup_(freep) char *piece = calloc(SCAN_ITEM_MAX + SCAN_PAD, 1);
    size_t size = (size_t)(at - text), used = 0, end = 0, kept = 0;
    assert_non_null(piece);
    assert_int_equal(scan_new(in, SCAN_SIMD_BEST, &s), 0);
    while (used < size) {
        size_t more = MIN(MIN((size_t)PIECE, SCAN_ITEM_MAX - kept), size - end);
        memcpy(piece + kept, text + end, more);
        end += more;
        kept += more;
        size_t n = scan_some(s, piece, kept, used, end == size);
        assert_true(n > 0 || kept < SCAN_ITEM_MAX);
        used += n;
        kept -= n;
        memmove(piece, piece + n, kept);
    }
    assert_int_equal(scan_state(s), SCAN_AFTER);
    assert_int_equal(in->batch->n, 2);
    assert_string_equal(fixture_text(in, in->batch->events[1].name), "b");
    assert_int_equal(in->defects.count[DEFECT_too_large_event], 2);
    assert_int_equal(in->defects.count[DEFECT_unreadable_event], 0);
    assert_int_equal(in->meta[META_device_properties], COLUMN_NULL);
}

static void test_guess(void **state)
{
    static const char text[] = ": {\"ph\": 1}, \"args\": {\"a\": [1, {\"b\": 2}]}},\n  " EVENT("x");

    assert_int_equal(scan_guess_event(text, strlen(text)), strstr(text, EVENT("x")) - text);
    assert_int_equal(scan_guess_event(text, 30), 30);
    assert_int_equal(scan_guess_event(text, 0), 0);

    _cleanup_(intake_freep) struct intake *in = fixture_new();
    _cleanup_(scan_freep) struct scanner *s = NULL;
    char rest[256] = EVENT("x") ", " EVENT("y") ",\n  ";
    assert_int_equal(scan_new(in, SCAN_SIMD_BEST, &s), 0);
    scan_begin(s, SCAN_IN_EVENTS);
    assert_int_equal(scan_some(s, rest, strlen(rest), 1000, false), strlen(rest));
    assert_int_equal(in->batch->n, 2);
    assert_int_equal(in->batch->events[0].offset, 1000);
    assert_int_equal(scan_state(s), SCAN_EVENTS);
}

static void test_limit_of_strings(void **state)
{
    _cleanup_(intake_freep) struct intake *in = NULL;
    _cleanup_(scan_freep) struct scanner *s = NULL;
    _cleanup_(freep) char *text = malloc(1 << 20);

    assert_non_null(text);
    assert_int_equal(intake_new(128 << 10, &in), 0);
    assert_int_equal(scan_new(in, SCAN_SIMD_BEST, &s), 0);
    char *at = stpcpy(text, "[");
    for (int i = 0; i < 8000; i++)
        at += sprintf(at, "{\"ph\": \"X\", \"name\": \"name number %d\", \"ts\": 1, \"dur\": 1},", i);
    size_t size = (size_t)(at - text);
    assert_int_equal(scan_some(s, text, size, 0, true), size);
    assert_int_equal(in->error, -ENOMEM);
}

#define COMPLETE "\"ph\": \"X\", \"ts\": 1, \"dur\": 1, "

/* Each twice: what is remembered of the first must not hide the second. */
static void test_flaws_around_values(void **state)
{
    static const struct {
        const char *event;
        enum defect_kind defect;
    } cases[] = {
        {"{" COMPLETE "\"na\xFFme\": 1}", DEFECT_bad_utf8},
        {"{" COMPLETE "\"na\\me\": 1}", DEFECT_bad_escape},
        {"{" COMPLETE "\"cat\": \"kernel\", \"args\": {\"str\001eam\": 1}}", DEFECT_control_char},
        {"{" COMPLETE "\"args\": [\"a\"}}", DEFECT_unreadable_event},
        {"{" COMPLETE "\"args\": {\"a\": [1}}}", DEFECT_unreadable_event},
        {"{\"ph\": \"i\", \"ts\": 1, \"s\": \"q\"}", DEFECT_unreadable_event},
        {"{\"ph\": \"b\", \"ts\": 1, \"id\": \"\xFF\"}", DEFECT_bad_utf8},
        {"{\"ph\": \"f\", \"ts\": 1, \"id\": 1, \"bp\": \"\xFF\"}", DEFECT_bad_utf8},
        {"{\"ph\": \"C\", \"ts\": 1, \"args\": {}}", DEFECT_bad_number},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[1024];
        snprintf(text, sizeof(text),
                 "{\"traceEvents\": [%s, %s, {" COMPLETE "\"name\": \"whole\"}], \"a\": 0}", cases[i].event,
                 cases[i].event);
        _cleanup_scanned_ struct scanned s = scan_text(text);
        assert_int_equal(s.state, SCAN_AFTER);
        assert_int_equal(s.in->defects.count[cases[i].defect], 2);
    }
}

static void test_flaws_around_the_events(void **state)
{
    static const struct {
        const char *member;
        enum defect_kind defect;
    } cases[] = {
        {"\"trace\xFFName\": 1", DEFECT_bad_utf8},
        {"\"traceName\": \"\x01\"", DEFECT_control_char},
        {"\"displayTimeUnit\": mss", DEFECT_bad_number},
        {"\"baseTimeNanoseconds\": 17x", DEFECT_bad_number},
        {"\"distributedInfo\": {\"rank\": 1-}", DEFECT_bad_number},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[256];
        snprintf(text, sizeof(text), "{%s, \"traceEvents\": []}", cases[i].member);
        _cleanup_scanned_ struct scanned s = scan_text(text);
        assert_int_equal(s.state, SCAN_AFTER);
        assert_int_equal(s.in->defects.count[cases[i].defect], 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything),
        cmocka_unit_test(test_any_pieces_and_processors),
        cmocka_unit_test(test_any_end),
        cmocka_unit_test(test_what_is_no_trace),
        cmocka_unit_test(test_bare_array),
        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_guess),
        cmocka_unit_test(test_limit_of_strings),
        cmocka_unit_test(test_flaws_around_values),
        cmocka_unit_test(test_flaws_around_the_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
