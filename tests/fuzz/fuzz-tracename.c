/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/tracename.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) char *path = strndup((const char *)data, size);
    struct trace_name name;

    if (!path)
        abort();
    trace_name_parse(path, &name);
    if (!trace_stage_name(name.stage) || name.rank < -1 || name.pid < -1)
        abort();
    return 0;
}
