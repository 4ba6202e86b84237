/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of a worker: of its process and all that descend from it. Reading may take long (the kernel walks
 * every page for PSS), so never on an event loop.
 *
 * RSS is the sum over processes, and counts what they share once for each; PSS shares that out, but only the
 * worker's own user or root may read it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_TREE_MAX 1024

struct process_memory {
    size_t processes;
    int64_t rss_bytes;
    int64_t pss_bytes; /* -1: not asked for, or not to be read of one of them */
};

/* The processes of a tree, PROCESS_TREE_MAX of them at most; `with_pss` asks for what is expensive. -ESRCH
 * where none is left. */
int process_memory_read(const pid_t *pids, size_t n, bool with_pss, struct process_memory *ret);

/* Pure: bytes of a line like "Pss:   1234 kB" of smaps_rollup, of the second number of statm; -1 where there
 * is none. */
int64_t smaps_rollup_bytes(const char *text, const char *name);
int64_t statm_rss_bytes(const char *text);
