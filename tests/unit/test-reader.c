/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "tests/unit/pack.h"
#include "tests/unit/read-fixture.h"
#include "tests/unit/real-trace-texts.h"
#include "trace/read/event_text.h"
#include "trace/read/scan.h"

#define DEFAULTS ((struct read_options){0})

static struct read_result read_named(const char *name, struct read_options options)
{
    size_t size;
    _cleanup_(freep) char *data = load(name, &size);

    print_message("%s\n", name);
    return read_in(data, size, options);
}

static struct read_result read_text(const char *text)
{
    return read_in(text, strlen(text), DEFAULTS);
}

static void test_complete_traces(void **state)
{
    static const struct {
        const char *name, *format;
        uint64_t text_bytes, slices;
        int64_t rank, world_size, pid;
    } cases[] = {
        {"hta/mtia_rank_0.json.gz", "kineto", 86940133, 138377, 0, 1, 3100453},
        {"lightllm_decode_8rank/rank1.pt.trace.json.gz", "kineto", 1747541, 2423, 1, 8, 3090495},
        {"hta/cpu_only_rank34.json.gz", "kineto", 2587530, 7482, 34, 300, 1074},
        {"hta/call_stack_backward_thread.json", "kineto", 4369, 7, 0, COLUMN_NULL, 3914},
        {"kineto/chrome_generic_phases.json", "chrome", 4735, 18, COLUMN_NULL, COLUMN_NULL, COLUMN_NULL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (!has_real_trace(cases[i].name))
            continue;
        struct read_result r = read_named(cases[i].name, DEFAULTS);
        assert_int_equal(r.result, 0);
        assert_int_equal(r.sum.state, READ_COMPLETE);
        assert_string_equal(r.sum.reason, "");
        assert_string_equal(format_name(r.sum.format), cases[i].format);
        assert_true(r.sum.memory_peak > 0);
        _cleanup_(columns_closep) struct columns *c = open_columns(&r);
        assert_meta_text(c, META_format, cases[i].format);
        assert_int_equal(columns_meta(c, META_text_bytes), cases[i].text_bytes);
        assert_int_equal(columns_meta(c, META_source_bytes), r.sum.source_bytes);
        assert_int_equal(columns_meta(c, META_rank), cases[i].rank);
        assert_int_equal(columns_meta(c, META_world_size), cases[i].world_size);
        assert_int_equal(columns_meta(c, META_pid), cases[i].pid);
        assert_int_equal(columns_rows(c, TABLE_slice), r.sum.columns.slices);
        assert_int_equal(r.sum.columns.slices, cases[i].slices);
        read_result_free(&r);
    }
}

static void assert_refused(struct read_result *r, const char *format, const char *reason)
{
    assert_int_equal(r->result, 0);
    assert_int_equal(r->sum.state, READ_REFUSED);
    assert_string_equal(format_name(r->sum.format), format);
    assert_non_null(strstr(r->sum.reason, reason));
    assert_null(r->columns);
    read_result_free(r);
}

static void test_refused_files(void **state)
{
    static const struct {
        const char *name, *format, *reason;
    } cases[] = {
        {"tracelens/rocprofv3_908_results.json.gz", "rocprofv3", "rocprofv3"},
        {"hta/memory_timeline.raw.json.gz", "memory-timeline", "PyTorch memory timeline"},
        {"ao/memory_timeline.json.gz", "memory-timeline", "PyTorch memory timeline"},
        {"nsys/mock.sqlite.gz", "nsys-sqlite", "a database that nsys exported"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        if (!has_real_trace(cases[i].name))
            continue;
        struct read_result r = read_named(cases[i].name, DEFAULTS);
        assert_refused(&r, cases[i].format, cases[i].reason);
    }
}

static void test_refused_texts(void **state)
{
    static const struct {
        const char *text, *format, *reason;
    } cases[] = {
        {"{\"a\": 1}", "json", "neither an array of events nor an object with \"traceEvents\""},
        {"{\"a\": [", "json", "neither an array"},
        {"[1, 2, 3]", "json", "neither an array"},
        {"[[1, 2], [3, 4]]", "memory-timeline", "memory timeline"},
        {"\x80\x04\x95pickled", "pickle", "pickle"},
        {"<!DOCTYPE html><html></html>", "html", "HTML"},
        {"once upon a time", "text", "text"},
        {"\x01\x02\x03", "binary", "binary data"},
        {"SQLite format 3", "text", "text"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct read_result r = read_text(cases[i].text);
        assert_refused(&r, cases[i].format, cases[i].reason);
    }
}

static void test_empty(void **state)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {{"", "0 bytes"}, {"  \n\t \n", "holds no text"}};
    size_t size;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct read_result r = read_text(cases[i].text);
        assert_int_equal(r.result, 0);
        assert_int_equal(r.sum.state, READ_EMPTY);
        assert_string_equal(r.sum.reason, cases[i].reason);
        assert_null(r.columns);
        read_result_free(&r);
    }
    _cleanup_(freep) uint8_t *packed = pack_gzip("", 0, &size);
    struct read_result r = read_in(packed, size, DEFAULTS);
    assert_int_equal(r.sum.state, READ_EMPTY);
    read_result_free(&r);
}

static void test_cut_anywhere(void **state)
{
    static const char text[] = HEAD EVENT ",\n" EVENT ",\n" EVENT TAIL;
    uint64_t slices = 0;

    for (size_t size = strlen(HEAD); size < sizeof(text) - 3; size++) {
        struct read_result r = read_in(text, size, DEFAULTS);
        assert_int_equal(r.result, 0);
        assert_int_equal(r.sum.state, READ_TRUNCATED);
        assert_true(r.sum.columns.slices >= slices);
        assert_true(r.sum.columns.defects[DEFECT_truncated] == 1);
        slices = r.sum.columns.slices;
        read_result_free(&r);
    }
    assert_int_equal(slices, 3);
}

static void test_truncated_traces(void **state)
{
    static const struct {
        const char *name, *reason;
    } cases[] = {
        {"malformed/truncated.json.gz", "truncated after 6,869 events"},
        {"malformed/truncated_before_gzip.json.gz", "truncated after 6,869 events"},
        {"malformed/truncated_gz.json.gz", "gzip ends after 200000 bytes"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct read_result r = read_named(cases[i].name, DEFAULTS);
        assert_int_equal(r.sum.state, READ_TRUNCATED);
        assert_non_null(strstr(r.sum.reason, cases[i].reason));
        assert_string_not_equal(r.sum.remedy, "");
        assert_int_equal(r.sum.columns.defects[DEFECT_truncated], 1);
        assert_true(r.sum.columns.slices > 5000);
        read_result_free(&r);
    }
}

static void test_damaged_gzip(void **state)
{
    size_t size;
    _cleanup_(freep) char *data = load("hta/nccl_data_rank0.json.gz", &size);

    data[size / 2] ^= 0x40;
    struct read_result r = read_in(data, size, DEFAULTS);
    assert_int_equal(r.result, 0);
    assert_int_equal(r.sum.state, READ_CORRUPT);
    assert_non_null(strstr(r.sum.reason, "damaged after "));
    assert_int_equal(r.sum.columns.defects[DEFECT_corrupt_stream], 1);
    assert_true(r.sum.columns.slices > 10000);
    read_result_free(&r);
}

static void test_limit_of_text(void **state)
{
    static const char text[] = HEAD EVENT ",\n" EVENT TAIL;
    struct read_result r = read_in(text, strlen(text), (struct read_options){.text_max = strlen(text) - 1});

    assert_int_equal(r.sum.state, READ_CORRUPT);
    assert_non_null(strstr(r.sum.reason, "size limit"));
    read_result_free(&r);
    r = read_in(text, strlen(text), (struct read_options){.text_max = strlen(text)});
    assert_int_equal(r.sum.state, READ_COMPLETE);
    read_result_free(&r);
}

static void test_members_and_what_follows(void **state)
{
    static const char first[] = HEAD EVENT ",\n", second[] = EVENT TAIL;
    size_t size, more;
    uint8_t *packed = pack_gzip(first, strlen(first), &size);
    _cleanup_(freep) uint8_t *next = pack_gzip(second, strlen(second), &more);

    packed = xrealloc(packed, size + more + 5, 1);
    memcpy(packed + size, next, more);
    memcpy(packed + size + more, "trash", 5);
    struct read_result r = read_in(packed, size + more + 5, DEFAULTS);
    assert_int_equal(r.sum.state, READ_CORRUPT);
    assert_int_equal(r.sum.columns.slices, 2);
    assert_int_equal(r.sum.columns.defects[DEFECT_bytes_behind_end], 1);
    assert_non_null(strstr(r.sum.reason, "5 bytes follow the end of the last gzip member at byte "));
    read_result_free(&r);
    memset(packed + size + more, 0, 5);
    r = read_in(packed, size + more + 5, DEFAULTS);
    assert_int_equal(r.sum.state, READ_COMPLETE);
    assert_int_equal(r.sum.columns.defects[DEFECT_bytes_behind_end], 1);
    read_result_free(&r);
    free(packed);
}

static void test_text_that_goes_on_after_its_end(void **state)
{
    static const char *const tails[] = {"trailing", "{}", "\x01", "]"};
    static const char text[] = HEAD EVENT TAIL;
    char all[sizeof(text) + 16], reason[64];

    snprintf(reason, sizeof(reason), "at byte %zu", strlen(text) + 1);
    for (size_t i = 0; i < ARRAY_SIZE(tails); i++) {
        snprintf(all, sizeof(all), "%s\n%s", text, tails[i]);
        struct read_result r = read_in(all, strlen(all), DEFAULTS);
        assert_int_equal(r.sum.state, READ_CORRUPT);
        assert_int_equal(r.sum.columns.slices, 1);
        assert_non_null(strstr(r.sum.reason, reason));
        read_result_free(&r);
    }
    /* A file that was extended. */
    memset(all, 0, sizeof(all));
    memcpy(all, text, strlen(text));
    struct read_result r = read_in(all, sizeof(all), DEFAULTS);
    assert_int_equal(r.sum.state, READ_CORRUPT);
    read_result_free(&r);
}

struct witness {
    const uint8_t *data;
    uint64_t seen, calls, last_done, last_events, cancel_at, size_max;
};

static int see(const void *data, size_t size, void *arg)
{
    struct witness *w = arg;

    assert_memory_equal(data, w->data + w->seen, size);
    w->seen += size;
    return w->size_max > 0 && w->seen > w->size_max ? -EFBIG : 0;
}

static int progress(uint64_t done, uint64_t all, uint64_t events, void *arg)
{
    struct witness *w = arg;

    assert_true(done <= all && done >= w->last_done && events >= w->last_events);
    w->last_done = done;
    w->last_events = events;
    return ++w->calls == w->cancel_at;
}

static void check_witness(const void *data, size_t size)
{
    struct witness w = {.data = data};
    struct read_options o = {.tap = see, .progress = progress, .arg = &w, .threads = 3};

    struct read_result r = read_in(data, size, o);
    assert_int_equal(r.result, 0);
    assert_int_equal(w.seen, size);
    assert_true(w.calls > 0);
    read_result_free(&r);

    w = (struct witness){.data = data, .cancel_at = 1};
    r = read_in(data, size, o);
    assert_int_equal(r.result, -ECANCELED);
    assert_string_not_equal(r.sum.reason, "");
    read_result_free(&r);

    /* Whoever hashes the source ends the reading, even at its last byte. */
    w = (struct witness){.data = data, .size_max = size - 1};
    r = read_in(data, size, o);
    assert_int_equal(r.result, -EFBIG);
    assert_string_not_equal(r.sum.reason, "");
    read_result_free(&r);
}

static void test_tap_and_progress(void **state)
{
    size_t size, text_size;
    _cleanup_(freep) char *data = load("kineto/resnet50_2021_workers0.json.gz", &size);
    _cleanup_(freep) char *text = unpack(data, size, &text_size);

    check_witness(data, size);
    check_witness(text, text_size);
}

struct cutter {
    int fd;
    off_t seen;
};

static int cut(const void *data, size_t size, void *arg)
{
    struct cutter *c = arg;

    c->seen += (off_t)size;
    return ftruncate(c->fd, c->seen);
}

/* What is hashed, and what is in the columns, would be different files. */
static void test_file_that_becomes_shorter(void **state)
{
    size_t size, text_size;
    _cleanup_(freep) char *data = load("kineto/resnet50_2021_workers0.json.gz", &size);
    _cleanup_(freep) char *text = unpack(data, size, &text_size);
    _cleanup_(closep) int source = memory_file(text, text_size), columns = memory_file("", 0);
    struct cutter cutter = {.fd = source};
    struct read_options o = {.source_fd = source,
                             .columns_fd = columns,
                             .spill_fd = -1,
                             .memory_max = UINT64_C(256) << 20,
                             .threads = 3,
                             .tap = cut,
                             .arg = &cutter};
    struct read_summary sum;

    assert_int_equal(trace_read(&o, &sum), -ESTALE);
    assert_string_equal(sum.reason, "the file became shorter while it was read");
}

static void test_too_little_memory(void **state)
{
    static const struct {
        uint64_t memory_max;
        int result;
    } cases[] = {{UINT64_C(4) << 20, -ENOMEM}, {UINT64_C(256) << 20, 0}};
    size_t size;
    _cleanup_(freep) char *data = load("kineto/resnet50_2021_workers0.json.gz", &size);

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(closep) int source = memory_file(data, size), columns = memory_file("", 0);
        struct read_options o = {
            .source_fd = source, .columns_fd = columns, .spill_fd = -1, .memory_max = cases[i].memory_max};
        struct read_summary sum;
        assert_int_equal(trace_read(&o, &sum), cases[i].result);
        assert_int_equal(sum.reason[0] != 0, cases[i].result < 0);
    }
}

static void test_spilled(void **state)
{
    struct read_result ample = read_named("kineto/resnet50_2021_workers0.json.gz", DEFAULTS);
    struct read_result tight =
        read_named("kineto/resnet50_2021_workers0.json.gz", (struct read_options){.memory_max = 96 << 20});

    assert_int_equal(tight.result, 0);
    assert_true(same_columns(&ample, &tight));
    read_result_free(&ample);
    read_result_free(&tight);
}

static void test_source_that_cannot_be_read(void **state)
{
    int pipes[2];
    struct read_summary sum;

    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    struct read_options o = {.source_fd = pipes[0], .columns_fd = -1, .spill_fd = -1};
    assert_int_equal(trace_read(&o, &sum), -ESPIPE);
    assert_non_null(strstr(sum.reason, "cannot be read"));
    close(pipes[0]);
    close(pipes[1]);
}

static void test_columns_that_cannot_be_written(void **state)
{
    static const char text[] = HEAD EVENT TAIL;
    _cleanup_(closep) int source = memory_file(text, strlen(text)),
                          full = open("/dev/full", O_RDWR | O_CLOEXEC);
    struct read_options o = {.source_fd = source, .columns_fd = full, .spill_fd = -1};
    struct read_summary sum;

    if (full < 0)
        skip();
    assert_int_equal(trace_read(&o, &sum), -ENOSPC);
    assert_string_equal(sum.reason, strerror(ENOSPC));
}

static size_t database_size;

static int read_database(const void *data, size_t size, struct intake *intake, char *ret_reason,
                         size_t reason_size)
{
    assert_memory_equal(data, "SQLite format 3", 16);
    database_size = size;
    struct event *e = intake_event(intake);
    *e = (struct event){.ts = 5, .dur = 6, .phase = EVENT_COMPLETE, .category = CATEGORY_NONE};
    e->thread = intake_thread(intake, 1, 0, 2, 0);
    return 0;
}

static int refuse_database(const void *data, size_t size, struct intake *intake, char *ret_reason,
                           size_t reason_size)
{
    snprintf(ret_reason, reason_size, "no kernels");
    return -EBADMSG;
}

static void test_database_of_nsys(void **state)
{
    struct read_result r =
        read_named("nsys/h100_2gpu_1s.sqlite.gz", (struct read_options){.read_sqlite = read_database});

    assert_int_equal(r.result, 0);
    assert_int_equal(r.sum.state, READ_COMPLETE);
    assert_int_equal(r.sum.format, FORMAT_NSYS_SQLITE);
    assert_int_equal(r.sum.columns.slices, 1);
    assert_int_equal(database_size, r.sum.stream.out);
    read_result_free(&r);
    r = read_named("nsys/mock.sqlite.gz", (struct read_options){.read_sqlite = refuse_database});
    assert_refused(&r, "nsys-sqlite", "no kernels");
}

static void test_callgrind(void **state)
{
    struct read_result r = read_text("# callgrind format\nevents: ns\nfn=main\n1 1000\n");

    assert_int_equal(r.result, 0);
    assert_int_equal(r.sum.state, READ_COMPLETE);
    assert_int_equal(r.sum.format, FORMAT_CALLGRIND);
    assert_true(r.sum.columns.slices > 0);
    read_result_free(&r);
}

/* What a slice was read from can be had back, from the compressed and from the plain file. */
static void check_texts(const struct read_result *r)
{
    _cleanup_(columns_closep) struct columns *c = open_columns(r);
    _cleanup_(event_source_freep) struct event_source *s = NULL;
    uint64_t rows = columns_rows(c, TABLE_slice);

    assert_int_equal(event_source_new(r->source_fd, c, &s), 0);
    for (uint64_t i = 0; i < 300; i++) {
        uint64_t row = i * 7919 % rows;
        struct text name = columns_text(c, columns_get(c, COL_slice_name, row)), text;
        assert_int_equal(event_source_text(s, (uint64_t)columns_get(c, COL_slice_offset, row), &text), 0);
        assert_int_equal(text.p[0], '{');
        assert_int_equal(text.p[text.size - 1], '}');
        assert_non_null(memmem(text.p, text.size, name.p, name.size));
    }
}

static void test_texts_of_slices(void **state)
{
    size_t size;
    _cleanup_(freep) char *text = load_text("param/linear_kineto.json.gz", &size);

    struct read_result r = read_named("param/linear_kineto.json.gz", DEFAULTS);
    _cleanup_(columns_closep) struct columns *c = open_columns(&r);
    assert_in_range(columns_rows(c, TABLE_checkpoint), 3, 5);
    check_texts(&r);
    read_result_free(&r);

    r = read_in(text, size, DEFAULTS);
    check_texts(&r);
    read_result_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete_traces),
        cmocka_unit_test(test_refused_files),
        cmocka_unit_test(test_refused_texts),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_truncated_traces),
        cmocka_unit_test(test_damaged_gzip),
        cmocka_unit_test(test_limit_of_text),
        cmocka_unit_test(test_members_and_what_follows),
        cmocka_unit_test(test_text_that_goes_on_after_its_end),
        cmocka_unit_test(test_tap_and_progress),
        cmocka_unit_test(test_file_that_becomes_shorter),
        cmocka_unit_test(test_too_little_memory),
        cmocka_unit_test(test_spilled),
        cmocka_unit_test(test_source_that_cannot_be_read),
        cmocka_unit_test(test_columns_that_cannot_be_written),
        cmocka_unit_test(test_database_of_nsys),
        cmocka_unit_test(test_callgrind),
        cmocka_unit_test(test_texts_of_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
