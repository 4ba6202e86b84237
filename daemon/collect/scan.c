/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/scan.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "daemon/fleet/process.h"
#include "trace/read/tracename.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>

/* For writing, by one worker. */
#define OPEN_FILES_MAX 4096
#define FD_PATH_MAX    40

static void fill_tree(struct scan_tree *tree)
{
    tree->pids = xcalloc(SCAN_PROCESSES_MAX, sizeof(*tree->pids));
    tree->n_pids = process_tree(tree->root, tree->pids, SCAN_PROCESSES_MAX);
    tree->inner_pids = xcalloc(tree->n_pids, sizeof(*tree->inner_pids));
    for (size_t i = 0; i < tree->n_pids; i++)
        tree->inner_pids[i] = process_inner_pid(tree->pids[i]);
}

/* Directories lie among traces; one in the place of a trace is told of. */
static bool is_called_a_trace(const char *name)
{
    struct trace_name parsed;

    trace_name_parse(name, &parsed);
    return parsed.kind == TRACE_NAME_RANK || parsed.kind == TRACE_NAME_FRONTEND;
}

static void look_at(struct scan_dir *d, int dir_fd, const char *name)
{
    struct stat st;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        (S_ISDIR(st.st_mode) && !is_called_a_trace(name)))
        return;
    VEC_GROW(d->entries, d->n_entries, d->cap_entries);
    struct scan_entry *e = &d->entries[d->n_entries++];
    *e = (struct scan_entry){.name = xstrdup(name),
                             .what = place_describe(st.st_mode),
                             .size = st.st_size,
                             .mtime_ns = st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec,
                             .device = st.st_dev,
                             .inode = st.st_ino,
                             .uid = st.st_uid};
}

static void look_for_openers(struct scan_dir *d, size_t tree)
{
    _cleanup_(freep) struct open_file *files = xcalloc(OPEN_FILES_MAX, sizeof(*files));
    size_t n = process_open_files(d->trees[tree].pids, d->trees[tree].n_pids, files, OPEN_FILES_MAX);

    for (size_t i = 0; i < d->n_entries && n > 0; i++) {
        struct scan_entry *e = &d->entries[i];
        for (size_t k = 0; k < n && e->mtime_ns >= d->newer_than_ns; k++)
            if (files[k].device == e->device && files[k].inode == e->inode)
                e->opened_by |= UINT64_C(1) << tree;
    }
}

/* Of the very directory that is listed: its name may mean another one by now. */
static void add_watch(struct scan_dir *d, int fd)
{
    char path[FD_PATH_MAX];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    d->remote = is_remote_fs(path);
    if (d->inotify_fd < 0 || d->remote)
        return;
    d->watch = inotify_add_watch(d->inotify_fd, path,
                                 IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF |
                                     IN_ONLYDIR);
    d->watch_err = d->watch < 0 ? -errno : 0;
}

void scan_directory(struct scan_dir *d)
{
    struct dirent *entry;

    d->watch = -1;
    int fd = place_open(d->path, &d->place, &d->refusal);
    if (fd < 0) {
        d->err = fd;
        return;
    }
    DIR *dir = fdopendir(fd);
    if (!dir) {
        d->err = -errno;
        close(fd);
        return;
    }
    struct stat st;
    if (fstat(fd, &st) == 0)
        d->device = st.st_dev;
    /* Before the listing: what comes in between is seen twice rather than never. */
    add_watch(d, fd);
    while (d->n_entries < SCAN_ENTRIES_MAX && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            look_at(d, fd, entry->d_name);
    closedir(dir);
    for (size_t i = 0; i < d->n_trees; i++) {
        fill_tree(&d->trees[i]);
        look_for_openers(d, i);
    }
}

void scan_dir_done(struct scan_dir *d)
{
    for (size_t i = 0; i < d->n_entries; i++)
        free(d->entries[i].name);
    for (size_t i = 0; i < d->n_trees; i++) {
        free(d->trees[i].pids);
        free(d->trees[i].inner_pids);
    }
    free(d->trees);
    free(d->entries);
    free(d->path);
    place_done(&d->place);
    free(d->refusal);
    *d = (struct scan_dir){0};
}
