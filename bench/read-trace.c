/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a trace into a columnar file that is synced to disk, and prints what was measured as one line of JSON:
 *
 *     read-trace SOURCE COLUMNS [THREADS]
 */
#include "trace/read/reader.h"
#include "trace/sql/nsys.h"

#include <err.h>
#include <fcntl.h>
#include <inttypes.h>

int main(int argc, char **argv)
{
    struct read_options options = {.sync = true, .spill_fd = -1, .read_sqlite = nsys_read};
    struct read_summary sum;

    if (argc != 3 && argc != 4)
        errx(EXIT_FAILURE, "usage: read-trace SOURCE COLUMNS [THREADS]");
    if (argc == 4)
        options.threads = (unsigned)strtoul(argv[3], NULL, 10);
    options.source_fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (options.source_fd < 0)
        err(EXIT_FAILURE, "%s", argv[1]);
    unlink(argv[2]);
    options.columns_fd = open(argv[2], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (options.columns_fd < 0)
        err(EXIT_FAILURE, "%s", argv[2]);
    /* As profctl: a file without a name next to the columns. */
    options.spill_fd = open("/tmp", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

    if (trace_read(&options, &sum) < 0 || sum.state != READ_COMPLETE)
        errx(EXIT_FAILURE, "%s: %s", argv[1], sum.reason);
    printf("{\"slices\": %" PRIu64 ", \"flows\": %" PRIu64 ", \"strings\": %" PRIu64
           ", \"text_bytes\": %" PRIu64 ", \"columns_bytes\": %" PRIu64 "}\n",
           sum.columns.slices, sum.columns.flows, sum.columns.strings, sum.stream.out, sum.columns_bytes);
    return 0;
}
