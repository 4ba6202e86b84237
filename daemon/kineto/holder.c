/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/kineto/holder.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "base/process_info.h"
#include "daemon/kineto/socket.h"
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>

#define TYPE_DATAGRAM 2

/* "0000000000000000: 00000002 00000000 00000000 0002 01 36466 @dynolog@" */
static uint64_t holder_line_inode(const char *line, const char *path)
{
    unsigned type;
    uint64_t inode;
    int end = 0;

    if (sscanf(line, "%*x: %*x %*x %*x %x %*x %" SCNu64 " %n", &type, &inode, &end) < 2 || end == 0 ||
        type != TYPE_DATAGRAM || !streq(line + end, path))
        return 0;
    return inode;
}

uint64_t kineto_holder_inode(const char *table, size_t size, const char *path)
{
    const char *end = table + size;
    uint64_t inode = 0;

    for (const char *line = table, *next; line < end && inode == 0; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        next = newline ? newline + 1 : end;
        _cleanup_(freep) char *text = xstrndup(line, (size_t)((newline ? newline : end) - line));
        inode = holder_line_inode(text, path);
    }
    return inode;
}

static bool holder_has_socket(pid_t pid, const char *link)
{
    char path[64], target[64];
    struct dirent *entry;
    bool found = false;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    while (dir && !found && (entry = readdir(dir))) {
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
        if (n <= 0)
            continue;
        target[n] = '\0';
        found = streq(target, link);
    }
    if (dir)
        closedir(dir);
    return found;
}

char *kineto_holder(const char *dir)
{
    _cleanup_(freep) char *path =
        dir ? xasprintf("%s/" KINETO_SOCKET_NAME, dir) : xstrdup("@" KINETO_SOCKET_NAME "@");
    _cleanup_(freep) char *table = NULL, *link = NULL;
    _cleanup_(freep) pid_t *pids = NULL;
    struct process_status status;
    char name[PROCESS_NAME_MAX];
    size_t size;

    if (read_file(AT_FDCWD, "/proc/net/unix", HOLDER_TABLE_MAX, &table, &size) < 0)
        return NULL;
    uint64_t inode = kineto_holder_inode(table, size, path);
    if (inode == 0)
        return NULL;
    link = xasprintf("socket:[%" PRIu64 "]", inode);
    size_t n = process_list(&pids);
    for (size_t i = 0; i < n; i++) {
        if (!holder_has_socket(pids[i], link) || process_status_read(pids[i], &status) < 0)
            continue;
        _cleanup_(freep) char *user = process_user_name(status.uid);
        return xasprintf("%s (pid %d, %s)", process_name(pids[i], name), (int)pids[i], user);
    }
    return NULL;
}
