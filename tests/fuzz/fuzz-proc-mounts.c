/* SPDX-License-Identifier: Apache-2.0 */
/* A path, a NUL, a mount table, a NUL, another mount table. */
#include "daemon/fleet/mount_table.h"
#include "daemon/fleet/process.h"
#include "daemon/fleet/profiler_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *end = text + size;
    const char *theirs = memchr(text, '\0', size);
    const char *ours = theirs ? memchr(theirs + 1, '\0', (size_t)(end - theirs - 1)) : NULL;
    if (!ours)
        return 0;
    _cleanup_(freep) char *path = path_absolute(text, "/", "/home");
    _cleanup_(freep) char *found =
        mounts_translate(theirs + 1, (size_t)(ours - theirs - 1), ours + 1, (size_t)(end - ours - 1), path);
    if (path[0] != '/' || (found && found[0] != '/'))
        abort();
    return 0;
}
