/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories that several hosts have in common: one name for a directory of a network file system that is the same on every
 * host that mounts it, made of the mount's source and type and of the path inside. Pure functions over mount tables, and
 * one that reads them.
 *
 * A directory on a disk of its host has no such name, whatever its device is called: "overlay", "tmpfs" and "/dev/sda1" exist
 * on every host.
 */
#pragma once

#include "daemon/fleet/worker.h"

/* Whether the path (absolute, without "..") is on a network file system whose mount names it; then *ret is its name. */
bool shared_dir_find(const char *mounts, size_t size, const char *path, struct shared_dir *ret);
/* False for one without a name. */
bool shared_dir_is_same(const struct shared_dir *a, const struct shared_dir *b);
void shared_dir_done(struct shared_dir *d);

/* A path of profd's own view without links, as far as it exists. NULL: not an absolute path. The caller frees it. Blocks. */
char *shared_dir_resolve(const char *path);
/* As shared_dir_find(), of a directory of profd's own view, or of its nearest parent that exists, with links resolved. pid: of the
 * process whose table is asked for dir where local_dir leads through /proc; 0: none. Blocks. */
bool shared_dir_read(const char *local_dir, pid_t pid, const char *dir, struct shared_dir *ret);
