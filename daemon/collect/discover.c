/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The known files of a watched directory, by name; one scan of it: which files there are, how large they are, and which
 * workers have them open; and the merge of the scan into the known files. Files that have changed are growing until
 * admit.c finds them finished.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/collect/pipeline.h"
#include "daemon/fleet/process.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <sys/inotify.h>

/* For writing, by one worker. */
#define OPEN_FILES_MAX 4096
#define FD_PATH_MAX    40
#define RANK_DIRS_MAX  4096 /* of one worker */

/* -- The known files -- */

static int file_compare_names(const void *a, const void *b)
{
    return strcmp(((const struct discovered_file *)a)->name, ((const struct discovered_file *)b)->name);
}

struct discovered_file *file_find(struct watched_dir *d, const char *name)
{
    struct discovered_file key = {.name = (char *)name};
    struct discovered_file **found = tfind(&key, &d->by_name, file_compare_names);
    return found ? *found : NULL;
}

struct discovered_file *file_new(struct watched_dir *d, const char *name)
{
    struct discovered_file *f = xcalloc(1, sizeof(*f));

    *f = (struct discovered_file){.dir = d, .name = xstrdup(name), .checked_size = -1};
    trace_name_parse(name, &f->parsed);
    if (!tsearch(f, &d->by_name, file_compare_names))
        abort(); /* as base/alloc.h */
    TAILQ_INSERT_TAIL(&d->files, f, next);
    return f;
}

void file_free(struct discovered_file *f)
{
    file_set_state(f, FILE_IGNORED);
    tdelete(f, &f->dir->by_name, file_compare_names);
    TAILQ_REMOVE(&f->dir->files, f, next);
    free(f->name);
    free(f);
}

static bool file_is_pending(enum file_state state)
{
    return state == FILE_GROWING || state == FILE_IMPORTING;
}

void file_set_state(struct discovered_file *f, enum file_state state)
{
    f->dir->n_pending += file_is_pending(state);
    f->dir->n_pending -= file_is_pending(f->state);
    f->state = state;
}

bool dir_has_pending(const struct watched_dir *d, const struct collection *of)
{
    const struct discovered_file *f;

    if (d->n_pending == 0 || !of)
        return d->n_pending > 0;
    TAILQ_FOREACH(f, &d->files, next)
        if (file_is_pending(f->state) && file_may_be_of(f, of))
            return true;
    return false;
}

bool file_is_cataloged(const struct discovered_file *f)
{
    struct catalog *catalog = f->dir->collector->catalog;
    _cleanup_(freep) char *origin = xasprintf("%s/%s", f->dir->path, f->name);
    const struct removed_file file = {
        .origin = origin, .size = f->size, .recorded_at = f->mtime_ns, .inode = (int64_t)f->inode};
    struct trace_record known;

    trace_record_init(&known);
    bool is_same = catalog_find_trace_by_origin(catalog, origin, &known) == 0 && known.size == f->size &&
                   known.recorded_at == f->mtime_ns;
    trace_record_done(&known);
    return is_same || catalog_was_removed(catalog, &file);
}

/* -- The scan, on a thread -- */

static void scan_fill_tree(struct scan_tree *tree)
{
    tree->pids = xcalloc(SCAN_PROCESSES_MAX, sizeof(*tree->pids));
    tree->n_pids = process_tree(tree->root, tree->pids, SCAN_PROCESSES_MAX);
    tree->inner_pids = xcalloc(tree->n_pids, sizeof(*tree->inner_pids));
    for (size_t i = 0; i < tree->n_pids; i++)
        tree->inner_pids[i] = process_inner_pid(tree->pids[i]);
}

static void scan_add_rank_dir(struct dir_scan *scan, int dir_fd, const char *path, const char *name);

/* path is below the directory that is scanned, name its last part. */
static void scan_add_entry(struct dir_scan *scan, int dir_fd, const char *path, const char *name)
{
    struct trace_name parsed;
    struct stat st;
    int error;

    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    /* Directories may be next to traces; one under the name of a trace is reported. */
    trace_name_parse(path, &parsed);
    if (S_ISDIR(st.st_mode) && scan->with_rank_dirs)
        scan_add_rank_dir(scan, dir_fd, path, name);
    if (S_ISDIR(st.st_mode) && parsed.kind != TRACE_NAME_RANK && parsed.kind != TRACE_NAME_FRONTEND)
        return;
    VEC_GROW(scan->entries, scan->n_entries, scan->cap_entries);
    scan->entries[scan->n_entries++] =
        (struct scan_entry){.name = xstrdup(path),
                            .kind = file_kind(st.st_mode, &error),
                            .size = st.st_size,
                            .mtime_ns = st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec,
                            .device = st.st_dev,
                            .inode = st.st_ino,
                            .uid = st.st_uid};
}

/* Directories of ranks, in the worker's own directory or in a "prefill" or "decode" of it. */
static bool scan_descends(const char *path, const char *name)
{
    _cleanup_(freep) char *top = name > path ? xstrndup(path, (size_t)(name - path - 1)) : NULL;

    if (!top)
        return trace_name_is_rank_dir(name) || trace_name_is_stage_dir(name);
    return trace_name_is_stage_dir(top) && trace_name_is_rank_dir(name);
}

static void scan_add_rank_dir(struct dir_scan *scan, int dir_fd, const char *path, const char *name)
{
    struct dirent *entry;

    if (!scan_descends(path, name) || scan->n_rank_dirs++ >= RANK_DIRS_MAX)
        return;
    int fd = safe_open_dir_beneath(dir_fd, name);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        closep(&fd);
        return;
    }
    while (scan->n_entries < SCAN_ENTRIES_MAX && (entry = readdir(dir))) {
        _cleanup_(freep) char *below = xasprintf("%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.')
            scan_add_entry(scan, fd, below, below + strlen(path) + 1);
    }
    closedir(dir);
}

static void scan_find_openers(struct dir_scan *scan, size_t tree)
{
    _cleanup_(freep) struct open_file *files = xcalloc(OPEN_FILES_MAX, sizeof(*files));
    size_t n = process_open_files(scan->trees[tree].pids, scan->trees[tree].n_pids, files, OPEN_FILES_MAX);

    for (size_t i = 0; i < scan->n_entries && n > 0; i++) {
        struct scan_entry *e = &scan->entries[i];
        for (size_t k = 0; k < n && e->mtime_ns >= scan->newer_than_ns; k++)
            if (files[k].device == e->device && files[k].inode == e->inode)
                e->opened_by |= UINT64_C(1) << tree;
    }
}

/* Watches the directory that is listed: its path may name another one by now. */
static void scan_add_watch(struct dir_scan *scan, int fd)
{
    char path[FD_PATH_MAX];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    scan->remote = is_remote_fs(path);
    if (scan->inotify_fd < 0 || scan->remote)
        return;
    scan->watch = inotify_add_watch(scan->inotify_fd, path,
                                    IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF |
                                        IN_ONLYDIR);
    scan->watch_err = scan->watch < 0 ? -errno : 0;
}

void discover_scan(void *arg)
{
    struct dir_scan *scan = arg;
    struct dirent *entry;
    struct stat st;

    scan->watch = -1;
    int fd = safe_open_dir(scan->path, &scan->location, &scan->refusal);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        scan->err = fd < 0 ? fd : -errno;
        closep(&fd);
        return;
    }
    if (fstat(fd, &st) == 0)
        scan->device = st.st_dev;
    /* Before the listing: a change in between is seen twice rather than never. */
    scan_add_watch(scan, fd);
    while (scan->n_entries < SCAN_ENTRIES_MAX && (entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            scan_add_entry(scan, fd, entry->d_name, entry->d_name);
    closedir(dir);
    for (size_t i = 0; i < scan->n_trees; i++) {
        scan_fill_tree(&scan->trees[i]);
        scan_find_openers(scan, i);
    }
}

void dir_scan_free(struct dir_scan *scan)
{
    for (size_t i = 0; i < scan->n_entries; i++)
        free(scan->entries[i].name);
    for (size_t i = 0; i < scan->n_trees; i++) {
        free(scan->trees[i].pids);
        free(scan->trees[i].inner_pids);
    }
    free(scan->trees);
    free(scan->entries);
    free(scan->path);
    free(scan->refusal);
    location_done(&scan->location);
    free(scan);
}

/* -- Merging -- */

static void merge_openers(struct discovered_file *f, const struct scan_entry *e, const struct dir_scan *scan)
{
    for (size_t i = 0; i < scan->n_trees; i++) {
        pid_t worker = scan->trees[i].root;
        bool skip = !(e->opened_by & UINT64_C(1) << i);
        for (size_t k = 0; k < f->n_openers; k++)
            skip = skip || f->openers[k] == worker;
        if (!skip && f->n_openers < FILE_OPENERS_MAX)
            f->openers[f->n_openers++] = worker;
    }
}

/* At the first scan of a directory, files that a current recording may have written are new; all others are
 * older. */
static bool merge_is_new_at_first(const struct discovered_file *f)
{
    const struct collection *k;

    if (f->dir->configured)
        return true;
    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir)
        if (file_may_be_of(f, k))
            return true;
    return false;
}

/* By the file's own time, which may be by another host's clock or from before this one's was set: a file that
 * an earlier scan did not list is no older than that scan. */
static int64_t merge_age_when_seen(const struct watched_dir *d, const struct discovered_file *f)
{
    if (d->remote)
        return 0;
    int64_t age = MAX(wall_ns() - f->mtime_ns, INT64_C(0));
    return d->was_scanned ? MIN(age, f->changed_ns - d->scanned_ns) : age;
}

static void merge_entry(struct watched_dir *d, const struct scan_entry *e, const struct dir_scan *scan)
{
    struct discovered_file *f = file_find(d, e->name);
    bool is_new = !f, is_other = f && f->inode != e->inode;

    f = f ? f : file_new(d, e->name);
    if (is_other)
        f->n_openers = 0;
    f->seen_in = d->n_scans;
    merge_openers(f, e, scan);
    if (!is_new && !is_other && f->size == e->size && f->mtime_ns == e->mtime_ns)
        return;
    if (is_other) {
        f->trace_id = 0;
        f->attempt = ATTEMPT_FIRST;
    }
    f->kind = e->kind;
    f->size = e->size;
    f->mtime_ns = e->mtime_ns;
    f->device = e->device;
    f->inode = e->inode;
    f->uid = e->uid;
    f->changed_ns = mono_ns();
    f->written_ns = f->changed_ns - merge_age_when_seen(d, f);
    f->arrived_at = d->was_scanned ? wall_ns() : 0;
    if (f->state == FILE_IMPORTING)
        return;
    if (f->parsed.kind == TRACE_NAME_OTHER || f->parsed.intermediate ||
        (is_new && !d->was_scanned && !merge_is_new_at_first(f)))
        file_set_state(f, FILE_IGNORED);
    else
        file_set_state(f, !f->kind && file_is_cataloged(f) ? FILE_DONE : FILE_GROWING);
}

static enum merge_phase merge_begin(struct dir_scan *scan)
{
    struct watched_dir *d = scan->dir;

    d->err = scan->err;
    if (scan->refusal && !streq(scan->refusal, d->refusal))
        outcome_report_trouble(
            d, NULL,
            "Name the directory itself, without links, by trace_dir= in profd.conf or --trace-dir; if nobody "
            "moved it on purpose, ask its owner.",
            scan->refusal);
    replace_str(&d->refusal, scan->refusal);
    d->n_scans++;
    /* A directory that is gone is one without files; one that cannot be read may still hold them. */
    if (scan->err < 0 && scan->err != -ENOENT && scan->err != -ENOTDIR)
        return MERGE_ADMIT;
    if (scan->n_entries == SCAN_ENTRIES_MAX && !d->warned_overfull) {
        d->warned_overfull = true;
        log_warning("%s contains more than %d files: traces in it may be overlooked; remove some of them",
                    d->path, SCAN_ENTRIES_MAX);
    }
    return MERGE_ENTRIES;
}

static void merge_next_phase(struct dir_scan *scan)
{
    struct watched_dir *d = scan->dir;
    bool lists_all = scan->n_entries < SCAN_ENTRIES_MAX;

    scan->phase++;
    scan->file = TAILQ_FIRST(&d->files);
    if (scan->phase == MERGE_VANISHED && !lists_all)
        scan->phase++;
    if (scan->phase == MERGE_ADMIT)
        d->was_scanned = d->was_scanned || scan->err == 0;
}

/* One entry or file. False where the phase is complete. Files are freed nowhere else during a merge. */
static bool merge_one(struct dir_scan *scan)
{
    struct discovered_file *f = scan->file;

    if (scan->phase == MERGE_ENTRIES) {
        if (scan->entry == scan->n_entries)
            return false;
        merge_entry(scan->dir, &scan->entries[scan->entry++], scan);
        return true;
    }
    if (!f)
        return false;
    scan->file = TAILQ_NEXT(f, next);
    if (scan->phase == MERGE_ADMIT)
        admit_file(f);
    else if (f->seen_in != scan->dir->n_scans && f->state != FILE_IMPORTING)
        file_free(f);
    return true;
}

bool discover_merge(struct dir_scan *scan, int64_t until_ns)
{
    int64_t began = mono_ns(), now = began;

    if (scan->phase == MERGE_NEW) {
        scan->phase = merge_begin(scan);
        scan->file = TAILQ_FIRST(&scan->dir->files);
    }
    while (scan->phase != MERGE_OVER && now < until_ns) {
        if (!merge_one(scan))
            merge_next_phase(scan);
        now = mono_ns();
    }
    scan->merged_ns += now - began;
    return scan->phase == MERGE_OVER;
}
