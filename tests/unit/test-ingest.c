/* SPDX-License-Identifier: Apache-2.0 */
/* The real profd-ingest under its parent's care, and programs that behave as it must not. */
#include "base/clock.h"
#include "base/fs.h"
#include "daemon/ingest/ingest.h"
#include "proto/ingest.h"
#include "tests/unit/cmocka-all.h"
#include "tests/unit/pack.h"
#include "tests/unit/patience.h"
#include "trace/columns/columns.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define SIZE_LIMIT (INT64_C(64) << 20)
#define MANY_JOBS  40
/* Longer than any of these tests takes; a loop that hangs ends with a failure. */
#define PATIENCE_S 60

struct fixture {
    char dir[32];
    struct event_base *base;
    struct ingest *ingest;
};

struct outcome {
    int times;
    unsigned drops;
    int err;
    enum trace_state state;
    char *reason;
    json_t *facts;
    struct event_base *base;
    struct fixture *fixture;
};

static void on_done(const struct ingest_result *result, void *arg)
{
    struct outcome *o = arg;
    o->times++;
    o->err = result->err;
    o->state = result->state;
    o->reason = xstrdup(result->reason ? result->reason : "");
    o->facts = json_incref(result->facts);
    event_base_loopbreak(o->base);
}

static void outcome_done(struct outcome *o)
{
    free(o->reason);
    json_decref(o->facts);
    *o = (struct outcome){.base = o->base};
}

/* So that a test may use 3 to 6: nothing else of the process gets these numbers. */
static void keep_low_descriptors(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (int low = INGEST_FD_SOURCE; low <= INGEST_FD_SPILL; low++)
        if (fd != low)
            assert_int_equal(dup3(fd, low, O_CLOEXEC), low);
    if (fd > INGEST_FD_SPILL)
        close(fd);
}

static int setup(void **state)
{
    struct fixture *f = xcalloc(1, sizeof(*f));
    strcpy(f->dir, "/tmp/test-ingest-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->base = event_base_new();
    assert_int_equal(ingest_new(f->base, INGEST_PROGRAM, 2, &f->ingest), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    char command[64];

    ingest_free(f->ingest);
    event_base_free(f->base);
    snprintf(command, sizeof(command), "rm -r %s", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

static int new_file(struct fixture *f, const char *name, const void *data, size_t size, mode_t mode)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", f->dir, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, data, size), 0);
    return fd;
}

static void wait_for(struct fixture *f, struct outcome *o)
{
    int64_t end = mono_ns() + patience_ns(PATIENCE_S * NS_PER_S);
    while (o->times == 0 && mono_ns() < end) {
        struct timeval second = {1, 0};
        event_base_loopexit(f->base, &second);
        event_base_dispatch(f->base);
    }
    assert_int_equal(o->times, 1);
}

static void begin(struct ingest *ingest, int source_fd, int dest_fd, int64_t size_max, struct outcome *o)
{
    const struct ingest_request request = {.source_fd = source_fd, .dest_fd = dest_fd, .size_max = size_max};
    ingest_run(ingest, &request, on_done, o);
}

/* A file that a child is content with, or is not looked at. */
static void begin_any(struct fixture *f, struct ingest *ingest, struct outcome *o)
{
    o->base = f->base;
    begin(ingest, new_file(f, "source", "x", 1, 0600), -1, SIZE_LIMIT, o);
}

/* Runs one check to its end, with the size limit and destination given. */
static struct outcome run_limited(struct fixture *f, const void *data, size_t size, int dest_fd,
                                  int64_t size_max)
{
    struct outcome o = {.base = f->base};
    begin(f->ingest, new_file(f, "source", data, size, 0600), dest_fd, size_max, &o);
    assert_int_equal(o.times, 0);
    wait_for(f, &o);
    return o;
}

static void open_columns(struct ingest_columns *ret, void *arg)
{
    struct outcome *o = arg;
    ret->fd = new_file(o->fixture, "columns", NULL, 0, 0600);
    ret->spill_fd = new_file(o->fixture, "spill", NULL, 0, 0600);
}

static void open_full(struct ingest_columns *ret, void *arg)
{
    ret->fd = open("/dev/full", O_RDWR | O_CLOEXEC);
}

static void open_small(struct ingest_columns *ret, void *arg)
{
    open_columns(ret, arg);
    ret->room = 512;
}

/* The same, into columns as well. */
static struct outcome run_into_columns(struct fixture *f, const void *data, size_t size, int64_t memory_max)
{
    struct outcome o = {.base = f->base, .fixture = f};
    const struct ingest_request request = {.source_fd = new_file(f, "source", data, size, 0600),
                                           .dest_fd = new_file(f, "dest", NULL, 0, 0600),
                                           .open_columns = open_columns,
                                           .size_max = SIZE_LIMIT,
                                           .memory_max = memory_max};
    ingest_run(f->ingest, &request, on_done, &o);
    wait_for(f, &o);
    return o;
}

static struct outcome run(struct fixture *f, const void *data, size_t size)
{
    return run_limited(f, data, size, -1, SIZE_LIMIT);
}

static void expect(struct outcome o, enum trace_state state, const char *reason_part)
{
    print_message("%s: %s\n", trace_state_name(o.state), o.reason);
    assert_int_equal(o.err, 0);
    assert_int_equal(o.state, state);
    if (!strstr(o.reason, reason_part))
        fail_msg("reason '%s' has no '%s'", o.reason, reason_part);
    outcome_done(&o);
}

static const char trace[] =
    "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"NVIDIA H200\"}],\n"
    "\"baseTimeNanoseconds\": 1735632360000000000, \"traceEvents\": [\n"
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", \"pid\": 77, \"tid\": 1, \"ts\": 10.500, \"dur\": "
    "2.000},\n"
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"b\", \"pid\": 0, \"tid\": 7, \"ts\": 11.000, \"dur\": "
    "9.250}\n"
    "],\n\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": 3, \"world_size\": 8}, \"traceName\": "
    "\"t.json\"}\n";
/* By sha256sum. */
static const char trace_sha256[] = "9ca5cef6c677008971509ded9a08499ed3fce87f3f4889774414283d653c465e";

static void check_facts(const struct outcome *o)
{
    const json_t *facts = o->facts;

    assert_int_equal(o->err, 0);
    assert_int_equal(o->state, TRACE_COMPLETE);
    assert_string_equal(o->reason, "");
    assert_string_equal(json_get_str(facts, "format"), "kineto");
    assert_int_equal(json_get_int(facts, "uncompressed", -1), strlen(trace));
    assert_int_equal(json_get_int(facts, "rank", -1), 3);
    assert_int_equal(json_get_int(facts, "world_size", -1), 8);
    assert_int_equal(json_get_int(facts, "pid", -1), 77);
    assert_int_equal(json_get_int(facts, "devices", -1), 1);
    assert_string_equal(json_get_str(facts, "device_name"), "NVIDIA H200");
    assert_string_equal(json_get_str(facts, "trace_name"), "t.json");
    assert_string_equal(json_get_str(facts, "backend"), "nccl");
    assert_null(json_get_str(facts, "engine_version"));
    assert_int_equal(json_get_int(facts, "events", -1), 2);
    assert_int_equal(json_get_int(facts, "base_time_ns", -1), 1735632360000000000);
    assert_int_equal(json_get_int(facts, "first_ts_ns", -1), 1735632360000010500);
    assert_int_equal(json_get_int(facts, "last_ts_ns", -1), 1735632360000020250);
    assert_int_equal(json_get_int(facts, "span_ns", -1), 9750);
}

static void test_facts(void **state)
{
    struct outcome o = run(*state, trace, strlen(trace));
    check_facts(&o);
    assert_string_equal(json_get_str(o.facts, "coding"), "plain");
    assert_string_equal(json_get_str(o.facts, "sha256"), trace_sha256);
    assert_int_equal(json_get_int(o.facts, "size", -1), strlen(trace));
    outcome_done(&o);
}

static void check_copy(struct fixture *f, const void *data, size_t size)
{
    _cleanup_(freep) char *copy = NULL;
    char path[64];
    size_t copy_size;

    snprintf(path, sizeof(path), "%s/dest", f->dir);
    assert_int_equal(read_file(AT_FDCWD, path, SIZE_LIMIT, &copy, &copy_size), 0);
    assert_int_equal(copy_size, size);
    assert_memory_equal(copy, data, size);
}

static void test_copies(void **state)
{
    struct fixture *f = *state;
    size_t size;
    _cleanup_(freep) uint8_t *gzip = pack_gzip(trace, strlen(trace), &size);

    struct outcome o = run_limited(f, gzip, size, new_file(f, "dest", NULL, 0, 0600), SIZE_LIMIT);
    check_facts(&o);
    assert_string_equal(json_get_str(o.facts, "coding"), "gzip");
    outcome_done(&o);
    check_copy(f, gzip, size);

    _cleanup_(freep) uint8_t *zstd = pack_zstd(trace, strlen(trace), &size);
    o = run_limited(f, zstd, size, new_file(f, "dest", NULL, 0, 0600), SIZE_LIMIT);
    check_facts(&o);
    outcome_done(&o);
    check_copy(f, zstd, size);
}

/* -- Into columns -- */

static char *columns_path(const struct fixture *f)
{
    return xasprintf("%s/columns", f->dir);
}

static void check_columns(struct fixture *f, const struct outcome *o, int64_t slices)
{
    _cleanup_(columns_closep) struct columns *c = NULL;
    _cleanup_(freep) char *path = columns_path(f), *reason = NULL;
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    const json_t *columns = json_object_get(o->facts, "columns");

    assert_null(json_get_str(o->facts, "columns_reason"));
    assert_int_equal(columns_open(fd, &c, &reason), 0);
    assert_int_equal(columns_rows(c, TABLE_slice), slices);
    assert_int_equal(json_get_int(columns, "slices", -1), slices);
    assert_int_equal(json_get_int(columns, "size", -1), columns_size(c));
}

static void check_group(const json_t *list, size_t i, const char *category, const char *name, int64_t sum_ns)
{
    const json_t *group = json_array_get(list, i);
    assert_string_equal(json_get_str(group, "category"), category);
    if (name)
        assert_string_equal(json_get_str(group, "name"), name);
    assert_int_equal(json_get_int(group, "count", -1), 1);
    assert_int_equal(json_get_int(group, "sum_ns", -1), sum_ns);
}

static void test_columns(void **state)
{
    struct fixture *f = *state;
    size_t size;
    _cleanup_(freep) uint8_t *gzip = pack_gzip(trace, strlen(trace), &size);

    struct outcome o = run_into_columns(f, gzip, size, 0);
    check_facts(&o);
    check_copy(f, gzip, size);
    check_columns(f, &o, 2);
    const json_t *names = json_object_get(o.facts, "names"),
                 *categories = json_object_get(o.facts, "categories");
    assert_int_equal(json_array_size(names), 2);
    check_group(names, 0, "kernel", "b", 9250);
    check_group(names, 1, "cpu_op", "a", 2000);
    assert_int_equal(json_array_size(categories), 2);
    check_group(categories, 0, "kernel", NULL, 9250);
    assert_int_equal(json_get_int(json_object_get(o.facts, "columns"), "gpu_slices", -1), 1);
    assert_int_equal(json_array_size(json_object_get(o.facts, "defects")), 0);
    outcome_done(&o);

    /* The same file says the same of itself, whichever way it was read. */
    o = run_into_columns(f, trace, strlen(trace), 0);
    check_facts(&o);
    assert_string_equal(json_get_str(o.facts, "sha256"), trace_sha256);
    outcome_done(&o);
}

static void test_columns_of_what_was_cut(void **state)
{
    struct fixture *f = *state;
    size_t size;
    _cleanup_(freep) uint8_t *gzip = pack_gzip(trace, strlen(trace), &size);

    struct outcome o = run_into_columns(f, trace, strlen(trace) - 4, 0);
    check_columns(f, &o, 2);
    const json_t *defect = json_array_get(json_object_get(o.facts, "defects"), 0);
    assert_string_equal(json_get_str(defect, "kind"), "truncated");
    assert_int_equal(json_get_int(defect, "count", -1), 1);
    assert_non_null(json_get_str(defect, "text"));
    expect(o, TRACE_TRUNCATED, "truncated after 2 events");

    o = run_into_columns(f, gzip, size - 9, 0);
    check_copy(f, gzip, size - 9);
    expect(o, TRACE_TRUNCATED, "truncated after 2 events: gzip ends after");
}

/* What is no trace is looked at as before: that there are no columns says nothing of the file. */
static void test_no_columns(void **state)
{
    static const char pickle[] = "\x80\x04\x95zz";
    struct fixture *f = *state;

    struct outcome o = run_into_columns(f, pickle, strlen(pickle), 0);
    check_copy(f, pickle, strlen(pickle));
    assert_null(json_object_get(o.facts, "columns"));
    assert_non_null(strstr(json_get_str(o.facts, "columns_reason"), "pickle"));
    assert_non_null(json_get_str(o.facts, "remedy"));
    assert_string_equal(json_get_str(o.facts, "format"), "pickle");
    expect(o, TRACE_COMPLETE, "");

    o = run_into_columns(f, "", 0, 0);
    assert_null(json_object_get(o.facts, "columns"));
    expect(o, TRACE_EMPTY, "0 bytes");
}

/* A trace whose n names differ. */
static char *many_names(size_t n, size_t *ret_size)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, ret_size);

    fputs("{\"traceEvents\": [", f);
    for (size_t i = 0; i < n; i++)
        fprintf(f,
                "%s{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"name %0200zu\", \"pid\": 1, \"tid\": %zu, "
                "\"ts\": %zu, \"dur\": %zu}\n",
                i ? "," : "", i % 2 ? "kernel" : "cpu_op", i, i % 2, 1000000 + 10 * i, 1 + i % 7);
    fputs("]}\n", f);
    fclose(f);
    return text;
}

static void test_the_answer_is_bounded(void **state)
{
    struct fixture *f = *state;
    size_t size;
    _cleanup_(freep) char *text = many_names(5000, &size);

    struct outcome o = run_into_columns(f, text, size, 0);
    assert_int_equal(o.state, TRACE_COMPLETE);
    check_columns(f, &o, 5000);
    const json_t *names = json_object_get(o.facts, "names");
    assert_int_equal(json_array_size(names), 2 * INGEST_NAMES_MAX);
    /* The longest first, of each kind. */
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(json_get_int(json_array_get(names, i * INGEST_NAMES_MAX), "sum_ns", -1), 7000);
    outcome_done(&o);
}

/* Reading that may not have the memory it needs gives up by itself, and the file is as good as it was. */
static void test_columns_without_memory(void **state)
{
    struct fixture *f = *state;
    size_t size;
    _cleanup_(freep) char *text = many_names(100000, &size);

    struct outcome o = run_into_columns(f, text, size, 1 << 20);
    assert_null(json_object_get(o.facts, "columns"));
    assert_non_null(json_get_str(o.facts, "columns_reason"));
    assert_non_null(json_get_str(o.facts, "sha256"));
    expect(o, TRACE_COMPLETE, "");
}

static void check_not_written(struct fixture *f, void (*open)(struct ingest_columns *ret, void *arg))
{
    struct outcome o = {.base = f->base, .fixture = f};
    const struct ingest_request request = {.source_fd = new_file(f, "source", trace, strlen(trace), 0600),
                                           .dest_fd = new_file(f, "dest", NULL, 0, 0600),
                                           .open_columns = open,
                                           .size_max = SIZE_LIMIT,
                                           .memory_max = SIZE_LIMIT};

    ingest_run(f->ingest, &request, on_done, &o);
    wait_for(f, &o);
    check_facts(&o);
    check_copy(f, trace, strlen(trace));
    assert_null(json_object_get(o.facts, "columns"));
    assert_non_null(json_get_str(o.facts, "columns_reason"));
    outcome_done(&o);
}

static void test_columns_cannot_be_written(void **state)
{
    check_not_written(*state, open_full);
    check_not_written(*state, open_small);
}

/* The first and the last instant that there are lie further apart than a number can say. */
static void test_a_span_that_no_number_holds(void **state)
{
    static const char wide[] =
        "{\"traceEvents\": [\n"
        "{\"ph\": \"X\", \"name\": \"a\", \"pid\": 1, \"tid\": 1, \"ts\": -9223372036854775, \"dur\": 1},\n"
        "{\"ph\": \"X\", \"name\": \"b\", \"pid\": 1, \"tid\": 1, \"ts\": 9223372036854774, \"dur\": 1}\n"
        "]}\n";

    struct outcome o = run_into_columns(*state, wide, strlen(wide), 0);
    assert_int_equal(json_get_int(json_object_get(o.facts, "columns"), "slices", -1), 2);
    assert_null(json_object_get(o.facts, "span_ns"));
    expect(o, TRACE_COMPLETE, "");
}

/* -- Without -- */

static void test_defects_are_copied_too(void **state)
{
    struct fixture *f = *state;
    size_t size;
    _cleanup_(freep) uint8_t *gzip = pack_gzip(trace, strlen(trace), &size);

    gzip[size - 6] ^= 1;
    expect(run_limited(f, gzip, size, new_file(f, "dest", NULL, 0, 0600), SIZE_LIMIT), TRACE_CORRUPT,
           "checksum");
    check_copy(f, gzip, size);
}

static void test_states(void **state)
{
    struct fixture *f = *state;
    size_t size;
    _cleanup_(freep) uint8_t *gzip = pack_gzip(trace, strlen(trace), &size);
    char reason[64];

    expect(run(f, "", 0), TRACE_EMPTY, "0 bytes");
    snprintf(reason, sizeof(reason), "gzip ends after %zu bytes", size - 9);
    expect(run(f, gzip, size - 9), TRACE_TRUNCATED, reason);
    expect(run(f, trace, strlen(trace) - 4), TRACE_TRUNCATED, "without closing, 2 events read");
    gzip[14] ^= 0xff;
    expect(run(f, gzip, size), TRACE_CORRUPT, "gzip");
    free(gzip);
    gzip = pack_gzip("\n", 1, &size);
    expect(run(f, gzip, size), TRACE_EMPTY, "no text");
    expect(run(f, "\x80\x04\x95zz", 5), TRACE_COMPLETE, "");
}

static void test_larger_than_the_limit(void **state)
{
    struct fixture *f = *state;
    expect(run_limited(f, trace, strlen(trace), -1, 100), TRACE_UNREADABLE,
           "larger than the limit of 100 bytes");
    expect(run_limited(f, trace, strlen(trace), new_file(f, "dest", NULL, 0, 0600), 100), TRACE_UNREADABLE,
           "larger than the limit");
}

/* Zeros beyond the floor below which the ratio does not matter. */
static void test_bomb(void **state)
{
    struct fixture *f = *state;
    const size_t piece = 64 << 20;
    _cleanup_(freep) uint8_t *zeros = xcalloc(piece, 1);
    size_t size;
    _cleanup_(freep) uint8_t *once = pack_zstd(zeros, piece, &size);
    _cleanup_(freep) uint8_t *bomb = xcalloc(10, size);

    for (size_t i = 0; i < 10; i++)
        memcpy(bomb + i * size, once, size);
    struct outcome o = run(f, bomb, 10 * size);
    assert_true(json_get_int(o.facts, "uncompressed", -1) < INT64_C(300) << 20);
    expect(o, TRACE_CORRUPT, "unpacks to more than 500 times its size");
}

static void test_source_is_no_file(void **state)
{
    struct fixture *f = *state;
    struct outcome o = {.base = f->base};
    int fds[2];

    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    begin(f->ingest, fds[0], -1, SIZE_LIMIT, &o);
    wait_for(f, &o);
    close(fds[1]);
    expect(o, TRACE_UNREADABLE, "cannot be read");
}

/* The destination is full at once. */
static void test_destination_fails(void **state)
{
    struct fixture *f = *state;
    int full = open("/dev/full", O_RDWR | O_CLOEXEC);
    assert_true(full >= 0);
    struct outcome o = run_limited(f, trace, strlen(trace), full, SIZE_LIMIT);
    assert_int_equal(o.err, -ENOSPC);
    assert_int_equal(o.state, TRACE_UNREADABLE);
    assert_non_null(strstr(o.reason, "cannot write the copy"));
    outcome_done(&o);
}

/* A child sends itself where it is told; one that is told nothing does not. */
static void test_joins_its_group(void **state)
{
    struct fixture *f = *state;
    int procs = new_file(f, "cgroup.procs", NULL, 0, 0600);
    char joined[8] = "";

    struct outcome alone = run(f, trace, strlen(trace));
    assert_int_equal(pread(procs, joined, sizeof(joined) - 1, 0), 0);
    ingest_set_group(f->ingest, dup(procs));
    struct outcome grouped = run(f, trace, strlen(trace));
    assert_int_equal(alone.state, TRACE_COMPLETE);
    assert_int_equal(grouped.state, TRACE_COMPLETE);
    outcome_done(&alone);
    outcome_done(&grouped);
    assert_int_equal(pread(procs, joined, sizeof(joined) - 1, 0), 1);
    assert_string_equal(joined, "0");
    close(procs);
}

static void test_many_at_once(void **state)
{
    struct fixture *f = *state;
    struct outcome o[MANY_JOBS];
    char name[32];

    for (int i = 0; i < MANY_JOBS; i++) {
        o[i] = (struct outcome){.base = f->base};
        snprintf(name, sizeof(name), "source-%d", i);
        begin(f->ingest, new_file(f, name, trace, strlen(trace), 0600), -1, SIZE_LIMIT, &o[i]);
    }
    for (int i = 0; i < MANY_JOBS; i++) {
        wait_for(f, &o[i]);
        check_facts(&o[i]);
        outcome_done(&o[i]);
    }
}

/* Descriptors of the parent whose numbers are the child's, each in the other's place. */
static void test_descriptors_that_collide(void **state)
{
    struct fixture *f = *state;
    struct outcome o = {.base = f->base};
    _cleanup_(closep) int source = new_file(f, "source", trace, strlen(trace), 0600);
    _cleanup_(closep) int dest = new_file(f, "dest", NULL, 0, 0600);

    assert_int_equal(dup3(source, 4, O_CLOEXEC), 4);
    assert_int_equal(dup3(dest, 3, O_CLOEXEC), 3);
    begin(f->ingest, 4, 3, SIZE_LIMIT, &o);
    wait_for(f, &o);
    keep_low_descriptors();
    check_facts(&o);
    check_copy(f, trace, strlen(trace));
    outcome_done(&o);
}

/* Puts a shell script in profd-ingest's place. */
static struct ingest *misbehaving(struct fixture *f, const char *script, unsigned children_max)
{
    char path[64], text[256];
    struct ingest *ingest;
    int n = snprintf(text, sizeof(text), "#!/bin/sh\n%s\n", script);

    snprintf(path, sizeof(path), "%s/program", f->dir);
    close(new_file(f, "program", text, (size_t)n, 0700));
    assert_int_equal(ingest_new(f->base, path, children_max, &ingest), 0);
    return ingest;
}

static void test_child_goes_wrong(void **state)
{
    static const struct {
        const char *script, *reason;
    } cases[] = {
        {"kill -SEGV $$", "profd-ingest was killed by SIGSEGV"},
        {"kill -SYS $$", "profd-ingest was killed by SIGSYS"},
        {"kill -XCPU $$", "used up its processor time"},
        {"exit 3", "profd-ingest ended with status 3"},
        {"echo '{\"state\": '", "answered no JSON object"},
        {"echo '[1]'", "answered no JSON object"},
        {"true", "answered no JSON object"},
        {"echo '{\"state\": \"splendid\"}'", "named no state"},
        {"head -c 2000000 /dev/zero", "answered 1048576 bytes or more"},
        {"yes", "answered 1048576 bytes or more"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        _cleanup_(ingest_freep) struct ingest *ingest = misbehaving(f, cases[i].script, 2);
        struct outcome o = {0};
        begin_any(f, ingest, &o);
        wait_for(f, &o);
        expect(o, TRACE_UNREADABLE, cases[i].reason);
    }
}

static void test_child_hangs(void **state)
{
    struct fixture *f = *state;
    _cleanup_(ingest_freep) struct ingest *ingest = misbehaving(f, "exec sleep 1000", 2);
    struct outcome o = {0};

    ingest_set_deadline(ingest, 200 * NS_PER_MS);
    begin_any(f, ingest, &o);
    wait_for(f, &o);
    expect(o, TRACE_UNREADABLE, "did not end in the time");
}

static void test_no_such_program(void **state)
{
    struct fixture *f = *state;
    struct ingest *ingest;
    struct outcome o = {.base = f->base};

    assert_int_equal(ingest_new(f->base, "/nonexistent/profd-ingest", 2, &ingest), 0);
    begin_any(f, ingest, &o);
    assert_int_equal(o.times, 0);
    wait_for(f, &o);
    assert_int_equal(o.err, -ENOENT);
    assert_non_null(strstr(o.reason, "/nonexistent/profd-ingest"));
    outcome_done(&o);
    ingest_free(ingest);
}

/* With one child at a time: the end of profd cancels the file that is read and the one that waits. */
static void test_end_cancels(void **state)
{
    struct fixture *f = *state;
    struct outcome o[2];
    struct ingest *ingest = misbehaving(f, "exec sleep 1000", 1);

    for (size_t i = 0; i < ARRAY_SIZE(o); i++) {
        o[i] = (struct outcome){0};
        begin_any(f, ingest, &o[i]);
        assert_int_equal(o[i].times, 0);
    }
    ingest_free(ingest);
    for (size_t i = 0; i < ARRAY_SIZE(o); i++) {
        assert_int_equal(o[i].times, 1);
        assert_int_equal(o[i].err, -ECANCELED);
        outcome_done(&o[i]);
    }
}

/* With one child at a time: what nobody waits for comes last, whenever it was asked for. */
static void test_background_waits(void **state)
{
    struct fixture *f = *state;
    struct outcome first = {0}, background = {.base = f->base}, last = {0};
    _cleanup_(ingest_freep) struct ingest *ingest = misbehaving(f, "exit 3", 1);
    const struct ingest_request request = {.source_fd = new_file(f, "source", "x", 1, 0600),
                                           .dest_fd = -1,
                                           .size_max = SIZE_LIMIT,
                                           .background = true};

    begin_any(f, ingest, &first);
    ingest_run(ingest, &request, on_done, &background);
    begin_any(f, ingest, &last);
    wait_for(f, &last);
    assert_int_equal(background.times, 0);
    wait_for(f, &background);
    outcome_done(&first);
    outcome_done(&background);
    outcome_done(&last);
}

static void count_drop(void *arg)
{
    struct outcome *o = arg;
    o->drops++;
}

static void open_nothing(struct ingest_columns *ret, void *arg)
{
}

/* Reading takes for ever where the file has more than a byte. */
static void begin_endless(struct fixture *f, struct ingest *ingest, struct outcome *o)
{
    o->base = f->base;
    const struct ingest_request request = {.source_fd = new_file(f, "endless", "xx", 2, 0600),
                                           .source_size = 2,
                                           .dest_fd = -1,
                                           .size_max = SIZE_LIMIT,
                                           .open_columns = open_nothing,
                                           .drop_columns = count_drop,
                                           .user = "a"};
    ingest_run(ingest, &request, on_done, o);
}

static void test_files_of_others_do_not_wait_for_endless_ones(void **state)
{
    struct fixture *f = *state;
    struct outcome endless[3] = {0}, quick = {0};
    struct ingest_metrics m;
    struct ingest *ingest = misbehaving(
        f, "[ $(stat -Lc %s /proc/self/fd/3) -gt 1 ] && exec sleep 1000\necho '{\"state\": \"complete\"}'",
        2);

    ingest_set_slice(ingest, 300 * NS_PER_MS);
    for (size_t i = 0; i < ARRAY_SIZE(endless); i++)
        begin_endless(f, ingest, &endless[i]);
    for (int i = 0; i < 3; i++) {
        begin_any(f, ingest, &quick);
        wait_for(f, &quick);
        assert_int_equal(quick.state, TRACE_COMPLETE);
        outcome_done(&quick);
        quick = (struct outcome){0};
    }
    ingest_metrics(ingest, &m);
    assert_true(m.put_back >= 1 && m.killed == 0 && m.failed == 0);
    assert_int_equal(endless[0].drops + endless[1].drops + endless[2].drops, m.put_back);
    ingest_free(ingest);
    for (size_t i = 0; i < ARRAY_SIZE(endless); i++) {
        assert_int_equal(endless[i].times, 1);
        assert_int_equal(endless[i].err, -ECANCELED);
        outcome_done(&endless[i]);
    }
}

static void test_too_many_wait(void **state)
{
    struct fixture *f = *state;
    struct outcome last = {.base = f->base};
    static struct outcome o[INGEST_WAITING_MAX + 1];
    struct ingest *ingest;

    assert_int_equal(ingest_new(f->base, "/bin/true", 1, &ingest), 0);
    for (size_t i = 0; i < ARRAY_SIZE(o); i++) {
        assert_false(ingest_is_full(ingest));
        begin_any(f, ingest, &o[i]);
    }
    assert_true(ingest_is_full(ingest));
    begin_any(f, ingest, &last);
    wait_for(f, &last);
    assert_int_equal(last.err, -EAGAIN);
    outcome_done(&last);
    ingest_free(ingest);
    for (size_t i = 0; i < ARRAY_SIZE(o); i++) {
        assert_int_equal(o[i].times, 1);
        outcome_done(&o[i]);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_facts),
        TEST(test_copies),
        TEST(test_columns),
        TEST(test_columns_of_what_was_cut),
        TEST(test_no_columns),
        TEST(test_the_answer_is_bounded),
        TEST(test_columns_without_memory),
        TEST(test_columns_cannot_be_written),
        TEST(test_a_span_that_no_number_holds),
        TEST(test_background_waits),
        TEST(test_defects_are_copied_too),
        TEST(test_states),
        TEST(test_larger_than_the_limit),
        TEST(test_bomb),
        TEST(test_source_is_no_file),
        TEST(test_destination_fails),
        TEST(test_joins_its_group),
        TEST(test_many_at_once),
        TEST(test_descriptors_that_collide),
        TEST(test_child_goes_wrong),
        TEST(test_child_hangs),
        TEST(test_no_such_program),
        TEST(test_end_cancels),
        TEST(test_files_of_others_do_not_wait_for_endless_ones),
        TEST(test_too_many_wait),
    };
    keep_low_descriptors();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
