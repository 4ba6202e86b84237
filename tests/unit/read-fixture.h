/* SPDX-License-Identifier: Apache-2.0 */
/* A trace read from memory into columns in memory, for tests. */
#pragma once

#include "base/alloc.h"
#include "base/fs.h"
#include "trace/columns/columns.h"
#include "trace/read/decompress.h"
#include "trace/read/reader.h"
#include <fcntl.h>
#include <sys/mman.h>

#define FIXTURE_FILE_MAX ((size_t)256 << 20)

/* A trace, around whatever stands in it. */
#define HEAD "{\"schemaVersion\": 1, \"traceEvents\": [\n"
#define EVENT                                                                                                \
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"a\", \"pid\": 1, \"tid\": 2, \"ts\": 3, \"dur\": 4}"
#define TAIL "\n]}\n"

struct read_result {
    int result;
    struct read_summary sum;
    char *columns; /* the file; NULL where there is none */
    size_t columns_size;
    int source_fd, columns_fd;
};

static inline int memory_file(const void *data, size_t size)
{
    int fd = memfd_create("test", MFD_CLOEXEC);

    if (fd < 0 || write_all(fd, data, size) < 0)
        abort();
    return fd;
}

/* options: what differs from the defaults; its descriptors are set here. */
static inline struct read_result read_in(const void *data, size_t size, struct read_options options)
{
    struct read_result r = {.source_fd = memory_file(data, size), .columns_fd = memory_file("", 0)};
    int spill_fd = memory_file("", 0);

    options.source_fd = r.source_fd;
    options.columns_fd = r.columns_fd;
    options.spill_fd = spill_fd;
    r.result = trace_read(&options, &r.sum);
    r.columns_size = (size_t)r.sum.columns_bytes;
    if (r.columns_size > 0) {
        r.columns = mmap(NULL, r.columns_size, PROT_READ, MAP_PRIVATE, r.columns_fd, 0);
        if (r.columns == MAP_FAILED)
            abort();
    }
    close(spill_fd);
    return r;
}

static inline void read_result_free(struct read_result *r)
{
    if (r->columns)
        munmap(r->columns, r->columns_size);
    close(r->source_fd);
    close(r->columns_fd);
}

static inline bool same_columns(const struct read_result *a, const struct read_result *b)
{
    return a->columns && b->columns && a->columns_size == b->columns_size &&
           memcmp(a->columns, b->columns, a->columns_size) == 0;
}

static inline struct columns *open_columns(const struct read_result *r)
{
    struct columns *c = NULL;
    char *reason = NULL;

    if (columns_open(r->columns_fd, &c, &reason) < 0)
        abort();
    return c;
}

/* The text of a file that is packed in any way. The caller frees it. */
static inline char *unpack(const void *data, size_t size, size_t *ret_size)
{
    char *text = xcalloc(FIXTURE_FILE_MAX, 1);
    struct stream_io io = {data, size, (uint8_t *)text, FIXTURE_FILE_MAX};
    struct stream *s = NULL;

    if (stream_new(STREAM_LIMITS_DEFAULT, &s) < 0)
        abort();
    stream_decode(s, &io);
    stream_free(s);
    *ret_size = FIXTURE_FILE_MAX - io.out_size;
    return text;
}

static inline void assert_meta_text(const struct columns *c, enum meta_key key, const char *expected)
{
    struct text t = columns_meta_text(c, key);

    assert_int_equal(t.size, strlen(expected));
    assert_memory_equal(t.p, expected, t.size);
}
