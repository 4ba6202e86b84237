/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what a columnar file is made of, and how fast it is read from memory, as one line of JSON:
 *
 *     columns-speed COLUMNS
 *     columns-speed --unpack COLUMNS
 *
 * Bytes by part; for scans of columns, and as their limit copies of an array of as many numbers, GB/s of
 * values of 8 bytes; nanoseconds of a single access at random rows, and of opening.
 *
 * With --unpack: nothing but the values of all columns that are neither arguments nor lanes, each unpacked once: what a
 * thread that looks at all slices needs at least.
 */
#include "base/clock.h"
#include "trace/columns/mapped.h"

#include <err.h>
#include <fcntl.h>
#include <inttypes.h>

#define ROUNDS   5
#define ACCESSES 200000

enum part {
    PART_SLICE,
    PART_ORDERS,
    PART_LANES,
    PART_ARGUMENTS,
    PART_REST,
    _PART_MAX,
};

static const char *const part_names[_PART_MAX] = {"slice", "orders", "lanes", "arguments", "rest"};

static enum part part_of(unsigned column)
{
    enum column_table table = column < _COLUMN_MAX ? column_specs[column].table : TABLE_meta;

    switch (table) {
    case TABLE_slice:
        return PART_SLICE;
    case TABLE_by_track:
    case TABLE_by_name:
        return PART_ORDERS;
    case TABLE_lane:
    case TABLE_by_lane:
    case TABLE_lanemip:
        return PART_LANES;
    case TABLE_flow:
    case TABLE_launch:
        return PART_ARGUMENTS;
    default:
        return table >= TABLE_ARGS_FIRST ? PART_ARGUMENTS : PART_REST;
    }
}

static uint64_t column_bytes(const struct columns *c, const struct column_view *v)
{
    uint64_t bytes = v->rows > 0 ? sizeof(struct layout_column) : 0, offset;

    for (uint64_t first = 0; first < v->rows; first += BLOCK_ROWS) {
        struct packing p = layout_packing(&v->blocks[first / BLOCK_ROWS], &offset);

        bytes +=
            sizeof(struct layout_block) + packing_size(p, (size_t)MIN(v->rows - first, (uint64_t)BLOCK_ROWS));
    }
    return bytes;
}

static void print_parts(const struct columns *c)
{
    uint64_t bytes[_PART_MAX] = {0}, known = 0;

    for (unsigned i = 0; i < _LAYOUT_COLUMN_MAX; i++)
        bytes[part_of(i)] += column_bytes(c, &c->views[i]);
    for (int part = 0; part < PART_REST; part++)
        known += bytes[part];
    bytes[PART_REST] = columns_size(c) - known;
    printf("\"slices\": %" PRIu64 ", \"bytes\": {", columns_rows(c, TABLE_slice));
    for (int part = 0; part < _PART_MAX; part++)
        printf("%s\"%s\": %" PRIu64, part ? ", " : "", part_names[part], bytes[part]);
    printf("}");
}

/* The least time of several runs, in nanoseconds. */
static int64_t least(int64_t least, int64_t began)
{
    int64_t ns = mono_ns() - began;

    return least == 0 || ns < least ? ns : least;
}

static void print_speed(const struct columns *c, enum column column)
{
    static int64_t from[BLOCK_ROWS], values[BLOCK_ROWS];
    static volatile int64_t sum;
    uint64_t rows = columns_rows(c, column_specs[column].table), random = 1;
    int64_t scan = 0, copy = 0, get = 0;

    if (rows == 0)
        return;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t began = mono_ns();

        for (uint64_t row = 0; row < rows; row += BLOCK_ROWS)
            columns_block(c, column, row, BLOCK_ROWS, values);
        scan = least(scan, began);
        began = mono_ns();
        for (uint64_t row = 0; row < rows; row += BLOCK_ROWS) {
            memcpy(values, from, sizeof(values));
            __asm__ volatile("" ::: "memory");
        }
        copy = least(copy, began);
        began = mono_ns();
        for (int i = 0; i < ACCESSES; i++) {
            random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
            sum += columns_get(c, column, (random >> 33) % rows);
        }
        get = least(get, began);
    }
    printf(", \"%s.%s\": {\"scan\": %.1f, \"copy\": %.1f, \"access\": %.1f}", layout_table_of(column),
           layout_name_of(column), (double)rows * 8 / (double)scan, (double)rows * 8 / (double)copy,
           (double)get / ACCESSES);
}

static void unpack(const struct columns *c)
{
    static int64_t values[BLOCK_ROWS];

    for (unsigned i = 0; i < _COLUMN_MAX; i++)
        for (uint64_t row = 0; part_of(i) <= PART_ORDERS && row < columns_rows(c, column_specs[i].table);
             row += BLOCK_ROWS)
            columns_block(c, (enum column)i, row, BLOCK_ROWS, values);
}

int main(int argc, char **argv)
{
    static const enum column columns[] = {COL_slice_ts,       COL_slice_dur,    COL_slice_name,
                                          COL_slice_category, COL_slice_parent, COL_by_name_slice};
    struct columns *c = NULL;
    char *reason = NULL;
    int64_t opening = 0;
    bool only_unpack = argc == 3 && streq(argv[1], "--unpack");
    const char *path = argv[argc - 1];

    if (argc != 2 && !only_unpack)
        errx(EXIT_FAILURE, "usage: columns-speed [--unpack] COLUMNS");
    for (int round = 0; round < (only_unpack ? 1 : ROUNDS); round++) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        int64_t began = mono_ns();

        columns_close(c);
        if (fd < 0 || columns_open(fd, &c, &reason) < 0 || columns_rows(c, TABLE_slice) == 0)
            errx(EXIT_FAILURE, "%s: %s", path, reason ? reason : "cannot be opened, or has no slices");
        opening = least(opening, began);
        close(fd);
    }
    if (only_unpack) {
        unpack(c);
        columns_close(c);
        return 0;
    }
    printf("{");
    print_parts(c);
    printf(", \"open_us\": %.0f", (double)opening / 1000);
    for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
        print_speed(c, columns[i]);
    printf("}\n");
    columns_close(c);
    return 0;
}
