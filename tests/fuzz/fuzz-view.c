/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request to a viewer on a trace that somebody else wrote: a byte with the number of changes to its columns, four bytes for
 * each, the request in a line, and the trace in JSON. The request as it is, and each known one.
 */
#include "base/fs.h"
#include "tests/fuzz/columns-mend.h"
#include "trace/read/reader.h"
#include "trace/view/view.h"

#include <errno.h>
#include <sys/mman.h>

#define MEMORY_MAX  (128 << 20)
#define TEXT_MAX    (1 << 20)
#define PATCHES_MAX 15
#define REQUEST_MAX 4096
/* A patched row count can stand for very many slices. */
#define SLICES_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct patch {
    uint8_t place[3], value;
};

static int read_columns(const uint8_t *text, size_t size)
{
    _cleanup_(closep) int source = memfd_create("trace", MFD_CLOEXEC),
                          spill = memfd_create("spill", MFD_CLOEXEC),
                          columns = memfd_create("columns", MFD_CLOEXEC);
    struct read_options options = {
        .source_fd = source, .columns_fd = columns, .spill_fd = spill, .memory_max = MEMORY_MAX};
    struct read_summary sum;

    if (source < 0 || spill < 0 || columns < 0 || write_all(source, text, size) < 0)
        abort();
    return trace_read(&options, &sum) < 0 || sum.columns_bytes == 0 ? -ENODATA : TAKE_FD(columns);
}

static void apply(int columns, const struct patch *patches, size_t n)
{
    off_t size = lseek(columns, 0, SEEK_END);
    _cleanup_(freep) uint8_t *file = malloc((size_t)size + 1);

    if (!file || pread(columns, file, (size_t)size, 0) != size)
        abort();
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = patches[i].place;
        file[((size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2]) % (size_t)size] = patches[i].value;
    }
    columns_mend(file, (size_t)size);
    if (pwrite(columns, file, (size_t)size, 0) != size)
        abort();
}

static void ask(struct trace_view *v, const char *request, size_t size)
{
    _cleanup_(problem_done) struct problem p = {0};
    struct view_answer answer;

    int r = view_answer(v, request, size, &answer, &p);
    if ((r < 0) != (p.kind != PROBLEM_NONE) || (r < 0 && answer.bytes))
        abort();
    free(answer.bytes);
}

static void ask_all(struct trace_view *v)
{
    static const char *const requests[] = {
        "{\"ask\":\"timeline\",\"trace\":\"t1\",\"gzip\":true}",
        "{\"ask\":\"steps\"}",
        "{\"ask\":\"names\",\"block\":0}",
        "{\"ask\":\"tile\",\"level\":0,\"index\":0}",
        "{\"ask\":\"tile\",\"level\":10,\"index\":0,\"gzip\":true}",
        "{\"ask\":\"tile\",\"level\":62,\"index\":0}",
        "{\"ask\":\"counters\",\"track\":0}",
        "{\"ask\":\"slice\",\"slice\":0}",
        "{\"ask\":\"slice\",\"lane\":0,\"at\":5,\"within\":9223372036854775806}",
        "{\"ask\":\"search\",\"name\":\"a\"}",
        "{\"ask\":\"search\",\"name\":\"e\",\"from\":3,\"to\":4000,\"after\":0,\"limit\":3}",
        "{\"ask\":\"selection\"}",
        "{\"ask\":\"selection\",\"from\":1000,\"to\":9000,\"first_lane\":0,\"last_lane\":0}",
    };

    for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
        ask(v, requests[i], strlen(requests[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(trace_view_freep) struct trace_view *v = NULL;
    _cleanup_(freep) char *reason = NULL;
    struct patch patches[PATCHES_MAX];

    if (size == 0)
        return 0;
    size_t n = MIN((size_t)data[0] % (PATCHES_MAX + 1), (size - 1) / sizeof(*patches));
    if (n > 0)
        memcpy(patches, data + 1, n * sizeof(*patches));
    data += 1 + n * sizeof(*patches);
    size -= 1 + n * sizeof(*patches);
    const uint8_t *end = size > 0 ? memchr(data, '\n', MIN(size, (size_t)REQUEST_MAX)) : NULL;
    if (!end || size > TEXT_MAX)
        return 0;
    size_t line = (size_t)(end - data);
    _cleanup_(closep) int columns = read_columns(end + 1, size - line - 1);
    if (columns < 0)
        return 0;
    apply(columns, patches, n);
    if (trace_view_open(columns, -1, &v, &reason) < 0 || columns_rows(v->c, TABLE_slice) > SLICES_MAX)
        return 0;
    ask(v, (const char *)data, line);
    ask_all(v);
    return 0;
}
