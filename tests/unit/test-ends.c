/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "trace/read/format.h"

/* As if head and tail were cut from the text at these sizes. */
static struct trace_ends read_cut(const char *text, size_t size, size_t head_size, size_t tail_size)
{
    struct trace_ends e;
    struct ends_input in = {
        .head = text,
        .head_size = MIN(size, head_size),
        .tail = text + size - MIN(size, tail_size),
        .tail_size = MIN(size, tail_size),
        .total = size,
    };
    ends_read(&in, &e);
    return e;
}

static struct trace_ends read_whole(const char *text)
{
    return read_cut(text, strlen(text), SIZE_MAX, SIZE_MAX);
}

#define EVENTS                                                                                               \
    "\"traceEvents\": [\n"                                                                                   \
    "{\"name\": \"process_name\", \"ph\": \"M\", \"ts\": 1, \"pid\": 0, \"tid\": 0, \"args\": {}},\n"        \
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k]}\\\"\", \"pid\": 3, \"tid\": 7, \"ts\": 1.5, "      \
    "\"dur\": 2},\n"                                                                                         \
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 4711, \"tid\": 1, \"ts\": 1, "    \
    "\"dur\": 2, "                                                                                           \
    "\"args\": {\"Input Dims\": [[1, 2], [\"[\"]]}}\n"                                                       \
    "]"
#define RANK                                                                                                 \
    "\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 5, \"world_size\": 16, \"pg_count\": 1, "        \
    "\"pg_config\": [{\"pg_name\": \"0\", \"rank\": 99, \"ranks\": \"[0, 1]\"}]}"
#define DEVICES                                                                                              \
    "\"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H200\", \"x\": {\"name\": \"no\"}}, {\"id\": 1, " \
    "\"name\": \"other\"}]"

static const char rank_in_front[] =
    "{\"schemaVersion\": 1, " DEVICES ", " RANK
    ", \"vllm_version\": \"0.11.0\", \"displayTimeUnit\": \"ms\", "
    "\"baseTimeNanoseconds\": 1735632360000000000, " EVENTS ", \"traceName\": \"/tmp/a\\\"b\\/c.json\"}\n";
static const char rank_behind[] = "\n{\n \"schemaVersion\": 1,\n " DEVICES ",\n " EVENTS
                                  ",\n \"INFO\": [\"a]}\", \"b\"],\n \"vllm_version\": \"0.11.0\",\n "
                                  "\"traceName\": \"/tmp/a\\\"b\\/c.json\",\n " RANK
                                  ",\n \"baseTimeNanoseconds\": 1735632360000000000\n}\n";

static void check_facts(const struct trace_ends *e)
{
    assert_int_equal(e->format, FORMAT_KINETO);
    assert_true(e->closes);
    assert_int_equal(e->rank, 5);
    assert_int_equal(e->world_size, 16);
    assert_string_equal(e->backend, "nccl");
    assert_int_equal(e->devices, 2);
    assert_string_equal(e->device_name, "NVIDIA H200");
    assert_int_equal(e->pid, 4711);
    assert_int_equal(e->base_time_ns, 1735632360000000000);
    assert_string_equal(e->trace_name, "/tmp/a\"b/c.json");
    assert_string_equal(e->engine_version, "0.11.0");
}

static void test_facts_at_either_end(void **state)
{
    struct trace_ends e = read_whole(rank_in_front);
    check_facts(&e);
    e = read_whole(rank_behind);
    check_facts(&e);
}

static void test_request_trace_id(void **state)
{
    char text[3 * REQUEST_TRACE_ID_SIZE], id[2 * REQUEST_TRACE_ID_SIZE + 1];
    const struct {
        const char *value, *id;
    } cases[] = {{"\"s1-w0-17-0123456789abcdef\"", "s1-w0-17-0123456789abcdef"},
                 {"\"a\\\"b\"", "a\"b"},
                 {"\"\"", ""},
                 {"17", "17"}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        snprintf(text, sizeof(text), "{\"schemaVersion\": 1, \"trace_id\": %s, \"traceEvents\": []}",
                 cases[i].value);
        assert_string_equal(read_whole(text).request_trace_id, cases[i].id);
    }
    /* Of another object. */
    assert_string_equal(
        read_whole("{\"a\": {\"trace_id\": \"x\"}, \"traceEvents\": [{\"ph\": \"X\", \"trace_id\": \"y\"}]}")
            .request_trace_id,
        "");
    memset(id, 'x', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    snprintf(text, sizeof(text), "{\"trace_id\": \"%s\", \"traceEvents\": []}", id);
    assert_int_equal(strlen(read_whole(text).request_trace_id), REQUEST_TRACE_ID_SIZE - 1);
}

/* Head and tail that overlap in nothing, or cut a string, an array or an object in two. */
static void test_any_cut_of_head_and_tail(void **state)
{
    size_t size = strlen(rank_behind);
    size_t behind = size - (size_t)(strstr(rank_behind, "\"vllm_version") - rank_behind);
    size_t front = (size_t)(strstr(rank_behind, "\"INFO\"") - rank_behind);

    for (size_t tail = behind; tail <= size; tail++) {
        struct trace_ends e = read_cut(rank_behind, size, front, tail);
        check_facts(&e);
    }
    for (size_t head = 3; head < size; head++) {
        struct trace_ends e = read_cut(rank_behind, size, head, behind);
        assert_true(e.closes);
        assert_int_equal(e.rank, 5);
        assert_int_equal(e.base_time_ns, 1735632360000000000);
    }
}

/* No proper prefix of a trace closes, also those that end in a bracket. */
static void check_prefixes(const char *text, size_t tail)
{
    size_t size = strlen(text);
    while (strchr("\n ", text[size - 1]))
        size--;
    for (size_t cut = 2; cut < size; cut++) {
        struct trace_ends e = read_cut(text, cut, SIZE_MAX, tail);
        if (e.closes)
            fail_msg("closes after %zu of %zu bytes", cut, size);
    }
    assert_true(read_cut(text, size, SIZE_MAX, tail).closes);
}

static void test_closing(void **state)
{
    static const char bare[] = "[\n{\"ph\": \"X\", \"cat\": \"cpu_op\", \"pid\": 8, \"ts\": 1, \"dur\": 1, "
                               "\"args\": {\"grid\": [1, 1, 1]}},\n{\"ph\": \"i\"}\n]\n";
    check_prefixes("{\"schemaVersion\": 1, \"args\": {\"a\": [1, {\"b\": \"c\"}, []]}, \"z\": \"\\\\\"}",
                   SIZE_MAX);
    check_prefixes(bare, SIZE_MAX);
    struct trace_ends e = read_whole(bare);
    assert_int_equal(e.format, FORMAT_KINETO);
    assert_int_equal(e.pid, 8);
    assert_int_equal(e.rank, -1);
    /* Of a worker that had nothing to do. */
    e = read_whole(
        "{\"traceEvents\": [{\"name\": \"process_labels\", \"ph\": \"M\", \"pid\": 0, \"args\": "
        "{\"labels\": \"GPU 0\"}}, {\"name\": \"process_labels\", \"ph\": \"M\", \"pid\": 77, "
        "\"args\": {\"labels\": \"CPU\"}}, {\"ph\": \"X\", \"cat\": \"Trace\", \"pid\": \"Spans\", "
        "\"args\": 1}]}");
    assert_int_equal(e.pid, 77);
    assert_true(read_whole("{\"traceEvents\": [{\"ph\": \"X\"},\n ],}").closes);
    assert_false(read_whole("{\"traceEvents\": [{\"ph\": \"X\"},").closes);
    assert_false(read_whole("{\"traceEvents\": [{\"ph\": \"X\"}").closes);
    assert_false(read_whole("{\"traceEvents\": [{\"ph\": \"X\", \"args\": {\"a\": 1}").closes);
    assert_false(read_whole("{").closes);
}

/* Names that the writer did not escape do not make a whole file a cut one. */
static void test_broken_quoting(void **state)
{
    static const char *const names[] = {"a\"b", "C:\\dir\\", "a\"b\"[{c", "x\ny"};
    char text[1024];

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        snprintf(text, sizeof(text),
                 "{\"schemaVersion\": 1, \"traceEvents\": [\n{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": "
                 "\"%s\", "
                 "\"pid\": 1, \"ts\": 1, \"dur\": 1}\n],\n\"distributedInfo\": {\"rank\": 3}\n}",
                 names[i]);
        struct trace_ends e = read_whole(text);
        assert_true(e.closes);
        assert_int_equal(e.rank, 3);
    }
}

static void test_numbers(void **state)
{
    assert_int_equal(read_whole("{\"distributedInfo\": {\"rank\": \"12\"}}").rank, 12);
    assert_int_equal(read_whole("{\"distributedInfo\": {\"rank\": null}}").rank, -1);
    assert_int_equal(read_whole("{\"distributedInfo\": {\"rank\": 99999999999999999999}}").rank, -1);
    assert_int_equal(read_whole("{\"distributedInfo\": 5}").rank, -1);
    assert_int_equal(read_whole("{\"deviceProperties\": []}").devices, 0);
    assert_int_equal(read_whole("{\"traceEvents\": []}").devices, -1);
}

static void test_long_text_is_cut(void **state)
{
    char text[2000] = "{\"traceName\": \"";
    size_t n = strlen(text);

    memset(text + n, 'n', 1500);
    strcpy(text + n + 1500, "\"}");
    struct trace_ends e = read_whole(text);
    assert_int_equal(strlen(e.trace_name), sizeof(e.trace_name) - 1);
    assert_true(e.closes);
}

static void test_formats(void **state)
{
#define CASE(text, word)                                                                                     \
    {                                                                                                        \
        text, sizeof(text) - 1, word                                                                         \
    }
    static const struct {
        const char *text;
        size_t size;
        const char *format;
    } cases[] = {
        CASE("", "empty"),
        CASE(" \n", "empty"),
        CASE("{\"traceEvents\": [{\"ph\": \"B\", \"ts\": 1}]}", "chrome"),
        CASE("{\"traceEvents\": [], \"traceName\": \"x\"}", "kineto"),
        CASE("{\"rocprofiler-sdk-tool\": [{\"metadata\": {}}]}", "rocprofv3"),
        CASE("[[1, 2], [[3]]]", "memory-timeline"),
        CASE("[{\"frame\": {\"name\": \"f\"}, \"metrics\": {}}]", "json"),
        CASE("{\"error\": \"Not Found\"}", "json"),
        CASE("SQLite format 3\0\x10\0..CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (", "nsys-sqlite"),
        CASE("SQLite format 3\0\x10\0..CREATE TABLE t (", "sqlite"),
        CASE("\x80\x04\x95\x10\0\0\0", "pickle"),
        CASE("# callgrind format\nversion: 1\n", "callgrind"),
        CASE("version: 1\ncreator: x\nevents: ns\nfn=a\n1 2\n", "callgrind"),
        CASE("<!DOCTYPE html>\n<html>", "html"),
        CASE("\n<HTML lang=en>", "html"),
        CASE("-----  ----\nName   Self CUDA\n", "text"),
        CASE("{\xfb\x01\x02\0", "binary"),
        CASE("\x7f"
             "ELF\x02\x01",
             "binary"),
    };
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct trace_ends e = read_cut(cases[i].text, cases[i].size, SIZE_MAX, SIZE_MAX);
        assert_string_equal(format_name(e.format), cases[i].format);
        assert_int_equal(format_from_name(cases[i].format), e.format);
        assert_true(e.closes);
    }
    assert_int_equal(format_from_name("no such"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts_at_either_end),      cmocka_unit_test(test_request_trace_id),
        cmocka_unit_test(test_any_cut_of_head_and_tail), cmocka_unit_test(test_closing),
        cmocka_unit_test(test_broken_quoting),           cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_long_text_is_cut),         cmocka_unit_test(test_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
