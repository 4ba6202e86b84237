/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One look at directories: which files are there, how large, and which processes have the growing ones open.
 * Blocks, runs on the offload's threads; touches nothing but its own struct and, to add a watch, the inotify
 * descriptor.
 */
#pragma once

#include "daemon/collect/place.h"
#include <sys/types.h>

#define SCAN_ENTRIES_MAX   100000 /* in one directory; more are not seen, which is said */
#define SCAN_PROCESSES_MAX 512    /* of one worker's process tree */

struct scan_entry {
    char *name;
    const char *what; /* it is, where it is no regular file; NULL */
    int64_t size, mtime_ns;
    dev_t device;
    ino_t inode;
    uid_t uid;
    uint64_t opened_by; /* bit i: a process of scan_dir.trees[i] has it open for writing */
};

/* The process tree of a worker, asked about because several workers write into one directory. */
struct scan_tree {
    pid_t root;
    pid_t *pids, *inner_pids; /* filled by the scan */
    size_t n_pids;
};
#define SCAN_TREES_MAX 64 /* bits of opened_by */

struct scan_dir {
    char *path;
    struct place place;    /* as of place_open(), filled where it is not known */
    char *refusal;         /* filled by the scan: why the way there is not to be trusted */
    int inotify_fd;        /* to watch it by, < 0 where it is watched or cannot be */
    int watch, watch_err;  /* filled by the scan: the watch, or -1 and why */
    bool remote;           /* filled by the scan: inotify does not see other hosts */
    dev_t device;          /* filled by the scan */
    int64_t newer_than_ns; /* open files are looked for only among those modified since */
    struct scan_tree *trees;
    size_t n_trees;
    int err; /* -ENOENT, -EACCES, ... */
    struct scan_entry *entries;
    size_t n_entries, cap_entries;
};

void scan_directory(struct scan_dir *d);
void scan_dir_done(struct scan_dir *d);
