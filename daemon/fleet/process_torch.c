/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PyTorch of a process: its maps name the library, and version.py of the same package has the version. The file is
 * read as far as the process's user may read it.
 */
#include "base/alloc.h"
#include "base/fs.h"
#include "daemon/fleet/process.h"
#include <ctype.h>
#include <errno.h>

/* Bytes of /proc/PID/maps, which has some lines for each library. */
#define TORCH_MAPS_MAX       (8 << 20)
#define TORCH_VERSION_PY_MAX (16 << 10)
#define TORCH_VERSION_MAX    64

static const char torch_library[] = "/torch/lib/libtorch_cpu.so";

char *torch_dir_of_maps(const char *maps)
{
    const char *at = strstr(maps, torch_library);

    if (!at || at[strlen(torch_library)] != '\n')
        return NULL;
    const char *line = at;
    while (line > maps && line[-1] != '\n')
        line--;
    const char *path = memchr(line, '/', (size_t)(at - line) + 1);
    return path ? xasprintf("%.*s/torch", (int)(at - path), path) : NULL;
}

char *torch_version_parse(const char *text)
{
    const char *at = strstr(text, "__version__ = ");

    if (!at || (at != text && at[-1] != '\n'))
        return NULL;
    at += strlen("__version__ = ");
    if (*at != '\'' && *at != '"')
        return NULL;
    size_t n = strcspn(at + 1, "'\"\n");
    if (n == 0 || n > TORCH_VERSION_MAX || at[n + 1] != *at || !isdigit((unsigned char)at[1]))
        return NULL;
    for (size_t i = 1; i <= n; i++)
        if (!isalnum((unsigned char)at[i]) && !strchr(".+-_", at[i]))
            return NULL;
    return xstrndup(at + 1, n);
}

int process_torch(pid_t pid, char **ret_version)
{
    _cleanup_(process_file_done) struct process_file file = {0};
    _cleanup_(freep) char *maps = NULL, *dir = NULL, *path = NULL;
    int r = process_read(pid, "maps", TORCH_MAPS_MAX, &maps, NULL);

    *ret_version = NULL;
    if (r < 0)
        return r;
    dir = torch_dir_of_maps(maps);
    if (!dir)
        return strstr(maps, "/libtorch_cpu.so") ? 1 : 0;
    path = xasprintf("%s/version.py", dir);
    if (process_read_file(pid, path, TORCH_VERSION_PY_MAX, &file) >= 0 && file.data)
        *ret_version = torch_version_parse(file.data);
    return 1;
}

char *process_torch_version(pid_t pid)
{
    char *version = NULL;

    process_torch(pid, &version);
    return version;
}
