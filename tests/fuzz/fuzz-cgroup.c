/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest/cgroup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(freep) char *path = NULL;

    if (cgroup_parse((const char *)data, size, &path) < 0)
        return 0;
    if (path[0] != '/' || strchr(path, '\n') || strstr(path, "/../"))
        abort();
    return 0;
}
