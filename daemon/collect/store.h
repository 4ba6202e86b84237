/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: the directory that profd keeps traces in, <state>/traces/<session>/<name>, and its budget.
 *
 * A file is never half visible: it is written as .incoming-N in the store's root, synced, and appears under
 * its name by a rename that replaces nothing. Foreign files are never linked into the store. Functions marked
 * "blocks" belong on the offload's threads.
 */
#pragma once

#include "base/problem.h"
#include "daemon/catalog/records.h"

#define STORE_UNCLAIMED_DIR "unclaimed"

struct store_settings {
    char *path;        /* <state>/traces */
    int64_t max_use;   /* bytes; 0: a tenth of the file system */
    int64_t keep_free; /* bytes left free on the file system; 0: 15 percent of it, at most 4 GiB */
};

struct store;

/* Makes the directory and removes what an interrupted copy left behind. Borrows settings. */
int store_new(const struct store_settings *settings, struct catalog *catalog, struct store **ret,
              struct problem *p);
struct store *store_free(struct store *s);

/* A file to write an incoming trace to. The caller closes *ret_fd and frees *ret_path. */
int store_incoming(struct store *s, int *ret_fd, char **ret_path);
/* Blocks. Renames to <dir>/<name> (a free variant of the name where it is taken), syncs the directory. Frees
 * nothing. */
int store_place(const struct store *s, const char *incoming, const char *dir, const char *name,
                char **ret_path);
/* Removes files and rows of the oldest unpinned traces until bytes more fit into the budget; -ENOSPC where
 * they cannot. */
int store_make_room(struct store *s, int64_t bytes);
/* The same down to a total; counts what it removed. With dry_run only counts. */
int store_vacuum(struct store *s, int64_t keep, bool dry_run, const char *actor, int64_t *ret_removed,
                 int64_t *ret_freed);
/* Removes a trace's row and, where it is in the store, its file. */
int store_remove_trace(struct store *s, const struct trace_record *t, const char *actor);
/* Removes a session's rows, files and directory. */
int store_remove_session(struct store *s, int64_t session_id, const char *actor);
/* Marks rows whose file is gone, adopts files without a row. Blocks for as long as the store is large; used
 * at start. */
int store_reconcile(struct store *s, void (*adopt)(const char *path, const char *name, void *arg), void *arg);

struct store_usage {
    int64_t traces, bytes, max_use, keep_free, free;
    const char *path;
};
int store_usage(const struct store *s, struct store_usage *ret);
