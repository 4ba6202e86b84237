/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/state_dir.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "base/network_fs.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#define FS_TYPE_MAX   64
#define MOUNTINFO_MAX (4 << 20)

#define FUSE_MAGIC    0x65735546

/* "36 35 98:0 /root /mount options [tags] - TYPE source options" */
bool mountinfo_type(const char *text, unsigned major, unsigned minor, char *buf, size_t size)
{
    for (const char *line = text, *next; *line; line = next) {
        size_t n = strcspn(line, "\n");
        unsigned a, b;
        next = line + n + (line[n] == '\n');
        const char *dash = memmem(line, n, " - ", 3);
        if (!dash || sscanf(line, "%*u %*u %u:%u ", &a, &b) != 2 || a != major || b != minor)
            continue;
        snprintf(buf, size, "%.*s", (int)strcspn(dash + 3, " \n"), dash + 3);
        return true;
    }
    return false;
}

static const char *state_dir_fuse_name(const char *path)
{
    _cleanup_(freep) char *text = NULL;
    char type[FS_TYPE_MAX];
    struct stat st;
    size_t size;

    if (stat(path, &st) < 0 || read_file(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, &text, &size) < 0 ||
        !mountinfo_type(text, major(st.st_dev), minor(st.st_dev), type, sizeof(type)))
        return NULL;
    return network_fuse_name(type);
}

/* The path itself or its nearest parent that exists; NULL if that cannot be examined. */
static char *state_dir_find_parent(const char *path, struct statfs *fs)
{
    _cleanup_(freep) char *at = xstrdup(path);

    while (statfs(at, fs) < 0) {
        if (errno != ENOENT || streq(at, "/") || streq(at, "."))
            return NULL;
        _cleanup_(freep) char *copy = xstrdup(at);
        replace_str(&at, dirname(copy));
    }
    return TAKE_PTR(at);
}

/* Files that root creates belong to root: a later profd of the directory's owner could not open the catalog. */
static int state_dir_check_owner(const char *path, struct problem *p)
{
    struct stat st;

    if (geteuid() != 0 || stat(path, &st) < 0 || st.st_uid == 0)
        return 0;
    problem_set(p, -EPERM, PROBLEM_STORAGE,
                "the state directory %s belongs to uid %u, who could not use files that root creates there",
                path, st.st_uid);
    problem_remedy(p, "Start the profd of that user (systemctl start profd), or choose another directory: "
                      "[profd] state_dir= of profd.conf, or --state-dir.");
    return -EPERM;
}

int state_dir_check(const char *path, struct problem *p)
{
    struct statfs fs;
    _cleanup_(freep) char *there = state_dir_find_parent(path, &fs);

    if (!there)
        return 0; /* its creation reports the error */
    unsigned long f_type = (unsigned int)fs.f_type;
    const char *name = f_type == FUSE_MAGIC ? state_dir_fuse_name(there) : network_fs_name(f_type);
    if (!name)
        return state_dir_check_owner(path, p);
    problem_set(p, -EREMOTE, PROBLEM_STORAGE,
                "the state directory %s is on %s, where SQLite's write-ahead log cannot live", path, name);
    problem_remedy(
        p,
        "Choose a directory on a disk of this host: [profd] state_dir= of profd.conf, --state-dir%s. "
        "Traces may be collected from anywhere.",
        geteuid() == 0 ? ""
                       : ", or XDG_STATE_HOME, for profctl too: mkdir -m 700 /var/tmp/$USER; export "
                         "XDG_STATE_HOME=/var/tmp/$USER");
    return -EREMOTE;
}
