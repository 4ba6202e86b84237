/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/engine.h"
#include "daemon/fleet/mount_table.h"
#include "daemon/fleet/process.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "base/process_info.h"
#include "daemon/fleet/profiler_config.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

/* -- Directories of a process -- */

#define PROC_PATH_MAX 64

/* A process's own view of a path: the deepest directory of it that exists, opened, and what is left of the
 * path. */
struct inside {
    int fd;
    const char *rest; /* of path: "" or "/missing/part" */
    struct stat st;
};

/* Of a process that registered by itself: no section of profd.conf is about it. */
#define PROCESS_DIR_REMEDY                                                                                   \
    "--trace-dir DIR: the directory on profd's host where its traces appear\n"                               \
    "or start the process with KINETO_ONDEMAND_TRACE_DIR=DIR, a directory that its user may write to and "   \
    "profd "                                                                                                 \
    "may read"
#define DIR_REMEDY                                                                                           \
    "--trace-dir DIR: the directory on profd's host where the traces appear\n"                               \
    "or in profd.conf: [worker %s] trace_dir=/where/its/traces/appear"

void process_remedy_unknown(const struct worker *w, struct problem *p)
{
    if (worker_is_on_demand(w))
        problem_remedy(p, PROCESS_DIR_REMEDY);
    else
        problem_remedy(p, DIR_REMEDY, w->url);
}

void process_remedy_denied(const struct worker *w, struct problem *p)
{
    if (worker_is_on_demand(w)) {
        problem_remedy(p, PROCESS_DIR_REMEDY
                       "\nor give profd CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH by " FOREIGN_DROP_IN);
        return;
    }
    problem_remedy(p, DIR_REMEDY "\nor give profd CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH by " FOREIGN_DROP_IN,
                   w->url);
}

/* The parent of path's first n bytes: the length of what is left when its last component is cut off. */
static size_t parent_length(const char *path, size_t n)
{
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    return n;
}

static bool is_own_root(const struct stat *st)
{
    struct stat own;
    return stat("/", &own) == 0 && st->st_dev == own.st_dev && st->st_ino == own.st_ino;
}

/* Where the process's root is profd's own, any open() follows links as the process does. What /proc has there
 * is each process's own. */
static int open_inside_own_root(int root_fd, const char *path, int flags)
{
    struct stat root;

    if (starts_with(path, "/proc/") || fstat(root_fd, &root) < 0 || !is_own_root(&root))
        return -ENOSYS;
    int fd = open(path, O_PATH | O_CLOEXEC | flags);
    return fd < 0 ? -errno : fd;
}

/* Links are followed as the process follows them: an absolute one starts at its root, not at profd's. */
static int open_inside(int root_fd, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(O_PATH | O_CLOEXEC | flags),
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));

    if (fd < 0 && errno == ENOSYS)
        return open_inside_own_root(root_fd, path, flags);
    return fd < 0 ? -errno : fd;
}

bool process_same_user_namespace(pid_t pid)
{
    _cleanup_(freep) char *theirs = NULL;
    _cleanup_(freep) char *ours = NULL;
    return process_link(pid, "ns/user", &theirs) == 0 && process_link(getpid(), "ns/user", &ours) == 0 &&
           streq(theirs, ours);
}

char *process_translate_by_mounts(pid_t pid, const char *path)
{
    _cleanup_(freep) char *theirs = NULL;
    _cleanup_(freep) char *ours = NULL;
    size_t theirs_size, ours_size;

    if (process_read(pid, "mountinfo", MOUNTS_SIZE_MAX, &theirs, &theirs_size) < 0 ||
        process_read(getpid(), "mountinfo", MOUNTS_SIZE_MAX, &ours, &ours_size) < 0)
        return NULL;
    return mounts_translate(theirs, theirs_size, ours, ours_size, path);
}

static int find_inside(int root_fd, const char *path, struct inside *ret)
{
    size_t n = strlen(path);

    for (;;) {
        _cleanup_(freep) char *prefix = xstrndup(path, n);
        int fd = open_inside(root_fd, prefix, O_DIRECTORY);
        if (fd >= 0) {
            *ret = (struct inside){.fd = fd, .rest = n == 1 ? path : path + n};
            if (strlen(path) == n)
                ret->rest = "";
            return fstat(fd, &ret->st) < 0 ? -errno : 0;
        }
        if (fd != -ENOENT || n <= 1)
            return fd;
        n = parent_length(path, n);
    }
}

/* Takes the candidate if it is the directory that the process means. Frees it where not. */
static char *take_same_directory(char *candidate, const struct inside *in)
{
    struct stat st;
    if (candidate && stat(candidate, &st) == 0 && st.st_dev == in->st.st_dev && st.st_ino == in->st.st_ino)
        return candidate;
    free(candidate);
    return NULL;
}

static char *with_rest(char *directory, const char *rest)
{
    if (!directory || !*rest)
        return directory;
    char *path = mount_path_join(directory, rest);
    free(directory);
    return path;
}

/* The longest `from` that leads to path wins. */
static char *translate_by_map(const struct worker *w, const struct fleet_config *config, const char *path)
{
    const struct path_map *best = NULL;
    size_t best_n = 0;

    for (size_t i = 0; config && i < config->n_maps; i++) {
        const struct path_map *map = &config->maps[i];
        size_t n = strlen(map->from);
        while (n > 0 && map->from[n - 1] == '/')
            n--;
        if (strncmp(path, map->from, n) != 0 || (path[n] != '/' && path[n] != '\0') || (best && n <= best_n))
            continue;
        best = map;
        best_n = n;
    }
    return best ? with_rest(worker_fill_path(w, best->to), path + best_n) : NULL;
}

/* The path of an open directory without links, as far up as its mount namespace goes; NULL where it has none.
 */
static char *canonical_path(int fd)
{
    char link[PROC_PATH_MAX], path[PATH_MAX];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path));
    return n > 0 && (size_t)n < sizeof(path) && path[0] == '/' ? xstrndup(path, (size_t)n) : NULL;
}

/* The process's directory under a name that profd can open, with its rest. The names that outlive the process
 * come first. */
static char *name_outside(const struct worker *w, const struct fleet_config *config, const char *path,
                          int root_fd, const struct inside *in)
{
    size_t n_prefix = strlen(path) - strlen(in->rest);
    char *name = take_same_directory(n_prefix ? xstrndup(path, n_prefix) : xstrdup("/"), in);
    if (name)
        return with_rest(name, in->rest);

    _cleanup_(freep) char *canonical = canonical_path(in->fd);
    _cleanup_(freep) char *root = canonical_path(root_fd);
    if (!canonical || !root)
        return NULL;
    name = take_same_directory(xstrdup(canonical), in);
    if (name)
        return with_rest(name, in->rest);
    if ((name = translate_by_map(w, config, path)))
        return name;
    /* What its own root is below of, the process does not see. */
    size_t n_root = streq(root, "/") ? 0 : strlen(root);
    if (strncmp(canonical, root, n_root) != 0)
        return NULL;
    const char *own = canonical[n_root] ? canonical + n_root : "/";
    name = take_same_directory(process_translate_by_mounts(w->pid, own), in);
    if (!name)
        name = take_same_directory(xasprintf("/proc/%d/root%s", (int)w->pid, own), in);
    return with_rest(name, in->rest);
}

static char *not_readable(const struct worker *w, const char *path, int error, struct problem *p)
{
    if (error == -EACCES || error == -EPERM) {
        _cleanup_(freep) char *user = process_user_name(w->uid);
        problem_set(
            p, error, PROBLEM_DENIED,
            "trace directory %s cannot be reached: process %d belongs to %s (its file system cannot be "
            "seen)",
            path, (int)w->pid, user);
        process_remedy_denied(w, p);
        return NULL;
    }
    problem_set(p, error, PROBLEM_NOT_FOUND, "trace directory %s cannot be reached in process %d: %s", path,
                (int)w->pid,
                error == -ENOSYS ? "this kernel has no openat2(), which Linux 5.6 brought"
                                 : strerror(-error));
    process_remedy_unknown(w, p);
    return NULL;
}

static char *resolve_in_process(const struct worker *w, const struct fleet_config *config, const char *path,
                                struct problem *p)
{
    char link[PROC_PATH_MAX];
    struct inside in = {.fd = -1};
    char *name;

    snprintf(link, sizeof(link), "/proc/%d/root", (int)w->pid);
    _cleanup_(closep) int root_fd = open(link, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0) {
        int error = -errno;
        name = translate_by_map(w, config, path);
        if (!name)
            name = process_translate_by_mounts(w->pid, path);
        return name ? name : not_readable(w, path, error, p);
    }
    int r = find_inside(root_fd, path, &in);
    if (r < 0) {
        name = translate_by_map(w, config, path);
        return name ? name : not_readable(w, path, r, p);
    }
    name = name_outside(w, config, path, root_fd, &in);
    close(in.fd);
    return name ? name : not_readable(w, path, -ENOENT, p);
}

int process_check_dir(const struct worker *w, const char *local, struct problem *p)
{
    struct stat st;
    int error = 0;

    bool is_there = stat(local, &st) == 0;
    if (!is_there && errno == ENOENT)
        return 0;
    if (is_there && !S_ISDIR(st.st_mode))
        error = -ENOTDIR;
    else if (faccessat(AT_FDCWD, local, R_OK | X_OK, AT_EACCESS) < 0)
        error = -errno;
    if (error == 0)
        return 0;
    problem_set(p, error, error == -EACCES ? PROBLEM_DENIED : PROBLEM_NOT_FOUND,
                "trace directory %s cannot be read: %s", local, strerror(-error));
    if (error == -EACCES) {
        _cleanup_(freep) char *user = process_user_name(geteuid());
        problem_remedy(p,
                       "--trace-dir DIR, if the traces also appear in a directory that profd can read\n"
                       "or let profd's user read it: setfacl -m u:%s:rx %s\n"
                       "or let profd read all directories: " FOREIGN_DROP_IN,
                       user, local);
    } else
        process_remedy_unknown(w, p);
    return error;
}

char *process_resolve_path(const struct worker *w, const struct fleet_config *config, const char *path,
                           struct problem *p)
{
    if (path_is_uri(path)) {
        problem_set(p, -EOPNOTSUPP, PROBLEM_UNSUPPORTED,
                    "traces cannot be collected: %s is no directory of a host", path);
        problem_remedy(p, "start the engine with a local profiler directory");
        return NULL;
    }
    _cleanup_(freep) char *clean = path_absolute(path, NULL, NULL);
    if (!clean) {
        problem_set(p, -EINVAL, PROBLEM_NOT_FOUND, "trace directory %s is relative to an unknown directory",
                    path);
        process_remedy_denied(w, p);
        return NULL;
    }
    char *local = w->pid > 0 ? resolve_in_process(w, config, clean, p) : translate_by_map(w, config, clean);
    if (!local && w->pid <= 0) {
        problem_set(p, -ENOENT, PROBLEM_NOT_FOUND,
                    "where the worker's %s is on this host is unknown: its process is not known", clean);
        problem_remedy(
            p,
            "--trace-dir DIR: the directory on profd's host where the traces appear\n"
            "or in profd.conf: [worker %s] trace_dir=/where/its/traces/appear, or in its fleet's section "
            "map_path=%s:/the/same/here",
            w->url, clean);
    }
    if (local && process_check_dir(w, local, p) < 0)
        free(TAKE_PTR(local));
    return local;
}

int process_user_read(pid_t pid, struct process_status *ret)
{
    int r = pid > 0 ? process_status_read(pid, ret) : -ESRCH;
    if (r == 0 && !process_same_user_namespace(pid))
        ret->capabilities = 0;
    return r;
}

/*
 * The kernel gives /proc/PID of a program that was started with granted rights to root, also after it has given them up. One
 * that has made itself root's in every respect, as sudo does, is known by its file; other users' files may not be seen, but
 * of these only root's need that.
 */
int process_is_of_user(pid_t pid, const struct process_status *user)
{
    char path[PROC_PATH_MAX];
    struct stat st;

    if (!user->is_one_user)
        return 0;
    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (stat(path, &st) < 0)
        return -1;
    if (st.st_uid != user->uid)
        return 0;
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    if (stat(path, &st) < 0)
        return user->uid == 0 ? -1 : 1;
    return !(st.st_mode & (S_ISUID | S_ISGID));
}

/* Above a container's root the process never walks. Cuts path. */
static int may_walk_to(const struct process_status *user, char *path)
{
    struct stat st;
    size_t n = strlen(path);
    int may = 1;

    while (may == 1 && n > 1 && !starts_with(path, "/proc/")) {
        n = parent_length(path, n);
        path[n] = '\0';
        may = stat(path, &st) < 0 ? -1 : process_user_may(user, path, &st, 1);
    }
    return may;
}

static bool has_own_root(pid_t pid)
{
    char link[PROC_PATH_MAX];
    struct stat root;

    snprintf(link, sizeof(link), "/proc/%d/root", (int)pid);
    return stat(link, &root) == 0 && is_own_root(&root);
}

bool process_is_kept_out(const struct worker *w, const struct process_status *user, const char *local_dir)
{
    struct stat st;
    _cleanup_(freep) char *path = xstrdup(local_dir);

    /* On a network file system, only its server decides about permissions. */
    if (stat(local_dir, &st) < 0 || is_remote_fs(local_dir))
        return false;
    return process_user_may(user, local_dir, &st, 2 | 1) == 0 ||
           (has_own_root(w->pid) && may_walk_to(user, path) == 0);
}

int process_user_can_write(const struct process_status *user, const char *local_path)
{
    struct stat st;
    struct statvfs fs;
    size_t n = strlen(local_path);
    _cleanup_(freep) char *path = xstrdup(local_path);

    if (local_path[0] != '/')
        return -1;
    while (stat(path, &st) < 0) {
        if (errno != ENOENT || n <= 1)
            return -1;
        n = parent_length(path, n);
        path[n] = '\0';
    }
    if (!S_ISDIR(st.st_mode))
        return 0;
    /* profd's own sandbox may see a read-only mount where the worker does not. */
    if (statvfs(path, &fs) < 0 || (fs.f_flag & ST_RDONLY))
        return -1;
    int may = process_user_may(user, path, &st, 2 | 1);
    return may == 1 ? may_walk_to(user, path) : may;
}

int process_can_write(const struct worker *w, const char *local_path)
{
    struct process_status user;

    return process_user_read(w->pid, &user) < 0 ? -1 : process_user_can_write(&user, local_path);
}
