/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cgroup of their own for the children that read traces, so that the kernel, where they need too much
 * memory, takes one of them and never profd; and so that one that was taken over by its trace cannot begin
 * threads without end, of which the kernel has no limit for a single process.
 *
 * Where the unit gives profd its cgroup (Delegate=yes), profd moves itself to `main` below it and sends its
 * children to `ingest` beside that. Anywhere else (no cgroup v2, not writable, other processes in it) nothing
 * happens, and the children have their own limits alone.
 */
#pragma once

#include "base/util.h"

#define CGROUP_ROOT     "/sys/fs/cgroup"
#define CGROUP_TEXT_MAX (64 << 10)

/* The place in the unified hierarchy that a /proc/PID/cgroup tells: absolute, without "..". -ENOENT where it
 * tells none, -EINVAL where it is none that could be gone to. Pure; the caller frees *ret. */
int cgroup_parse(const char *text, size_t size, char **ret);

struct ingest_group;

/* Of all children together. */
struct ingest_limits {
    int64_t memory; /* bytes */
    int64_t tasks;  /* processes and threads; not held where the cgroup lacks the pids controller */
};

/*
 * Divides the cgroup at `directory`, in which this process must be alone. A negative errno value with the
 * reason where that cannot be.
 */
int ingest_group_new(const char *directory, const struct ingest_limits *limits, struct ingest_group **ret,
                     const char **ret_reason);
struct ingest_group *ingest_group_free(struct ingest_group *g);
int ingest_group_set_limits(const struct ingest_group *g, const struct ingest_limits *limits);
/* The caller closes it: for ingest_set_group(). */
int ingest_group_open(const struct ingest_group *g);

DEFINE_CLEANUP(struct ingest_group *, ingest_group_free)
