/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/runs/line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct load_line line;
    char *reason = NULL;

    if (load_line_parse((const char *)data, size, &line, &reason) == 0)
        load_line_done(&line);
    free(reason);
    return 0;
}
