/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as a columnar file: as they are, and with checksums made to fit, so that what lies behind
 * them is reached. */
#include "tests/fuzz/columns-mend.h"
#include "trace/columns/columns.h"
#include "trace/columns/lane_view.h"

#include <sys/mman.h>

/* A few bytes can stand for very many equal rows; those beyond these are asked for here and there. */
#define WALK_ROWS   4096
#define LANE_SLICES 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_value(const struct columns *c, enum column column, int64_t value)
{
    enum column_kind kind = column_specs[column].kind;

    if ((kind == KIND_TEXT || kind == KIND_REAL) && value != COLUMN_NULL &&
        (value < 0 || value >= columns_texts(c)))
        abort();
    if (kind == KIND_ROW && value != COLUMN_NULL && value < 0)
        abort();
}

static void walk_column(const struct columns *c, enum column column)
{
    uint64_t rows = columns_rows(c, column_specs[column].table), step = rows / WALK_ROWS + 1;
    int64_t values[BLOCK_ROWS], min, max;
    uint32_t codes[3];

    for (uint64_t row = 0; row < rows; row += step) {
        uint64_t first = row / BLOCK_ROWS * BLOCK_ROWS;
        int64_t value = columns_get(c, column, row);

        if (row % BLOCK_ROWS == 0 || step > BLOCK_ROWS) {
            size_t n = columns_block(c, column, first, BLOCK_ROWS, values);

            if (n != MIN(rows - first, (uint64_t)BLOCK_ROWS) || values[row - first] != value)
                abort();
            for (size_t i = 0; i < n; i++)
                check_value(c, column, values[i]);
        }
        if (columns_codes(c, column, row, ARRAY_SIZE(codes), codes) != MIN(rows - row, ARRAY_SIZE(codes)) ||
            codes[0] != (uint32_t)MIN((uint64_t)value, (uint64_t)COLUMN_NO_CODE))
            abort();
        if (value != COLUMN_NULL && columns_next_in_range(c, column, row, row + 1, value, value) != row)
            abort();
        if (columns_block_range(c, column, row, &min, &max) && value != COLUMN_NULL &&
            (value < min || value > max))
            abort();
    }
    if (columns_lower_bound(c, column, 0) > rows || columns_lower_bound(c, column, INT64_MAX) > rows)
        abort();
}

static void walk_lanes(const struct columns *c)
{
    const struct lane_view views[] = {lane_view_of(INT64_MIN, INT64_MAX, 16), lane_view_of(0, 100000, 7)};
    struct lane_run runs[16];
    struct lane_table lanes;

    /* Where the columns have none, they are made of the slices: a few bytes can stand for very many. */
    if (columns_rows(c, TABLE_lane) == 0 && columns_rows(c, TABLE_slice) > LANE_SLICES)
        return;
    if (lane_table_open(c, &lanes) < 0)
        return;
    for (uint64_t lane = 0; lane < MIN(lanes.n, UINT64_C(16)); lane++) {
        if (lane_busy(&lanes, lane, INT64_MIN, INT64_MAX) < 0 || lane_busy(&lanes, lane, 5, 100000) < 0)
            abort();
        for (size_t i = 0; i < ARRAY_SIZE(views); i++) {
            uint32_t x = 0;

            for (size_t k = 0, n = lane_view_read(&lanes, lane, &views[i], runs); k < n; k++) {
                if (runs[k].x < x || runs[k].width == 0 || runs[k].width > views[i].pixels - runs[k].x)
                    abort();
                x = runs[k].x + runs[k].width;
            }
        }
    }
    lane_table_done(&lanes);
}

static void walk_texts(const struct columns *c)
{
    uint32_t texts = columns_texts(c), step = texts / WALK_ROWS + 1;
    volatile char sum = 0;

    for (uint32_t i = 0; i < texts && texts - i > step; i += step) {
        struct text t = columns_text(c, i);

        if (t.size > 0)
            sum = (char)(sum + t.p[0] + t.p[t.size - 1]);
    }
    if (texts < WALK_ROWS && columns_find_text(c, "kernel", 6) >= (int64_t)texts)
        abort();
}

/* A server with these bytes, and the file that they are fetched into. */
struct remote {
    const uint8_t *data;
    int fd;
};

static int remote_read(void *arg, uint64_t offset, uint64_t size)
{
    const struct remote *r = arg;

    if (pwrite(r->fd, r->data + offset, size, (off_t)offset) != (ssize_t)size)
        abort();
    return 0;
}

/* Pages that are fetched one after the other read as the complete file does. */
static void walk_partial(const uint8_t *data, size_t size, bool is_sound)
{
    _cleanup_(closep) int fd = memfd_create("part", MFD_CLOEXEC);
    _cleanup_(columns_closep) struct columns *c = NULL;
    _cleanup_(freep) char *reason = NULL;
    struct remote r = {data, fd};
    const struct columns_fetch fetch = {remote_read, &r};

    if (fd < 0 || (columns_open_partial(fd, size, &fetch, &c, &reason) == 0) != is_sound)
        abort();
    for (enum column column = 0; is_sound && column < _COLUMN_MAX; column++)
        walk_column(c, column);
}

static void walk(const uint8_t *data, size_t size)
{
    _cleanup_(closep) int fd = memfd_create("columns", MFD_CLOEXEC);
    _cleanup_(columns_closep) struct columns *c = NULL;
    _cleanup_(freep) char *reason = NULL;

    if (fd < 0 || (size > 0 && write(fd, data, size) != (ssize_t)size))
        abort();
    int r = columns_open(fd, &c, &reason);
    walk_partial(data, size, r == 0);
    if (r < 0)
        return;
    for (enum column column = 0; column < _COLUMN_MAX; column++)
        walk_column(c, column);
    walk_texts(c);
    walk_lanes(c);
    for (enum meta_key key = 0; key < _META_MAX; key++)
        columns_meta_text(c, key);
    for (uint64_t row = 0; row < MIN(columns_rows(c, TABLE_checkpoint), (uint64_t)WALK_ROWS); row++)
        columns_bytes(c, (uint64_t)columns_get(c, COL_checkpoint_window, row),
                      (size_t)columns_get(c, COL_checkpoint_window_size, row));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) uint8_t *mended = malloc(size + 1);

    if (!mended)
        abort();
    walk(data, size);
    memcpy(mended, data, size);
    if (columns_mend(mended, size))
        walk(mended, size);
    return 0;
}
