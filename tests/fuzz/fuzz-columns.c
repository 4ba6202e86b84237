/* SPDX-License-Identifier: Apache-2.0 */
/* Reads any bytes as a columnar file: as they are, and with checksums made to fit, so that what lies behind
 * them is reached. */
#include "trace/columns/columns.h"
#include "trace/columns/layout.h"

#include <sys/mman.h>

/* A few bytes can stand for very many equal rows; those beyond these are asked for here and there. */
#define WALK_ROWS 4096

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
        if (columns_block_range(c, column, row, &min, &max) && value != COLUMN_NULL &&
            (value < min || value > max))
            abort();
    }
    if (columns_lower_bound(c, column, 0) > rows || columns_lower_bound(c, column, INT64_MAX) > rows)
        abort();
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

static void walk(const uint8_t *data, size_t size)
{
    _cleanup_(closep) int fd = memfd_create("columns", MFD_CLOEXEC);
    _cleanup_(columns_closep) struct columns *c = NULL;
    _cleanup_(freep) char *reason = NULL;

    if (fd < 0 || (size > 0 && write(fd, data, size) != (ssize_t)size))
        abort();
    if (columns_open(fd, &c, &reason) < 0)
        return;
    for (enum column column = 0; column < _COLUMN_MAX; column++)
        walk_column(c, column);
    walk_texts(c);
    for (enum meta_key key = 0; key < _META_MAX; key++)
        columns_meta_text(c, key);
    for (uint64_t row = 0; row < MIN(columns_rows(c, TABLE_checkpoint), (uint64_t)WALK_ROWS); row++)
        columns_bytes(c, (uint64_t)columns_get(c, COL_checkpoint_window, row),
                      (size_t)columns_get(c, COL_checkpoint_window_size, row));
}

static bool mend(uint8_t *file, size_t size)
{
    struct layout_head head = {.magic = COLUMNS_MAGIC, .version = COLUMNS_VERSION};
    struct layout_trailer t;
    size_t at_end = size - sizeof(t);

    if (size < sizeof(head) + sizeof(t))
        return false;
    memcpy(file, &head, sizeof(head));
    memcpy(&t, file + at_end, sizeof(t));
    if (t.sums > at_end || at_end - t.sums < t.n_sums * UINT64_C(4))
        return false;
    for (uint64_t i = 0; i < t.n_sums && i * LAYOUT_PAGE < t.sums; i++) {
        uint32_t sum = layout_sum(0, file + i * LAYOUT_PAGE, MIN(t.sums - i * LAYOUT_PAGE, LAYOUT_PAGE));

        memcpy(file + t.sums + i * sizeof(sum), &sum, sizeof(sum));
    }
    t.version = COLUMNS_VERSION;
    t.sum = 0;
    t.sum =
        layout_sum(layout_sum(0, file + t.sums, at_end - t.sums), &t, offsetof(struct layout_trailer, magic));
    memcpy(t.magic, LAYOUT_END_MAGIC, sizeof(t.magic));
    memcpy(file + at_end, &t, sizeof(t));
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) uint8_t *mended = malloc(size + 1);

    if (!mended)
        abort();
    walk(data, size);
    memcpy(mended, data, size);
    if (mend(mended, size))
        walk(mended, size);
    return 0;
}
