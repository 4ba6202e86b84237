/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as a trace: what comes out is a sound file, and what its rows were read from can be found.
 */
#include "base/fs.h"
#include "trace/columns/columns.h"
#include "trace/read/event_text.h"
#include "trace/read/reader.h"
#include <errno.h>
#include <sys/mman.h>

#define TEXT_MAX   (4 << 20)
#define MEMORY_MAX (128 << 20)
#define TEXTS_MAX  16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int memory_file(const void *data, size_t size)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    if (fd < 0 || write_all(fd, data, size) < 0)
        abort();
    return fd;
}

static bool is_sound(const struct read_summary *sum)
{
    for (size_t i = 0; i < _DEFECT_MAX; i++)
        if (sum->columns.defects[i] > 0)
            return false;
    return true;
}

/* Where an event that has something wrong with it ends is a matter of opinion. */
static void check_texts(int source_fd, const struct columns *c, bool sound)
{
    _cleanup_(event_source_freep) struct event_source *s = NULL;
    uint64_t rows = columns_rows(c, TABLE_slice);
    struct text text;

    if (event_source_new(source_fd, c, &s) < 0)
        abort();
    for (uint64_t row = 0; row < MIN(rows, (uint64_t)TEXTS_MAX); row++) {
        int r = event_source_text(s, (uint64_t)columns_get(c, COL_slice_offset, row), &text);
        if (r < 0 ? sound : text.p[0] != '{' || (sound && text.p[text.size - 1] != '}'))
            abort();
    }
}

static void check_columns(int source_fd, int columns_fd, const struct read_summary *sum)
{
    _cleanup_(columns_closep) struct columns *c = NULL;
    _cleanup_(freep) char *reason = NULL;

    if (columns_open(columns_fd, &c, &reason) < 0)
        abort();
    if (columns_rows(c, TABLE_slice) != sum->columns.slices || columns_size(c) != sum->columns_bytes)
        abort();
    for (unsigned column = 0; column < _COLUMN_MAX; column++)
        columns_get(c, column, 0);
    if (format_is_trace_json(sum->format))
        check_texts(source_fd, c, is_sound(sum));
    if (columns_damage(c) >= 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(closep) int source = memory_file(data, size), columns = memory_file("", 0);
    struct read_options o = {
        .source_fd = source,
        .columns_fd = columns,
        .spill_fd = -1,
        .memory_max = MEMORY_MAX,
        .text_max = TEXT_MAX,
    };
    struct read_summary sum;
    int r = trace_read(&o, &sum);

    if (r < 0 ? r != -ENOMEM && r != -E2BIG : sum.state == READ_EMPTY && sum.columns_bytes > 0)
        abort();
    if (r == 0 && (sum.state == READ_COMPLETE) != (sum.remedy[0] == 0 && sum.columns_bytes > 0) &&
        sum.state != READ_REFUSED && sum.state != READ_EMPTY)
        abort();
    if (r == 0 && sum.columns_bytes > 0)
        check_columns(source, columns, &sum);
    return 0;
}
