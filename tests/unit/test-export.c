/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "trace/columns/writer.h"
#include "trace/export/export.h"
#include "trace/read/reader.h"

#include "base/fs.h"
#include "base/json.h"
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Members out of order, spaces and numbers that another writer would not have made: they are to stay. */
#define OUTER                                                                                                \
    "{\"args\": {\"External id\": 7,  \"odd\":[1, 2.50e1]}, \"ph\": \"X\", \"cat\": \"cpu_op\", "            \
    "\"name\": \"outer; \\\"q\\\", \\u00e9\", \"pid\": 10, \"tid\": 11, \"ts\": 100.000, \"dur\": 50.000}"
#define LAUNCH                                                                                               \
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"launch\",\"pid\":10,\"tid\":11,\"ts\":110.5,\"dur\":" \
    "5,"                                                                                                     \
    "\"args\":{\"correlation\":3}}"
#define KERNEL                                                                                               \
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":120,\"dur\":30.25,"       \
    "\"args\":{\"device\":0,\"stream\":7,\"correlation\":3,\"grid\":[1,2,3],\"blocks per SM\":0.5}}"
#define PHASE_ARGS "\"args\": {\"kept\" :true}"
#define COUNTER    "{\"ph\":\"C\",\"name\":\"memory\",\"pid\":10,\"ts\":130,\"args\":{\"used\":1.5,\"free\":2}}"

static const char fixture[] =
    "{\"deviceProperties\":[{\"id\":0,\"name\":\"H200\"}],\"baseTimeNanoseconds\":5000000,\"traceEvents\":[\n"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":10,\"tid\":0,\"ts\":0,\"args\":{\"name\":\"python\"}},\n"
    "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":10,\"tid\":0,\"ts\":0,\"args\":{\"sort_index\":9}}"
    ",\n"
    "{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"tid\":0,\"ts\":0,\"args\":{\"labels\":\"GPU "
    "0\"}},\n"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":99,\"tid\":0,\"ts\":0,\"args\":{\"name\":\"nobody\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":10,\"tid\":11,\"ts\":0,\"args\":{\"name\":\"main\"}},\n"
    "{\"ph\":\"s\",\"id\":3,\"pid\":10,\"tid\":11,\"ts\":110.5,\"cat\":\"ac2g\",\"name\":\"ac2g\"},\n" KERNEL
    ",\n"
    "{\"ph\":\"f\",\"id\":3,\"pid\":0,\"tid\":7,\"ts\":120,\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\"},"
    "\n" LAUNCH ",\n" OUTER ",\n" COUNTER ",\n"
    "{\"ph\":\"B\",\"name\":\"phase\",\"pid\":10,\"tid\":12,\"ts\":200," PHASE_ARGS "},\n"
    "{\"ph\":\"E\",\"pid\":10,\"tid\":12,\"ts\":260},\n"
    "{\"ph\":\"b\",\"cat\":\"async\",\"name\":\"request\",\"id\":\"0x5\",\"pid\":10,\"tid\":11,\"ts\":210},\n"
    "{\"ph\":\"e\",\"cat\":\"async\",\"name\":\"request\",\"id\":\"0x5\",\"pid\":10,\"tid\":11,\"ts\":250},\n"
    "{\"ph\":\"i\",\"s\":\"t\",\"name\":\"mark\",\"pid\":10,\"tid\":11,\"ts\":270},\n"
    "{\"ph\":\"B\",\"name\":\"open\",\"pid\":10,\"tid\":12,\"ts\":300}\n"
    "]}\n";
/* outer, launch, gemm, phase, request, mark, open */
#define FIXTURE_SLICES 7

struct trace {
    int source_fd, columns_fd;
    struct columns *columns;
};

static void trace_done(struct trace *t)
{
    columns_close(t->columns);
    closep(&t->source_fd);
    closep(&t->columns_fd);
}

static int file_of(const char *data, size_t size)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, data, size), 0);
    return fd;
}

static struct trace read_trace(int source_fd)
{
    struct trace t = {.source_fd = source_fd, .columns_fd = file_of("", 0)};
    struct read_options options = {.source_fd = source_fd, .columns_fd = t.columns_fd, .spill_fd = -1};
    struct read_summary summary;

    assert_int_equal(trace_read(&options, &summary), 0);
    assert_int_equal(summary.state, READ_COMPLETE);
    assert_int_equal(columns_open(t.columns_fd, &t.columns, NULL), 0);
    return t;
}

static struct trace read_fixture(void)
{
    struct trace t = read_trace(file_of(fixture, strlen(fixture)));

    assert_int_equal(columns_rows(t.columns, TABLE_slice), FIXTURE_SLICES);
    assert_int_equal(columns_rows(t.columns, TABLE_flow), 1);
    return t;
}

struct output {
    char *data;
    size_t size;
};

static void output_done(struct output *o)
{
    free(o->data);
}

static struct output export_as(const char *format, const struct columns *c, int source_fd,
                               struct export_options options)
{
    struct export_trace t = {.columns = c, .source_fd = source_fd};
    struct output o = {0};
    FILE *out = open_memstream(&o.data, &o.size);

    assert_non_null(out);
    assert_int_equal(export_trace(export_format_find(format), &t, &options, out), 0);
    fclose(out);
    return o;
}

static json_t *parse(struct output o)
{
    char error[200];
    json_t *j = json_parse(o.data, o.size, error);

    if (!j)
        fail_msg("%s", error);
    return j;
}

/* The events of a phase, or the only one of them with this name. */
static size_t count_events(json_t *trace, const char *phase)
{
    json_t *event;
    size_t i, n = 0;

    json_array_foreach(json_object_get(trace, "traceEvents"), i, event)
        n += streq(json_get_str(event, "ph"), phase);
    return n;
}

static json_t *find_event(json_t *trace, const char *phase, const char *name)
{
    json_t *event, *found = NULL;
    size_t i;

    json_array_foreach(json_object_get(trace, "traceEvents"), i, event) {
        if (streq(json_get_str(event, "ph"), phase) && streq(json_get_str(event, "name"), name)) {
            assert_null(found);
            found = event;
        }
    }
    assert_non_null(found);
    return found;
}

static void test_chrome(void **state)
{
    _cleanup_(trace_done) struct trace t = read_fixture();
    _cleanup_(output_done) struct output o = export_as("chrome", t.columns, t.source_fd, EXPORT_ALL);
    _cleanup_json_ j = parse(o);
    json_t *event;

    /* Byte for byte. */
    assert_non_null(strstr(o.data, OUTER));
    assert_non_null(strstr(o.data, LAUNCH));
    assert_non_null(strstr(o.data, KERNEL));
    assert_non_null(strstr(o.data, COUNTER));
    assert_int_equal(json_get_int(j, "baseTimeNanoseconds", 0), 5000000);
    assert_string_equal(json_get_str(json_array_get(json_object_get(j, "deviceProperties"), 0), "name"),
                        "H200");

    assert_int_equal(count_events(j, "X"), 4);
    assert_int_equal(count_events(j, "C"), 1);
    assert_int_equal(count_events(j, "i"), 1);
    assert_int_equal(count_events(j, "B"), 1);
    assert_int_equal(count_events(j, "E"), 0);
    assert_non_null(find_event(j, "B", "open"));

    /* A pair of B and E is one event, with what the B said. */
    event = find_event(j, "X", "phase");
    assert_non_null(strstr(o.data, PHASE_ARGS));
    assert_true(json_number_value(json_object_get(event, "dur")) == 60);

    event = find_event(j, "e", "request");
    assert_string_equal(json_get_str(event, "id"), "0x5");
    assert_true(json_number_value(json_object_get(event, "ts")) == 250);
    assert_int_equal(count_events(j, "b"), 1);

    assert_int_equal(json_get_int(find_event(j, "s", "ac2g"), "tid", 0), 11);
    event = find_event(j, "f", "ac2g");
    assert_int_equal(json_get_int(event, "tid", 0), 7);
    assert_string_equal(json_get_str(event, "bp"), "e");
    assert_string_equal(json_get_str(json_object_get(find_event(j, "M", "thread_name"), "args"), "name"),
                        "main");
    assert_int_equal(
        json_get_int(json_object_get(find_event(j, "M", "process_sort_index"), "args"), "sort_index", 0), 9);
}

static void assert_same_text(const struct columns *a, const struct columns *b, enum column column,
                             uint64_t row)
{
    struct text ta = columns_text(a, columns_get(a, column, row)),
                tb = columns_text(b, columns_get(b, column, row));

    assert_int_equal(ta.size, tb.size);
    assert_memory_equal(ta.p, tb.p, ta.size);
}

static void assert_same_trace(const struct columns *a, const struct columns *b)
{
    static const enum column numbers[] = {COL_slice_ts, COL_slice_dur, COL_slice_depth, COL_slice_parent};
    static const enum column_table tables[] = {TABLE_slice, TABLE_flow, TABLE_counter, TABLE_gpu,
                                               TABLE_runtime};

    for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
        assert_int_equal(columns_rows(a, tables[i]), columns_rows(b, tables[i]));
    for (uint64_t row = 0; row < columns_rows(a, TABLE_slice); row++) {
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
            assert_int_equal(columns_get(a, numbers[i], row), columns_get(b, numbers[i], row));
        assert_same_text(a, b, COL_slice_name, row);
        assert_same_text(a, b, COL_slice_category, row);
    }
    for (uint64_t row = 0; row < columns_rows(a, TABLE_gpu); row++) {
        assert_int_equal(columns_get(a, COL_gpu_correlation, row), columns_get(b, COL_gpu_correlation, row));
        assert_int_equal(columns_get(a, COL_gpu_grid_y, row), columns_get(b, COL_gpu_grid_y, row));
        assert_same_text(a, b, COL_gpu_blocks_per_sm, row);
    }
}

static void check_read_again(const struct columns *c, int source_fd)
{
    _cleanup_(output_done) struct output o = export_as("chrome", c, source_fd, EXPORT_ALL);
    _cleanup_(trace_done) struct trace again = read_trace(file_of(o.data, o.size));

    assert_same_trace(c, again.columns);
}

static void test_chrome_read_again(void **state)
{
    _cleanup_(trace_done) struct trace t = read_fixture();

    check_read_again(t.columns, t.source_fd);
    check_read_again(t.columns, -1);
}

static void test_real_traces_read_again(void **state)
{
    static const char *const names[] = {"lightllm_decode_8rank/rank0.pt.trace.json.gz",
                                        "hta/nccl_data_rank0.json.gz",
                                        "kineto/resnet50_2021_workers0.json.gz"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        char path[512];
        int fd;

        snprintf(path, sizeof(path), "%s/%s", TRACES_DIR, names[i]);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(fd >= 0);
        _cleanup_(trace_done) struct trace t = read_trace(fd);
        check_read_again(t.columns, t.source_fd);
        check_read_again(t.columns, -1);
    }
}

/* A file that is not the one that was read must not be believed. */
static void test_replaced_original(void **state)
{
    _cleanup_(trace_done) struct trace t = read_fixture();
    _cleanup_(output_done) struct output rebuilt = export_as("chrome", t.columns, -1, EXPORT_ALL), o = {0};
    _cleanup_(freep) char *other = strdup(fixture);
    _cleanup_(closep) int fd = -1;

    for (char *p = strstr(other, "\"ts\": 100.000"); *p; p++) {
        if (*p >= '1' && *p <= '8')
            ++*p;
    }
    fd = file_of(other, strlen(other));
    o = export_as("chrome", t.columns, fd, (struct export_options){.from = 0, .to = 101000});
    assert_null(strstr(o.data, "odd"));
    assert_non_null(strstr(o.data, "\"ts\":100.000,\"dur\":50.000"));
    assert_null(strstr(rebuilt.data, "odd"));
}

static void test_selection(void **state)
{
    _cleanup_(trace_done) struct trace t = read_fixture();
    struct export_options gpu = {.from = INT64_MIN, .to = INT64_MAX, .only = "kernel,no such"};
    struct export_options time = {.from = 5000, .to = 25000, .relative = true};
    _cleanup_(output_done) struct output kernels = export_as("chrome", t.columns, t.source_fd, gpu);
    _cleanup_(output_done) struct output part = export_as("chrome", t.columns, t.source_fd, time);
    _cleanup_(output_done) struct output stacks = export_as("collapsed", t.columns, t.source_fd, time);
    _cleanup_json_ j = parse(kernels);
    _cleanup_json_ k = parse(part);

    assert_int_equal(count_events(j, "X"), 1);
    assert_non_null(find_event(j, "X", "gemm"));
    /* An arrow is there only with both its ends, a counter only with everything. */
    assert_int_equal(
        count_events(j, "s") + count_events(j, "f") + count_events(j, "C") + count_events(j, "b"), 0);

    /* From 105 to 125 us: what reaches into it is whole, ... */
    assert_int_equal(count_events(k, "X"), 3);
    assert_non_null(strstr(part.data, OUTER));
    assert_int_equal(count_events(k, "s"), 1);
    assert_int_equal(count_events(k, "C"), 0);
    /* ... but where times are summed up, it is cut. */
    assert_non_null(strstr(stacks.data, ";outer, \"q\", \xc3\xa9 15000\n"));
    assert_non_null(strstr(stacks.data, ";gemm 5000\n"));
}

static void test_collapsed(void **state)
{
    _cleanup_(trace_done) struct trace t = read_fixture();
    _cleanup_(output_done) struct output o = export_as("collapsed", t.columns, -1, EXPORT_ALL);

    assert_string_equal(o.data, "python 10 / main;outer, \"q\", \xc3\xa9 45000\n"
                                "python 10 / main;outer, \"q\", \xc3\xa9;launch 5000\n"
                                "GPU 0 / thread 7;gemm 30250\n"
                                "python 10 / thread 12;phase 60000\n"
                                "python 10 / request;request 40000\n");
}

static void test_csv(void **state)
{
    _cleanup_(trace_done) struct trace t = read_fixture();
    _cleanup_(output_done) struct output o = export_as("csv", t.columns, -1, EXPORT_ALL);

    assert_non_null(strstr(o.data,
                           "id,ts,dur,name,category,pid,tid,track_id,depth,parent_id,self\r\n0,100000,50000,"
                           "\"outer; \"\"q\"\", \xc3\xa9\",cpu_op,10,11,"));
    assert_non_null(strstr(o.data, "\r\n1,110500,5000,launch,cuda_runtime,10,11,"));
    assert_non_null(strstr(o.data, ",1,0,5000\r\n"));
    assert_non_null(strstr(o.data, ",0,,45000\r\n"));
    assert_non_null(strstr(o.data, ",300000,-1,open,,10,12,"));
}

static void test_speedscope(void **state)
{
    _cleanup_(trace_done) struct trace t = read_fixture();
    _cleanup_(output_done) struct output o = export_as("speedscope", t.columns, -1, EXPORT_ALL);
    _cleanup_json_ j = parse(o);
    json_t *profile, *event, *frames = json_object_get(json_object_get(j, "shared"), "frames");
    size_t i, k, events = 0;

    assert_int_equal(json_array_size(frames), FIXTURE_SLICES);
    json_array_foreach(json_object_get(j, "profiles"), i, profile) {
        int64_t at = json_get_int(profile, "startValue", -1), open[8];
        size_t n_open = 0;

        assert_string_equal(json_get_str(profile, "type"), "evented");
        json_array_foreach(json_object_get(profile, "events"), k, event) {
            int64_t frame = json_get_int(event, "frame", -1);

            assert_true(json_get_int(event, "at", -1) >= at);
            at = json_get_int(event, "at", -1);
            assert_true(frame >= 0 && frame < FIXTURE_SLICES);
            if (streq(json_get_str(event, "type"), "O"))
                open[n_open++] = frame;
            else
                assert_int_equal(open[--n_open], frame);
            events++;
        }
        assert_int_equal(n_open, 0);
        assert_true(at <= json_get_int(profile, "endValue", -1));
    }
    assert_int_equal(events, 2 * FIXTURE_SLICES);
}

/* ------------------------------------------------------------------------------------------------------ */

struct field {
    unsigned number;
    uint64_t value; /* or the size of p */
    const uint8_t *p;
};

static uint64_t varint(const uint8_t **p, const uint8_t *end)
{
    uint64_t value = 0;

    for (unsigned shift = 0;; shift += 7) {
        assert_true(*p < end && shift < 64);
        value |= (uint64_t)(**p & 0x7f) << shift;
        if (*(*p)++ < 0x80)
            return value;
    }
}

static bool next_field(const uint8_t **p, const uint8_t *end, struct field *ret)
{
    uint64_t tag;

    if (*p == end)
        return false;
    tag = varint(p, end);
    *ret = (struct field){.number = (unsigned)(tag >> 3)};
    switch (tag & 7) {
    case 0:
        ret->value = varint(p, end);
        return true;
    case 1:
        assert_true(end - *p >= 8);
        memcpy(&ret->value, *p, 8);
        *p += 8;
        return true;
    case 2:
        ret->value = varint(p, end);
        assert_true(ret->value <= (uint64_t)(end - *p));
        ret->p = *p;
        *p += ret->value;
        return true;
    default:
        fail_msg("wire type %d", (int)(tag & 7));
        return false;
    }
}

/* The n-th field with this number in a message; a field without p and value where there is none. */
static struct field get_field(struct field message, unsigned number, size_t n)
{
    const uint8_t *p = message.p, *end = p ? p + message.value : NULL;
    struct field f;

    while (p && next_field(&p, end, &f)) {
        if (f.number == number && n-- == 0)
            return f;
    }
    return (struct field){0};
}

static bool field_is(struct field f, const char *text)
{
    return f.value == strlen(text) && memcmp(f.p, text, f.value) == 0;
}

static struct output gunzip(struct output in)
{
    struct output o = {.data = malloc(1 << 20)};
    _cleanup_(stream_freep) struct stream *s = NULL;
    struct stream_io io = {(const uint8_t *)in.data, in.size, (uint8_t *)o.data, 1 << 20};
    struct stream_summary summary;

    assert_non_null(o.data);
    assert_int_equal(stream_new(STREAM_LIMITS_DEFAULT, &s), 0);
    stream_decode(s, &io);
    stream_finish(s, &summary);
    assert_int_equal(summary.coding, STREAM_GZIP);
    assert_int_equal(summary.result, STREAM_COMPLETE);
    o.size = summary.out;
    return o;
}

static void test_pprof(void **state)
{
    _cleanup_(trace_done) struct trace t = read_fixture();
    _cleanup_(output_done) struct output packed = export_as("pprof", t.columns, -1, EXPORT_ALL),
                                         o = gunzip(packed);
    struct field profile = {.p = (const uint8_t *)o.data, .value = o.size}, sample;
    uint64_t count = 0, time = 0;
    size_t n, deepest = 0;

    for (n = 0; (sample = get_field(profile, 2, n)).p; n++) {
        struct field locations = get_field(sample, 1, 0), values = get_field(sample, 2, 0);
        const uint8_t *p = values.p, *end = p + values.value;
        struct field label = get_field(sample, 3, 0);
        size_t depth = 0;

        count += varint(&p, end);
        time += varint(&p, end);
        assert_true(p == end);
        assert_true(field_is(get_field(profile, 6, get_field(label, 1, 0).value), "thread"));
        p = locations.p;
        for (end = p + locations.value; p < end; depth++) {
            uint64_t id = varint(&p, end);
            struct field location = get_field(profile, 4, id - 1), function = get_field(profile, 5, id - 1);

            assert_int_equal(get_field(location, 1, 0).value, id);
            assert_int_equal(get_field(get_field(location, 4, 0), 1, 0).value,
                             get_field(function, 1, 0).value);
            if (depth == 0 && locations.value == 2)
                assert_true(field_is(get_field(profile, 6, get_field(function, 2, 0).value), "launch"));
        }
        deepest = MAX(deepest, depth);
    }
    assert_int_equal(n, FIXTURE_SLICES);
    assert_int_equal(count, FIXTURE_SLICES);
    assert_int_equal(time, 30250 + 50000 + 60000 + 40000);
    assert_int_equal(deepest, 2);
    assert_true(field_is(get_field(profile, 6, 0), ""));
    assert_int_equal(get_field(profile, 9, 0).value, 5100000);
}

static void test_perfetto(void **state)
{
    _cleanup_(trace_done) struct trace t = read_fixture();
    _cleanup_(output_done) struct output o = export_as("perfetto", t.columns, -1, EXPORT_ALL);
    struct field trace = {.p = (const uint8_t *)o.data, .value = o.size}, packet;
    unsigned types[6] = {0}, flows = 0, ended_flows = 0, counters = 0;
    bool saw_kernel = false;

    for (size_t i = 0; (packet = get_field(trace, 1, i)).p; i++) {
        struct field event = get_field(packet, 11, 0), descriptor = get_field(packet, 60, 0);
        uint64_t type = get_field(event, 9, 0).value;

        counters += get_field(descriptor, 8, 0).p != NULL;
        if (!event.p)
            continue;
        assert_true(type < ARRAY_SIZE(types));
        types[type]++;
        assert_true(get_field(event, 11, 0).value > 0);
        flows += get_field(event, 47, 0).value == 1;
        ended_flows += get_field(event, 48, 0).value == 1;
        if (get_field(packet, 8, 0).value == 120000 && type == 1) {
            struct field interned = get_field(packet, 12, 0), annotation;
            size_t n = 0;

            saw_kernel = true;
            assert_true(field_is(get_field(get_field(interned, 2, 0), 2, 0), "gemm"));
            while ((annotation = get_field(event, 4, n)).p)
                n++;
            assert_int_equal(n, 5);
        }
    }
    /* request, phase, outer, launch, gemm and open begin; open does not end. */
    assert_int_equal(types[1], 6);
    assert_int_equal(types[2], 5);
    assert_int_equal(types[3], 1);
    assert_int_equal(types[4], 2);
    assert_int_equal(counters, 2);
    assert_int_equal(flows, 1);
    assert_int_equal(ended_flows, 1);
    assert_true(saw_kernel);
}

/* ------------------------------------------------------------------------------------------------------ */

static void test_merge(void **state)
{
    _cleanup_(trace_done) struct trace a = read_fixture(), b = read_fixture();
    struct export_trace traces[] = {
        {.columns = a.columns, .source_fd = a.source_fd, .label = "rank 0", .shift_ns = 7000000000000000},
        {.columns = b.columns, .source_fd = -1, .label = "rank 1", .shift_ns = 7000000000000500},
    };
    _cleanup_(output_done) struct output o = {0};
    FILE *out = open_memstream(&o.data, &o.size);
    json_t *event, *ids[4] = {NULL};
    size_t i, n_ids = 0;

    assert_int_equal(export_merge(traces, 2, &EXPORT_ALL, out), 0);
    fclose(out);

    _cleanup_json_ j = parse(o);
    assert_int_equal(json_get_int(j, "baseTimeNanoseconds", 0), 7000000000100000);
    assert_int_equal(count_events(j, "X"), 8);
    /* All but process and time as it was. */
    assert_non_null(strstr(o.data,
                           "{\"args\": {\"External id\": 7,  \"odd\":[1, 2.50e1]}, \"ph\": \"X\", \"cat\": "
                           "\"cpu_op\", \"name\": \"outer; \\\"q\\\", \\u00e9\", \"pid\": 2, \"tid\": 11, "
                           "\"ts\": 0.000, \"dur\": 50.000}"));
    assert_non_null(strstr(o.data, "\"pid\":4,\"tid\":11,\"ts\":0.500,\"dur\":50.000"));
    /* GPU 0 has no order of its own, python's is 9, nobody did nothing. */
    assert_non_null(strstr(o.data, "\"pid\":1,\"tid\":0,\"args\":{\"name\":\"rank 0 · GPU 0\"}"));
    assert_non_null(strstr(o.data, "\"pid\":2,\"tid\":0,\"args\":{\"name\":\"rank 0 · python 10\"}"));
    assert_non_null(strstr(o.data, "\"pid\":4,\"tid\":0,\"args\":{\"name\":\"rank 1 · python 10\"}"));
    assert_non_null(strstr(o.data, "\"pid\":4,\"tid\":0,\"args\":{\"sort_index\":4}"));
    assert_null(strstr(o.data, "nobody"));

    json_array_foreach(json_object_get(j, "traceEvents"), i, event) {
        if (streq(json_get_str(event, "ph"), "s"))
            ids[n_ids++] = json_object_get(event, "id");
    }
    assert_int_equal(n_ids, 2);
    assert_false(json_equal(ids[0], ids[1]));
}

static void test_merge_part(void **state)
{
    _cleanup_(trace_done) struct trace a = read_fixture(), b = read_fixture();
    struct export_trace traces[] = {
        {.columns = a.columns, .source_fd = a.source_fd},
        {.columns = b.columns, .source_fd = b.source_fd, .shift_ns = 1000000},
    };
    struct export_options early = {.from = 0, .to = 900000, .relative = true};
    struct export_options late = {.from = 1000000, .to = INT64_MAX, .only = "kernel"};
    _cleanup_(output_done) struct output o = {0}, k = {0};
    FILE *out = open_memstream(&o.data, &o.size), *other = open_memstream(&k.data, &k.size);

    assert_int_equal(export_merge(traces, 2, &early, out), 0);
    assert_int_equal(export_merge(traces, 2, &late, other), 0);
    fclose(out);
    fclose(other);

    _cleanup_json_ j = parse(o);
    _cleanup_json_ l = parse(k);
    assert_int_equal(count_events(j, "X"), 4);
    assert_int_equal(count_events(l, "X"), 1);
    assert_int_equal(json_get_int(find_event(l, "X", "gemm"), "pid", 0), 3);
}

static void test_no_common_clock(void **state)
{
    _cleanup_(trace_done) struct trace a = read_fixture();
    struct export_trace t = {.columns = a.columns, .source_fd = -1, .shift_ns = INT64_MAX};
    _cleanup_(fclosep) FILE *out = fopen("/dev/null", "w");

    assert_int_equal(export_merge(&t, 1, &EXPORT_ALL, out), -ERANGE);
}

static void test_errors(void **state)
{
    _cleanup_(trace_done) struct trace t = read_fixture();
    struct export_trace trace = {.columns = t.columns, .source_fd = -1};

    assert_null(export_format_find("no such format"));
    for (size_t i = 0; i < export_formats_count; i++) {
        _cleanup_(fclosep) FILE *full = fopen("/dev/full", "w");

        if (!full)
            skip();
        assert_ptr_equal(export_format_find(export_formats[i].name), &export_formats[i]);
        assert_int_equal(export_trace(&export_formats[i], &trace, &EXPORT_ALL, full), -ENOSPC);
    }
}

/* Many slices on several pages, one of which is damaged. */
static void test_damaged_columns(void **state)
{
    _cleanup_(closep) int fd = file_of("", 0);
    _cleanup_(columns_writer_freep) struct columns_writer *w = NULL;
    _cleanup_(columns_closep) struct columns *c = NULL;
    struct export_trace trace = {.source_fd = -1};
    uint64_t random = 1;

    assert_int_equal(columns_writer_new(fd, &w), 0);
    for (int64_t i = 0; i < 100000; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        columns_put(w, COL_slice_ts, i * 1000);
        columns_put(w, COL_slice_dur, (int64_t)(random >> 40));
        columns_put(w, COL_slice_name, 0);
        columns_put(w, COL_slice_track, 0);
    }
    columns_put(w, COL_track_kind, TRACK_THREAD);
    columns_put_text(w, "name", 4);
    assert_int_equal(columns_writer_finish(w, false, NULL), 0);
    assert_int_equal(pwrite(fd, "damage", 6, 128 << 10), 6);
    assert_int_equal(columns_open(fd, &c, NULL), 0);
    trace.columns = c;

    _cleanup_(fclosep) FILE *out = fopen("/dev/null", "w");
    assert_int_equal(export_trace(export_format_find("csv"), &trace, &EXPORT_ALL, out), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chrome),
        cmocka_unit_test(test_chrome_read_again),
        cmocka_unit_test(test_real_traces_read_again),
        cmocka_unit_test(test_replaced_original),
        cmocka_unit_test(test_selection),
        cmocka_unit_test(test_collapsed),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_speedscope),
        cmocka_unit_test(test_pprof),
        cmocka_unit_test(test_perfetto),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_merge_part),
        cmocka_unit_test(test_no_common_clock),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_damaged_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
