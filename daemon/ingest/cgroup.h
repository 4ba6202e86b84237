/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cgroup for the children that read traces, so that the kernel, where they need too much memory, kills one
 * of them and never profd; and so that a child that its trace took over cannot start threads without end, for
 * which the kernel has no limit of a single process.
 *
 * Where the unit delegates its cgroup to profd (Delegate=yes), profd moves itself to `main` below it and its
 * children to `ingest` next to that. Otherwise (no cgroup v2, not writable, other processes in it) the children
 * have their own limits only.
 */
#pragma once

#include "base/util.h"

#define CGROUP_ROOT     "/sys/fs/cgroup"
#define CGROUP_TEXT_MAX (64 << 10)

/* The path in the unified hierarchy that a /proc/PID/cgroup contains: absolute, without "..". -ENOENT where it
 * contains none, -EINVAL for any other path. Pure; the caller frees *ret. */
int cgroup_parse(const char *text, size_t size, char **ret);

struct ingest_group;

/* For all children together. */
struct ingest_limits {
    int64_t memory; /* bytes */
    int64_t tasks;  /* processes and threads; not enforced where the cgroup lacks the pids controller */
};

/*
 * Divides the cgroup at `directory`, in which this process must be alone. A negative errno value with the
 * reason where it cannot.
 */
int ingest_group_new(const char *directory, const struct ingest_limits *limits, struct ingest_group **ret,
                     const char **ret_reason);
struct ingest_group *ingest_group_free(struct ingest_group *g);
int ingest_group_set_limits(const struct ingest_group *g, const struct ingest_limits *limits);
/* The caller closes it: for ingest_set_group(). */
int ingest_group_open(const struct ingest_group *g);

DEFINE_CLEANUP(struct ingest_group *, ingest_group_free)
