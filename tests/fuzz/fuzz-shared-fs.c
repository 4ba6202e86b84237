/* SPDX-License-Identifier: Apache-2.0 */
/* A path, a NUL, a mount table. */
#include "daemon/fleet/profiler_config.h"
#include "daemon/fleet/shared_fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *end = text + size;
    const char *table = memchr(text, '\0', size);
    _cleanup_(shared_dir_done) struct shared_dir d = {0};

    if (!table)
        return 0;
    _cleanup_(freep) char *path = path_absolute(text, "/", "/home");
    if (!shared_dir_find(table + 1, (size_t)(end - table - 1), path, &d))
        return 0;
    if (!d.source[0] || d.root[0] != '/' || !shared_dir_is_same(&d, &d))
        abort();
    return 0;
}
