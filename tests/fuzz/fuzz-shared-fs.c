/* SPDX-License-Identifier: Apache-2.0 */
/* A path, a NUL, a mount table, a NUL, the mount table of another host. */
#include "daemon/fleet/profiler_config.h"
#include "daemon/fleet/shared_fs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data, *end = text + size;
    const char *theirs = memchr(text, '\0', size);
    const char *ours = theirs ? memchr(theirs + 1, '\0', (size_t)(end - theirs - 1)) : NULL;
    _cleanup_(shared_dir_done) struct shared_dir d = {0}, again = {0};

    if (!ours)
        return 0;
    const size_t ours_size = (size_t)(end - ours - 1);
    _cleanup_(freep) char *path = path_absolute(text, "/", "/home");
    if (!shared_dir_find(theirs + 1, (size_t)(ours - theirs - 1), path, &d))
        return 0;
    if (!d.source[0] || d.root[0] != '/' || !shared_dir_is_same(&d, &d))
        abort();
    _cleanup_(freep) char *found = shared_dir_mounted(ours + 1, ours_size, &d);
    if (found && (!shared_dir_find(ours + 1, ours_size, found, &again) || !shared_dir_is_same(&d, &again)))
        abort();
    return 0;
}
