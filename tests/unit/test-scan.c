/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/scan-fixture.h"

#define NONE COLUMN_NULL

static const struct event *event_at(const struct scanned *s, size_t i)
{
    assert_in_range(i, 0, s->in->batch->n - 1);
    return &s->in->batch->events[i];
}

static void assert_defects(const struct scanned *s, enum defect_kind kind, uint64_t count)
{
    for (int i = 0; i < _DEFECT_MAX; i++) {
        if (s->in->defects.count[i] != (i == (int)kind ? count : 0))
            fail_msg("%s: %llu", defect_name(i), (unsigned long long)s->in->defects.count[i]);
    }
}

static void assert_no_defects(const struct scanned *s)
{
    assert_defects(s, 0, 0);
}

#define EVENTS(text) "{\"traceEvents\": [" text "]}"
#define THREAD       "\"pid\": 3, \"tid\": 7, "
#define COMPLETE     "\"ph\": \"X\", " THREAD "\"ts\": 1, \"dur\": 2, "

static void test_complete_event(void **state)
{
    _cleanup_scanned_ struct scanned s = scan_text(
        "{\"schemaVersion\": 1,\n  \"traceEvents\": [\n"
        "  {\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"gemm<float, 2>\", \"pid\": 3, \"tid\": 7,\n"
        "    \"ts\": 1712195495505582.988, \"dur\": 68.25,\n"
        "    \"args\": {\n      \"External id\": 11,\n      \n      \"queued\": 0, \"device\": 3, "
        "\"context\": 1,\n"
        "      \"stream\": 7, \"correlation\": 1783897,\n      \"blocks per SM\": 1.1481482,\n"
        "      \"grid\": [60, 2, 1],\n      \"block\": [1024,4,8],\n"
        "      \"est. achieved occupancy %\": 28\n    }\n  }]}");
    const struct event *e = event_at(&s, 0);

    assert_no_defects(&s);
    assert_int_equal(s.state, SCAN_AFTER);
    assert_int_equal(s.events, 1);
    assert_int_equal(s.in->batch->n, 1);
    assert_int_equal(e->phase, EVENT_COMPLETE);
    assert_int_equal(e->ts, 1712195495505582988);
    assert_int_equal(e->dur, 68250);
    assert_int_equal(e->offset, strlen("{\"schemaVersion\": 1,\n  \"traceEvents\": [\n  "));
    assert_string_equal(fixture_text(s.in, e->name), "gemm<float, 2>");
    assert_string_equal(fixture_category(s.in, e), "kernel");
    assert_int_equal(e->flags, SLICE_HAS_ARGS | EVENT_IN_GROUP(TABLE_gpu - TABLE_ARGS_FIRST));
    assert_int_equal(fixture_arg(s.in, e, COL_gpu_external_id), 11);
    assert_int_equal(fixture_arg(s.in, e, COL_gpu_queued), 0);
    assert_int_equal(fixture_arg(s.in, e, COL_gpu_correlation), 1783897);
    assert_int_equal(fixture_arg(s.in, e, COL_gpu_stream), 7);
    assert_int_equal(fixture_arg(s.in, e, COL_gpu_grid_x), 60);
    assert_int_equal(fixture_arg(s.in, e, COL_gpu_grid_y), 2);
    assert_int_equal(fixture_arg(s.in, e, COL_gpu_block_y), 4);
    assert_int_equal(fixture_arg(s.in, e, COL_gpu_block_z), 8);
    assert_string_equal(fixture_text(s.in, (uint32_t)fixture_arg(s.in, e, COL_gpu_blocks_per_sm)),
                        "1.1481482");
    assert_string_equal(fixture_text(s.in, (uint32_t)fixture_arg(s.in, e, COL_gpu_occupancy)), "28");
    assert_int_equal(fixture_arg(s.in, e, COL_gpu_bytes), NONE);
}

/* The same events whatever the order of their members, arguments first included. */
static void test_any_order_of_members(void **state)
{
    static const char *const orders[] = {
        "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"n\", \"pid\": 3, \"tid\": 7, \"ts\": 1.5, "
        "\"dur\": 2, \"args\": {\"cbid\": 211}}",
        "{\"args\": {\"cbid\": 211}, \"dur\": 2, \"ts\": 1.5, \"tid\": 7, \"pid\": 3, \"name\": \"n\", "
        "\"cat\": "
        "\"cuda_runtime\", \"ph\": \"X\"}",
        "{\"args\":{\"cbid\":\"211\"},\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"tid\":7,\"pid\":3,\"unknown\":"
        "[{\"ph\":\"B\"}],\"name\":\"n\",\"dur\":\"2\",\"ts\":\"1.5\"}",
        "{ \"cat\" :\"cuda_runtime\"\t,\r\n\"args\" : { \"x\" : {\"cbid\": 1} , \"cbid\" : 211 } , \"ph\" : "
        "\"X\" , "
        "\"name\" : \"n\" , \"pid\" : 3 , \"tid\" : 7 , \"ts\" : 15e-1 , \"dur\" : 2.0 , }",
    };

    for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
        char text[1024];
        snprintf(text, sizeof(text), EVENTS("%s,%s,%s"), orders[i], orders[i], orders[i]);
        _cleanup_scanned_ struct scanned s = scan_text(text);
        assert_no_defects(&s);
        assert_int_equal(s.in->batch->n, 3);
        for (size_t k = 0; k < 3; k++) {
            const struct event *e = event_at(&s, k);
            assert_int_equal(e->phase, EVENT_COMPLETE);
            assert_int_equal(e->ts, 1500);
            assert_int_equal(e->dur, 2000);
            assert_string_equal(fixture_text(s.in, e->name), "n");
            assert_int_equal(s.in->threads[e->thread].tid, 7);
            assert_int_equal(s.in->processes[s.in->threads[e->thread].process].pid, 3);
            assert_int_equal(fixture_arg(s.in, e, COL_runtime_cbid), 211);
        }
    }
}

/* Writers repeat themselves, and then they do not: what was expected of one event must not be taken for
 * granted in the next, however much they look alike. */
static void test_layouts_that_change(void **state)
{
    static const char *const layouts[] = {
        "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"n\",\"pid\":3,\"tid\":7,\"ts\":1.5,\"dur\":2,\"args\":{"
        "\"Ev Idx\":4}}",
        "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"n\", \"pid\": 3, \"tid\": 7, \"ts\": 1.5, \"dur\": "
        "2, \"args\": "
        "{\"Ev Idx\": 4}}",
        "{\"ph\":  \"X\",\n\"cat\":  \"cpu_op\",\n\"name\":  \"n\",\n\"pid\":  3,\n\"tid\":  7,\n\"ts\":  "
        "1.5,\n\"dur\":  2,\n"
        "\"args\":  {\n\"Ev Idx\":  4\n}\n}",
        "{\"ph\": \"X\" , \"cat\": \"cpu_op\" , \"name\": \"n\" , \"pid\": 3 , \"tid\": 7 , \"ts\": 1.5 , "
        "\"dur\": 2 , \"args\": { "
        "\"unknown\": [], \"Ev Idx\": 4 } }",
        "{\"ph\": \"X\", \"cat\": \"cpu_op\",                                                                "
        "            "
        "\"name\": \"n\", \"pid\": 3, \"tid\": 7, \"ts\": 1.5, \"dur\": 2, \"args\": {\"Ev Idx\": 4, }, }",
    };
    enum { N = ARRAY_SIZE(layouts) };
    char text[N * N * 2 * 400] = "[";

    for (size_t i = 0; i < N * N; i++)
        sprintf(text + strlen(text), "%s, \n%s,", layouts[i / N], layouts[i % N]);
    _cleanup_scanned_ struct scanned s = scan_text(text);
    assert_defects(&s, DEFECT_truncated, 1);
    assert_int_equal(s.in->batch->n, 2 * N * N);
    for (size_t i = 0; i < 2 * N * N; i++) {
        const struct event *e = event_at(&s, i);
        assert_int_equal(e->ts, 1500);
        assert_int_equal(e->dur, 2000);
        assert_string_equal(fixture_text(s.in, e->name), "n");
        assert_string_equal(fixture_category(s.in, e), "cpu_op");
        assert_int_equal(s.in->threads[e->thread].tid, 7);
        assert_int_equal(fixture_arg(s.in, e, COL_op_ev_idx), 4);
    }
}

/* A category with a flaw has it every time. */
static void test_flawed_categories(void **state)
{
    _cleanup_scanned_ struct scanned s = scan_text(
        EVENTS("{" COMPLETE "\"cat\": \"a\tb\"}, {" COMPLETE "\"cat\": \"a\tb\"}, {" COMPLETE
               "\"cat\": \"a\tb\"}                                                                "));

    assert_defects(&s, DEFECT_control_char, 3);
    assert_string_equal(fixture_category(s.in, event_at(&s, 2)), "a\tb");
}

static void test_phases(void **state)
{
    static const struct {
        const char *members;
        enum event_phase phase;
        int64_t dur;
    } cases[] = {
        {"\"ph\": \"B\"", EVENT_BEGIN, 0},
        {"\"ph\": \"E\"", EVENT_END, 0},
        {"\"ph\": \"i\"", EVENT_INSTANT, 0},
        {"\"ph\": \"I\", \"s\": \"t\"", EVENT_INSTANT, 0},
        {"\"ph\": \"R\"", EVENT_INSTANT, 0},
        {"\"ph\": \"i\", \"s\": \"p\"", EVENT_INSTANT_PROCESS, 0},
        {"\"ph\": \"i\", \"s\": \"g\"", EVENT_INSTANT_GLOBAL, 0},
        {"\"ph\": \"b\", \"id\": 5", EVENT_ASYNC_BEGIN, 5},
        {"\"ph\": \"n\", \"id2\": {\"local\": 6}", EVENT_ASYNC_INSTANT, 6},
        {"\"ph\": \"e\", \"id2\": {\"local\": 6, \"global\": 7}", EVENT_ASYNC_END, 7},
        {"\"ph\": \"s\", \"id\": 8", EVENT_FLOW_START, 8},
        {"\"ph\": \"t\", \"id\": \"0x1F\"", EVENT_FLOW_STEP, 31},
        {"\"ph\": \"f\", \"id\": \"20\"", EVENT_FLOW_END, 32},
        {"\"ph\": \"f\", \"id\": -1, \"bp\": \"e\"", EVENT_FLOW_END_ENCLOSING, -1},
        {"\"ph\": \"XY\", \"dur\": 2", EVENT_COMPLETE, 2000},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[256];
        snprintf(text, sizeof(text), EVENTS("{%s, " THREAD "\"name\": \"n\", \"ts\": 1}"), cases[i].members);
        _cleanup_scanned_ struct scanned s = scan_text(text);
        const struct event *e = event_at(&s, 0);
        assert_no_defects(&s);
        assert_int_equal(s.in->batch->n, 1);
        assert_int_equal(e->phase, cases[i].phase);
        assert_int_equal(e->dur, cases[i].dur);
        assert_int_equal(e->ts, 1000);
    }
}

static void test_phases_without_an_event(void **state)
{
    static const struct {
        const char *event;
        enum defect_kind defect;
        uint64_t count;
    } cases[] = {
        {"{}", 0, 0},
        {"{ }", 0, 0},
        {"{\"ph\": \"P\", \"name\": \"sample\"}", 0, 0},
        {"{\"ph\": \"O\", " THREAD "\"ts\": 1, \"args\": {\"snapshot\": {}}}", 0, 0},
        {"{\"ph\": \"M\", \"name\": \"trace_config\", \"args\": {\"name\": \"x\"}}", 0, 0},
        {"{\"name\": \"x\", \"ts\": 1}", DEFECT_no_phase, 1},
        {"{\"ph\": \"\", \"ts\": 1}", DEFECT_no_phase, 1},
        {"{\"ph\": 5, \"ts\": 1}", DEFECT_no_phase, 1},
        {"{\"ph\": \"T\", \"ts\": 1, \"dur\": 1}", DEFECT_unknown_phase, 1},
        {"{\"ph\": \"X\", \"dur\": 1}", DEFECT_no_ts, 1},
        {"{\"ph\": \"X\", \"dur\": 1, \"ts\": null}", DEFECT_no_ts, 1},
        {"{\"ph\": \"X\", \"ts\": 1}", DEFECT_no_dur, 1},
        {"{\"ph\": \"s\", \"ts\": 1, \"id\": \"no\"}", DEFECT_unreadable_event, 1},
        {"{\"ph\": \"b\", \"ts\": 1}", DEFECT_unreadable_event, 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[256];
        snprintf(text, sizeof(text), EVENTS("%s"), cases[i].event);
        _cleanup_scanned_ struct scanned s = scan_text(text);
        assert_defects(&s, cases[i].defect, cases[i].count);
        assert_int_equal(s.in->batch->n, 0);
        assert_int_equal(s.state, SCAN_AFTER);
    }
}

static void test_numbers_that_are_none(void **state)
{
    static const struct {
        const char *members;
        uint64_t bad, no_ts, no_dur, negative;
        int64_t dur;
    } cases[] = {
        {"\"ts\": NaN, \"dur\": 1", 1, 1, 0, 0, 0},
        {"\"ts\": \"NaN\", \"dur\": 1", 1, 1, 0, 0, 0},
        {"\"ts\": 1, \"dur\": Infinity", 1, 0, 1, 0, 0},
        {"\"ts\": 1, \"dur\": -inf", 1, 0, 1, 0, 0},
        {"\"ts\": 1, \"dur\": -1.-500", 1, 0, 1, 0, 0},
        {"\"ts\": 1, \"dur\": 1e300", 1, 0, 1, 0, 0},
        {"\"ts\": 9223372036854775, \"dur\": 9223372036854775", 1, 0, 1, 0, 0},
        {"\"ts\": 1, \"dur\": -3", 0, 0, 0, 1, 0},
        {"\"ts\": 1, \"dur\": 0.0015", 0, 0, 0, 0, 2},
        {"\"ts\": 1, \"dur\": \"2.5\"", 0, 0, 0, 0, 2500},
        {"\"ts\": 1, \"dur\": 1, \"args\": {\"unknown\": Infinity}", 1, 0, 0, 0, 1000},
        {"\"ts\": 1, \"dur\": 1, \"args\": {\"memory bandwidth (GB/s)\": inf}", 1, 0, 0, 0, 1000},
        {"\"ts\": 1, \"dur\": 1, \"args\": {\"bytes\": 1.5}", 1, 0, 0, 0, 1000},
        {"\"ts\": 1, \"dur\": 1, \"args\": {\"bytes\": null, \"x\": true}", 0, 0, 0, 0, 1000},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[256];
        snprintf(text, sizeof(text), EVENTS("{\"ph\": \"X\", \"cat\": \"gpu_memcpy\", " THREAD "%s}"),
                 cases[i].members);
        _cleanup_scanned_ struct scanned s = scan_text(text);
        const uint64_t *count = s.in->defects.count;
        assert_int_equal(count[DEFECT_bad_number], cases[i].bad);
        assert_int_equal(count[DEFECT_no_ts], cases[i].no_ts);
        assert_int_equal(count[DEFECT_no_dur], cases[i].no_dur);
        assert_int_equal(count[DEFECT_negative_dur], cases[i].negative);
        assert_int_equal(s.in->batch->n, !(cases[i].no_ts || cases[i].no_dur));
        if (s.in->batch->n > 0) {
            assert_int_equal(event_at(&s, 0)->dur, cases[i].dur);
            assert_int_equal(fixture_arg(s.in, event_at(&s, 0), COL_gpu_bytes), NONE);
            assert_int_equal(fixture_arg(s.in, event_at(&s, 0), COL_gpu_bandwidth), NONE);
        }
    }
}

static void test_strings(void **state)
{
    static const struct {
        const char *written, *meant;
        enum defect_kind defect;
        uint64_t count;
    } cases[] = {
        {"plain", "plain", 0, 0},
        {"a string that is longer than two blocks of the widest vectors that anyone has, by far",
         "a string that is longer than two blocks of the widest vectors that anyone has, by far", 0, 0},
        {"", "[No name]", 0, 0},
        {"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t", 0, 0},
        {"\\u0041\\u00e9\\u20AC\\ud83D\\uDE00", "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 0, 0},
        {"\xC3\xA9t\xC3\xA9", "\xC3\xA9t\xC3\xA9", 0, 0},
        {"C:\\py\\x.py", "C:\\py\\x.py", DEFECT_bad_escape, 1},
        {"\\ud83d alone", "\\ud83d alone", DEFECT_bad_escape, 1},
        {"\\u12", "\\u12", DEFECT_bad_escape, 1},
        {"a\nb\x01", "a\nb\x01", DEFECT_control_char, 1},
        {"a\xFFz", "a\xEF\xBF\xBDz", DEFECT_bad_utf8, 1},
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", DEFECT_bad_utf8, 1},
        {"cut \xE2\x82", "cut \xEF\xBF\xBD\xEF\xBF\xBD", DEFECT_bad_utf8, 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[512];
        snprintf(text, sizeof(text), EVENTS("{" COMPLETE "\"name\": \"%s\", \"cat\": \"%s\"}"),
                 cases[i].written, cases[i].written);
        _cleanup_scanned_ struct scanned s = scan_text(text);
        assert_defects(&s, cases[i].defect, cases[i].count);
        assert_string_equal(fixture_text(s.in, event_at(&s, 0)->name), cases[i].meant);
        assert_string_equal(fixture_category(s.in, event_at(&s, 0)), *cases[i].written ? cases[i].meant : "");
    }
}

static void test_names_of_the_nameless(void **state)
{
    _cleanup_scanned_ struct scanned s = scan_text(
        EVENTS("{" COMPLETE "\"name\": null}, {\"ph\": \"E\", " THREAD "\"ts\": 1}, {\"ph\": \"i\", " THREAD
               "\"s\": \"g\", \"ts\": 1}, {\"ph\": \"i\", " THREAD "\"ts\": 1}"));

    assert_no_defects(&s);
    assert_string_equal(fixture_text(s.in, event_at(&s, 0)->name), "[No name]");
    assert_int_equal(event_at(&s, 0)->category, CATEGORY_NONE);
    assert_int_equal(event_at(&s, 1)->name, 0);
    assert_int_equal(event_at(&s, 2)->name, 0);
    assert_string_equal(fixture_text(s.in, event_at(&s, 3)->name), "[No name]");
}

static void test_threads(void **state)
{
    static const struct {
        const char *members;
        int64_t pid, tid;
        const char *pid_text, *tid_text;
        uint64_t bad;
    } cases[] = {
        {"\"pid\": 3, \"tid\": 7", 3, 7, "", "", 0},
        {"\"pid\": 3, \"tid\": 0", 3, 3, "", "", 0},
        {"\"pid\": 3", 3, 3, "", "", 0},
        {"\"pid\": 3, \"tid\": -19360192", 3, 3, "", "", 0},
        {"\"pid\": -1, \"tid\": 0", 0, 0, "", "", 0},
        {"\"pid\": 0, \"tid\": 140736414627584", 0, 140736414627584, "", "", 0},
        {"\"tid\": 7", 0, 7, "", "", 0},
        {"\"pid\": 3, \"tid\": \"stream 7\"", 3, 0, "", "stream 7", 0},
        {"\"pid\": \"Spans\", \"tid\": \"25738\"", 0, 0, "Spans", "25738", 0},
        {"\"pid\": \"Spans\", \"tid\": 0", 0, 0, "Spans", "Spans", 0},
        {"\"pid\": 99999999999999999999, \"tid\": 1", 0, 1, "", "", 1},
        {"\"pid\": 3, \"tid\": 7, \"tid\": 8", 3, 8, "", "", 0},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[256], *at = text;
        at += snprintf(text, sizeof(text), "{\"traceEvents\": [");
        for (int k = 0; k < 2; k++)
            at += snprintf(at, sizeof(text) - (size_t)(at - text), "{\"ph\": \"i\", %s, \"ts\": 1},",
                           cases[i].members);
        snprintf(at, sizeof(text) - (size_t)(at - text), "]}");
        _cleanup_scanned_ struct scanned s = scan_text(text);
        const struct thread_entry *t = &s.in->threads[event_at(&s, 1)->thread];
        const struct process_entry *p = &s.in->processes[t->process];
        assert_int_equal(s.in->n_threads, 1);
        assert_int_equal(t->tid, cases[i].tid);
        assert_int_equal(p->pid, cases[i].pid);
        assert_string_equal(fixture_text(s.in, t->tid_text), cases[i].tid_text);
        assert_string_equal(fixture_text(s.in, p->pid_text), cases[i].pid_text);
        assert_int_equal(s.in->defects.count[DEFECT_bad_number], 2 * cases[i].bad);
    }
}

/* Events of one category that change between threads, and one that names a thread twice. */
static void test_threads_that_alternate(void **state)
{
#define OF(ids) "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"n\", " ids ", \"ts\": 1, \"dur\": 1}"
    _cleanup_scanned_ struct scanned s =
        scan_text(EVENTS(OF("\"pid\": 3, \"tid\": 7") "," OF("\"pid\": 3, \"tid\": 7") "," OF(
            "\"pid\": 3, \"tid\": "
            "70") "," OF("\"pid\": "
                         "3, "
                         "\"tid\": "
                         "7") "," OF("\"pid\": 3, \"tid\": 7") ","
                                                               "{\"ph\": \"X\", \"cat\": \"cpu_op\", "
                                                               "\"name\": \"n\", "
                                                               "\"pid\": 3, \"tid\": 7, \"ts\": 1, \"dur\": "
                                                               "1, \"tid\": "
                                                               "8}, " OF(
                                                                   "\"pid\": 3, \"tid\": 7") "               "
                                                                                             "           "
                                                                                             "               "
                                                                                             "           "
                                                                                             "               "
                                                                                             "   "));
    static const int64_t tids[] = {7, 7, 70, 7, 7, 8, 7};

    assert_defects(&s, DEFECT_duplicate_key, 1);
    for (size_t i = 0; i < ARRAY_SIZE(tids); i++) {
        assert_int_equal(s.in->threads[event_at(&s, i)->thread].tid, tids[i]);
        assert_int_equal(s.in->processes[s.in->threads[event_at(&s, i)->thread].process].pid, 3);
    }
}

static void test_metadata(void **state)
{
#define NAMED(name, ids, args) "{\"name\": \"" name "\", \"ph\": \"M\", " ids ", \"args\": {" args "}},"
    _cleanup_scanned_ struct scanned s = scan_text(
        EVENTS(NAMED("process_name", "\"pid\": 3, \"tid\": 0", "\"name\": \"python\"")
                   NAMED("process_labels", "\"pid\": 3", "\"labels\": \"GPU 0\"")
                       NAMED("process_sort_index", "\"pid\": 3, \"tid\": 0", "\"sort_index\": 5000003")
                           NAMED("thread_name", "\"pid\": 3, \"tid\": 9", "\"name\": \"stream \\\"9\\\"\"")
                               NAMED("thread_sort_index", "\"pid\": 3, \"tid\": 9", "\"sort_index\": -4")
                                   NAMED("thread_name", "\"pid\": 3, \"tid\": 9", "\"name\": \"\"")));

    assert_no_defects(&s);
    assert_int_equal(s.events, 6);
    assert_int_equal(s.in->batch->n, 0);
    assert_int_equal(s.in->n_processes, 1);
    assert_string_equal(fixture_text(s.in, s.in->processes[0].name), "python");
    assert_string_equal(fixture_text(s.in, s.in->processes[0].labels), "GPU 0");
    assert_int_equal(s.in->processes[0].sort_index, 5000003);
    assert_int_equal(s.in->n_threads, 2);
    assert_int_equal(s.in->threads[1].tid, 9);
    assert_string_equal(fixture_text(s.in, s.in->threads[1].name), "stream \"9\"");
    assert_int_equal(s.in->threads[1].sort_index, -4);
}

static double counter_value(const struct event *e)
{
    double value;

    memcpy(&value, &e->dur, sizeof(value));
    return value;
}

static void test_counters(void **state)
{
    _cleanup_scanned_ struct scanned s =
        scan_text(EVENTS("{\"ph\": \"C\", " THREAD
                         "\"name\": \"mem\\n\", \"ts\": 1, \"args\": {\"used\": 1.5, \"fr\\u0065e\": "
                         "\"-2e3\", \"bad\": \"x\"}}, {\"ph\": \"C\", " THREAD
                         "\"id\": \"0xA\", \"name\": \"mem\", \"ts\": 2, \"args\": {\"used\": 7}}"));

    assert_defects(&s, DEFECT_bad_number, 1);
    assert_int_equal(s.in->batch->n, 3);
    assert_string_equal(fixture_text(s.in, event_at(&s, 0)->name), "mem\n used");
    assert_true(counter_value(event_at(&s, 0)) == 1.5);
    assert_string_equal(fixture_text(s.in, event_at(&s, 1)->name), "mem\n free");
    assert_true(counter_value(event_at(&s, 1)) == -2000);
    assert_string_equal(fixture_text(s.in, event_at(&s, 2)->name), "mem id: 0xA used");
    assert_int_equal(event_at(&s, 2)->ts, 2000);
    assert_int_equal(s.in->threads[event_at(&s, 2)->thread].tid, 7);
    assert_int_equal(event_at(&s, 0)->offset, event_at(&s, 1)->offset);
}

static void test_flows_of_slices(void **state)
{
    _cleanup_scanned_ struct scanned s = scan_text(
        EVENTS("{" COMPLETE "\"name\": \"a\", \"cat\": \"c\", \"bind_id\": \"0x10\", \"flow_out\": true},"
               "{" COMPLETE "\"name\": \"b\", \"bind_id\": 16, \"flow_in\": true, \"flow_out\": true},"
               "{" COMPLETE "\"name\": \"c\", \"bind_id\": 16, \"flow_in\": true, \"flow_out\": false}"));
    static const enum event_phase phases[] = {EVENT_FLOW_START, EVENT_FLOW_STEP, EVENT_FLOW_END_ENCLOSING};

    assert_no_defects(&s);
    assert_int_equal(s.in->batch->n, 6);
    for (size_t i = 0; i < ARRAY_SIZE(phases); i++) {
        const struct event *slice = event_at(&s, 2 * i), *flow = event_at(&s, 2 * i + 1);
        assert_int_equal(slice->phase, EVENT_COMPLETE);
        assert_int_equal(flow->phase, phases[i]);
        assert_int_equal(flow->dur, 16);
        assert_int_equal(flow->ts, slice->ts);
        assert_int_equal(flow->thread, slice->thread);
        assert_int_equal(flow->category, CATEGORY_NONE);
    }
}

static void test_groups_of_arguments(void **state)
{
    static const struct {
        const char *category, *args;
        enum column column;
        const char *text; /* or the number */
        int64_t number;
    } cases[] = {
        {"cpu_op", "\"Input Dims\": [[1, 2], [\"]\"]], \"stream\": 7", COL_op_dims, "[[1, 2], [\"]\"]]", 0},
        {"Operator", "\"Input dims\": [], \"External id\": 5", COL_op_dims, "[]", 0},
        {"user_annotation", "\"Record function id\": 12", COL_op_record_function_id, NULL, 12},
        {"cpu_op", "\"Module Hierarchy\": \"a\\/b\"", COL_op_module, "a/b", 0},
        {"cpu_op", "\"dtype\": \"Float\", \"Group size\": 8", COL_collective_group_size, NULL, 8},
        {"kernel", "\"Collective name\": \"allreduce\", \"stream\": 2", COL_collective_name, "allreduce", 0},
        {"kernel", "\"Process Group Ranks\": [0, 1], \"stream\": 2", COL_gpu_stream, NULL, 2},
        {"python_function", "\"Python id\": 4, \"Python parent id\": 3", COL_python_parent_id, NULL, 3},
        {"cpu_instant_event", "\"Addr\": 139919357902848, \"Bytes\": -512", COL_memory_bytes, NULL, -512},
        {"gpu_memcpy", "\"memory bandwidth (GB/s)\": \"12.5\"", COL_gpu_bandwidth, "12.5", 0},
        {"cuda_sync", "\"cuda_sync_kind\": \"Stream Sync\", \"stream\": -1", COL_gpu_stream, NULL, -1},
        {"mtia_runtime", "\"Correlation\": 9", COL_runtime_correlation, NULL, 9},
        {"new_kind", "\"stream\": 7, \"registers per thread\": 32", COL_gpu_stream, NULL, 7},
        {"", "\"Device Id\": 1, \"Bytes\": 512", COL_memory_device, NULL, 1},
        {"new_kind", "\"stream\": 7", COL_gpu_stream, NULL, NONE},
        {"cpu_op", "\"stream\": 7", COL_gpu_stream, NULL, NONE},
        {"kernel", "\"grid\": [1, \"2\", 3, 4]", COL_gpu_grid_y, NULL, 2},
        {"kernel", "\"grid\": [[1], 2]", COL_gpu_grid_x, NULL, NONE},
        {"kernel", "\"grid\": 5", COL_gpu_grid_x, NULL, NONE},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        char text[512];
        snprintf(text, sizeof(text), EVENTS("{\"cat\": \"%s\", " COMPLETE "\"args\": {%s}}"),
                 cases[i].category, cases[i].args);
        _cleanup_scanned_ struct scanned s = scan_text(text);
        const struct event *e = event_at(&s, 0);
        int64_t value = fixture_arg(s.in, e, cases[i].column);
        assert_no_defects(&s);
        assert_true(e->flags & SLICE_HAS_ARGS);
        if (cases[i].text)
            assert_string_equal(fixture_text(s.in, (uint32_t)value), cases[i].text);
        else
            assert_int_equal(value, cases[i].number);
    }
}

static void test_duplicate_keys(void **state)
{
    _cleanup_scanned_ struct scanned s = scan_text(
        EVENTS("{\"cat\": \"kernel\", " COMPLETE "\"ts\": 9, \"args\": {\"stream\": 1, \"stream\": 2}},"
               "{\"cat\": \"kernel\", " COMPLETE "\"unknown\": 1, \"unknown\": 2, \"args\": {}}"));

    assert_defects(&s, DEFECT_duplicate_key, 1);
    assert_int_equal(event_at(&s, 0)->ts, 9000);
    assert_int_equal(fixture_arg(s.in, event_at(&s, 0), COL_gpu_stream), 2);
    assert_int_equal(event_at(&s, 1)->flags, 0);
}

/* Members of events, each with its values; NULL: none further. Any of them may be missing, and most have something
 * unusual now and then. */
static const char *const some_members[][8] = {
    {"\"ph\": \"X\"", "\"ph\": \"X\"", "\"ph\": \"X\"", "\"ph\": \"f\", \"bp\": \"e\"", "\"ph\": \"i\"",
     "\"ph\":\"X\"", "\"ph\": 5"},
    {"\"cat\": \"kernel\"", "\"cat\": \"cpu_op\"", "\"cat\": \"cuda_runtime\"", "\"cat\": \"\"",
     "\"cat\": \"\\ud800\"", "\"cat\": null",
     "\"cat\": \"a category that is longer than a block, and then than two of these\""},
    {"\"name\": \"gemm\"", "\"name\": \"a\\nb\"", "\"name\": \"\"", "\"name\":  \"n\"", "\"name\": 7"},
    {"\"pid\": 3, \"tid\": 7", "\"pid\": 3, \"tid\": 8", "\"pid\": 3, \"tid\": 7",
     "\"pid\": -3, \"tid\": \"x\"", "\"pid\": 3", "\"tid\": 7, \"pid\": 3", "\"pid\":  3, \"tid\": 7"},
    {"\"ts\": 1234567890123.456", "\"ts\": 7", "\"ts\": \"8\"", "\"ts\": null", "\"ts\": 1e3", "\"ts\": -1"},
    {"\"dur\": 12.5", "\"dur\": 0", "\"dur\": -1", "\"dur\": nan", "\"dur\": 9223372036854775.807"},
    {"\"args\": {}", "\"args\": {\"External id\": 12, \"stream\": 7, \"grid\": [1, 2, 3]}",
     "\"args\": {\"External id\": 13, \"stream\": -7, \"unknown\": {\"a\": \"}\"}}",
     "\"args\": {\"External id\": 1.5, \"blocks per SM\": 0.5}",
     "\"args\": {\"cbid\": 1, \"Collective name\": \"c\"}",
     "\"args\": {\"Input Dims\": [[1, 2], []], \"Input Dims\": []}", "\"args\": 3"},
    {"\"id\": 5", "\"id\": \"0x5\"", "\"bind_id\": 4, \"flow_in\": true", "\"id2\": {\"local\": 1}",
     "\"id\": [1]"},
};

/* One random number decides how unusual an event is, so that some shapes are frequent. */
static char *put_random_event(char *at, unsigned *random)
{
    size_t n = ARRAY_SIZE(some_members), first = 0, unusual = (size_t)rand_r(random) % 4;
    const char *comma = "{";

    if (unusual == 3)
        first = (size_t)rand_r(random) % n;
    for (size_t i = 0; i < n; i++) {
        const char *const *values = some_members[(first + i) % n];
        size_t value = unusual > 0 ? (size_t)rand_r(random) % ARRAY_SIZE(some_members[0]) : 0;
        if (!values[value] || (unusual == 0 && i == n - 1))
            continue;
        at = stpcpy(stpcpy(at, comma), values[value]);
        comma = unusual == 2 ? " ,\n" : ", ";
    }
    return stpcpy(at, *comma == '{' ? "{},\n" : "},\n");
}

/* Whether events are read along shapes or key by key, in whatever pieces: enough of them that shapes are forgotten. */
static void test_shapes(void **state)
{
    enum { EVENTS_N = 30000, EVENT_MAX = 600 };
    _cleanup_(freep) char *text = malloc((size_t)EVENTS_N * EVENT_MAX);
    static const size_t pieces[] = {SIZE_MAX / 2, 100000, 1001};
    unsigned random = 1;

    assert_non_null(text);
    char *at = stpcpy(text, "[");
    for (size_t i = 0; i < EVENTS_N; i++)
        at = put_random_event(at, &random);
    size_t size = (size_t)(stpcpy(at, "]") - text);
    _cleanup_scanned_ struct scanned expected =
        scan_along_shapes(text, size, SCAN_SIMD_PLAIN, SIZE_MAX / 2, false, false);
    assert_int_equal(expected.state, SCAN_AFTER);
    for (size_t i = 0; i < ARRAY_SIZE(all_simds); i++) {
        for (size_t k = 0; k < ARRAY_SIZE(pieces) && has_simd(all_simds[i]); k++) {
            _cleanup_scanned_ struct scanned s = scan_in_pieces(text, size, all_simds[i], pieces[k], false);
            assert_int_equal(s.events, expected.events);
            assert_true(s.digest == expected.digest);
        }
    }
}

/* Constants may be anywhere in an event: here between its thread and its time, where the text of the thread has them. */
static void test_constants_between_ids(void **state)
{
#define MIXED(category)                                                                                      \
    "{\"name\": \"n\", \"pid\": 3, \"ph\": \"X\", \"tid\": 7, \"cat\": \"" category                          \
    "\", \"ts\": 1, \"dur\": 2, "                                                                            \
    "\"args\": {\"stream\": 5, \"External id\": 6}}, "
    static const char text[] =
        "[" MIXED("kernel") MIXED("kernel") MIXED("cpu_op") MIXED("kernel") MIXED("kernel") MIXED("cpu_op")
            MIXED("cpu_op") MIXED("kernel") "{}"
                                            "                                                            "
                                            "                                                            ]";
    static const char *const categories[] = {"kernel", "kernel", "cpu_op", "kernel",
                                             "kernel", "cpu_op", "cpu_op", "kernel"};
    _cleanup_scanned_ struct scanned s = scan_text(text);

    assert_int_equal(s.in->batch->n, ARRAY_SIZE(categories));
    for (size_t i = 0; i < ARRAY_SIZE(categories); i++) {
        assert_string_equal(fixture_category(s.in, event_at(&s, i)), categories[i]);
        assert_int_equal(fixture_arg(s.in, event_at(&s, i), COL_gpu_stream),
                         strcmp(categories[i], "kernel") == 0 ? 5 : NONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete_event),
        cmocka_unit_test(test_any_order_of_members),
        cmocka_unit_test(test_layouts_that_change),
        cmocka_unit_test(test_flawed_categories),
        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_phases_without_an_event),
        cmocka_unit_test(test_numbers_that_are_none),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_names_of_the_nameless),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_threads_that_alternate),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_flows_of_slices),
        cmocka_unit_test(test_groups_of_arguments),
        cmocka_unit_test(test_duplicate_keys),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_constants_between_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
