/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest/cgroup.h"

#include "base/alloc.h"
#include "base/fs.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#define GROUP_MODE       0755
#define CONTROL_TEXT_MAX 4096

/* -- The cgroup of this process -- */

static bool has_parent_step(const char *path)
{
    for (const char *at = path; (at = strstr(at, "/..")); at += 3)
        if (at[3] == '/' || at[3] == '\0')
            return true;
    return false;
}

int cgroup_parse(const char *text, size_t size, char **ret)
{
    static const char unified[] = "0::";
    const char *end = text + size, *next;

    for (const char *line = text; line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t n = (size_t)((newline ? newline : end) - line);
        next = newline ? newline + 1 : end;
        if (n <= strlen(unified) || memcmp(line, unified, strlen(unified)) != 0)
            continue;
        if (memchr(line, '\0', n))
            return -EINVAL;
        _cleanup_(freep) char *path = xstrndup(line + strlen(unified), n - strlen(unified));
        if (path[0] != '/' || has_parent_step(path))
            return -EINVAL;
        *ret = TAKE_PTR(path);
        return 0;
    }
    return -ENOENT;
}

/* -- Dividing it -- */

struct ingest_group {
    char *directory; /* DELEGATED/ingest */
    bool has_pids;
};

static int cgroup_write(const char *directory, const char *name, const char *value)
{
    _cleanup_(freep) char *path = xasprintf("%s/%s", directory, name);
    _cleanup_(closep) int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 || write(fd, value, strlen(value)) < 0 ? -errno : 0;
}

static bool has_word(const char *words, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = words; (at = strstr(at, word)); at += n)
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\n' || at[n] == '\0'))
            return true;
    return false;
}

static int cgroup_read(const char *directory, const char *name, char **ret)
{
    _cleanup_(freep) char *path = xasprintf("%s/%s", directory, name);
    size_t size;
    return read_file(AT_FDCWD, path, CONTROL_TEXT_MAX, ret, &size);
}

/* profd does not divide a cgroup that it shares, even where it could. */
static int cgroup_check_delegated(const char *directory, bool *ret_has_pids, const char **ret_reason)
{
    _cleanup_(freep) char *controllers = NULL, *processes = NULL;
    char own[16];

    snprintf(own, sizeof(own), "%d\n", (int)getpid());
    *ret_reason = "there is no cgroup v2 with the memory controller";
    if (cgroup_read(directory, "cgroup.controllers", &controllers) < 0 || !has_word(controllers, "memory"))
        return -EOPNOTSUPP;
    *ret_has_pids = has_word(controllers, "pids");
    *ret_reason = "it is not delegated to profd";
    if (access(directory, W_OK) < 0)
        return -errno;
    *ret_reason = "profd is not alone in it";
    int r = cgroup_read(directory, "cgroup.procs", &processes);
    return r < 0 ? r : streq(processes, own) ? 0 : -EBUSY;
}

static int cgroup_make(const char *path)
{
    return mkdir(path, GROUP_MODE) < 0 && errno != EEXIST ? -errno : 0;
}

/* A cgroup whose children use controllers must contain no process itself: profd moves first. */
static int cgroup_divide(const char *directory, const struct ingest_group *g)
{
    _cleanup_(freep) char *own = xasprintf("%s/main", directory);
    _cleanup_(freep) char *pid = xasprintf("%d", (int)getpid());

    int r = cgroup_make(own);
    if (r >= 0)
        r = cgroup_make(g->directory);
    if (r >= 0)
        r = cgroup_write(own, "cgroup.procs", pid);
    return r < 0
               ? r
               : cgroup_write(directory, "cgroup.subtree_control", g->has_pids ? "+memory +pids" : "+memory");
}

int ingest_group_set_limits(const struct ingest_group *g, const struct ingest_limits *limits)
{
    char bytes[24], tasks[24];

    snprintf(bytes, sizeof(bytes), "%" PRId64, limits->memory);
    snprintf(tasks, sizeof(tasks), "%" PRId64, limits->tasks);
    int r = cgroup_write(g->directory, "memory.max", bytes);
    return r < 0 || !g->has_pids ? r : cgroup_write(g->directory, "pids.max", tasks);
}

int ingest_group_open(const struct ingest_group *g)
{
    _cleanup_(freep) char *path = xasprintf("%s/cgroup.procs", g->directory);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int ingest_group_new(const char *directory, const struct ingest_limits *limits, struct ingest_group **ret,
                     const char **ret_reason)
{
    bool has_pids;

    int r = cgroup_check_delegated(directory, &has_pids, ret_reason);
    if (r < 0)
        return r;
    _cleanup_(ingest_group_freep) struct ingest_group *g = xcalloc(1, sizeof(*g));
    g->directory = xasprintf("%s/ingest", directory);
    g->has_pids = has_pids;
    *ret_reason = "it cannot be divided";
    r = cgroup_divide(directory, g);
    if (r >= 0)
        r = ingest_group_set_limits(g, limits);
    /* Swapped memory counts as well. Kernels without swap have no such file. */
    if (r >= 0 && (r = cgroup_write(g->directory, "memory.swap.max", "0")) == -ENOENT)
        r = 0;
    if (r < 0)
        return r;
    *ret = TAKE_PTR(g);
    return 0;
}

struct ingest_group *ingest_group_free(struct ingest_group *g)
{
    if (!g)
        return NULL;
    free(g->directory);
    free(g);
    return NULL;
}
