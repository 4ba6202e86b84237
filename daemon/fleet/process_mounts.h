/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One directory under two names: what a process calls a path, and what profd calls it, told from the mount
 * tables of both (/proc/PID/mountinfo, which everybody may read). Pure.
 *
 * So a directory that a container got from its host is found under the host's name, which outlives the
 * container.
 */
#pragma once

#include "base/util.h"

#define MOUNTS_SIZE_MAX (4 << 20)

/* Returns the path in the table `ours` that is the same place as `path` (absolute, without "..") in the table
 * `theirs`; NULL where there is none. The caller frees it. */
char *mounts_translate(const char *theirs, size_t theirs_size, const char *ours, size_t ours_size,
                       const char *path);
