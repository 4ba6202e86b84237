/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mount tables (/proc/PID/mountinfo, which everybody may read): which mount covers a path, and one directory under two
 * names, told from the tables of two processes. Pure functions over text.
 *
 * So a directory that a container got from its host is found under the host's name, which outlives the container.
 */
#pragma once

#include "base/util.h"

#define MOUNTS_SIZE_MAX (4 << 20)

struct mount {
    char *device; /* "254:0" */
    char *root;   /* the directory of the device's file system that is mounted */
    char *point;  /* where */
    char *type;   /* "ext4", "fuse.sshfs"; NULL: not in the line */
    char *source; /* "/dev/sda1", "server:/path"; NULL: not in the line */
};

void mount_done(struct mount *m);
/* One line, up to its end. */
bool mount_parse(const char *line, const char *end, struct mount *ret);
/* The end of the line that begins there. */
const char *mounts_next_line(const char *line, const char *end);
/* The mount that covers the path: the deepest, and of equal ones the last, which lies on top. False: none. */
bool mounts_cover(const char *table, size_t size, const char *path, struct mount *ret);

/* What is left of path below the directory, from its slash on; NULL where it is not below. */
const char *mount_path_below(const char *path, const char *directory);
/* The caller frees it. */
char *mount_path_join(const char *directory, const char *rest);

/* Returns the path in the table `ours` that is the same place as `path` (absolute, without "..") in the table
 * `theirs`; NULL where there is none. The caller frees it. */
char *mounts_translate(const char *theirs, size_t theirs_size, const char *ours, size_t ours_size,
                       const char *path);
