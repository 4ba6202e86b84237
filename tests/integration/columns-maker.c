/* SPDX-License-Identifier: Apache-2.0 */
/* columns-maker TRACE COLUMNS: reads a trace into a columnar file. */
#include "trace/read/reader.h"

#include <err.h>
#include <fcntl.h>

int main(int argc, char **argv)
{
    struct read_options options = {.spill_fd = -1};
    struct read_summary summary;

    if (argc != 3)
        errx(2, "columns-maker TRACE COLUMNS");
    options.source_fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    options.columns_fd = open(argv[2], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (options.source_fd < 0 || options.columns_fd < 0)
        err(1, "%s", argv[options.source_fd < 0 ? 1 : 2]);
    if (trace_read(&options, &summary) < 0)
        errx(1, "%s: %s", argv[1], summary.reason);
    return 0;
}
