/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: the directory that profd keeps traces in, <state>/traces/<session>/<name>, the one with their
 * columns beside it, <state>/columns/<trace>.columns, and the budget of both.
 *
 * A file is never half visible: it is written as .incoming-N in the store's root, synced, and appears under
 * its name by a rename that replaces nothing (columns replace older ones of their trace). Foreign files are
 * never linked into the store. Functions marked "blocks" belong on the offload's threads.
 */
#pragma once

#include "base/json.h"
#include "base/offload.h"
#include "base/problem.h"
#include "daemon/catalog/records.h"

#define STORE_UNCLAIMED_DIR "unclaimed"

struct store_settings {
    char *path;         /* <state>/traces */
    char *columns_path; /* <state>/columns */
    int64_t max_use;    /* bytes; 0: a tenth of the file system */
    int64_t keep_free;  /* bytes left free on the file system; 0: 15 percent of it, at most 4 GiB */
    int64_t per_user;   /* bytes; negative: percent of max_use; 0: an equal share */
};

struct store;

/* Makes the directories and removes what an interrupted copy left behind. Borrows everything. */
int store_new(const struct store_settings *settings, struct catalog *catalog, struct offload *offload,
              struct store **ret, struct problem *p);
/* Removals under way end after their portion. Then the offload can be drained, then the store freed. */
void store_close(struct store *s);
struct store *store_free(struct store *s);

/* A file to write an incoming trace to. Its bytes count as the holder's until
 * store_incoming_done(). The caller closes *ret_fd and frees *ret_path. */
int store_incoming(struct store *s, int64_t holder, int64_t bytes, int *ret_fd, char **ret_path);
void store_incoming_done(struct store *s, int64_t holder, int64_t bytes);
/* Blocks. Renames to <dir>/<name> (a free variant of the name where it is taken), syncs the directory. Frees
 * nothing. */
int store_place(const struct store *s, const char *incoming, const char *dir, const char *name,
                char **ret_path);
/* store_budget.c. In whose share of the store a file counts: see catalog_find_holder(). worker_url may be
 * NULL. */
int64_t store_holder(const struct store *s, int64_t owner_uid, const char *worker_url);
/* Whether so much fits into the budget as it is. */
bool store_has_room(const struct store *s, int64_t bytes);
/* Removes files and rows of unpinned traces, none that was collected after collected_until, until the
 * holder's bytes more fit into the budget: of whoever is most above his share (retention.h) what was
 * collected first. If they cannot fit nothing is removed: -ENOSPC, or -EDQUOT where it would take what is
 * within the shares of others. */
int store_make_room(struct store *s, int64_t holder, int64_t bytes, int64_t collected_until);
/* Why there was no room, for people. The caller frees it. */
char *store_refusal(const struct store *s, int64_t holder, int err);
/* Removes a trace's row, its columns and, where it is in the store, its file. */
int store_remove_trace(struct store *s, const struct trace_record *t, const char *actor);

/* store_columns.c. A file to write columns to, and one without a name for what does not fit into memory (-1
 * where the file system has no such). */
int store_columns_incoming(struct store *s, int *ret_fd, int *ret_spill_fd, char **ret_path);
/* What the disk has for the columns of one of so many traces that are read at a time: bytes that count as
 * taken until they are given back. */
int64_t store_lend_columns(struct store *s, unsigned readers);
void store_columns_done(struct store *s, int64_t lent);
/* Gives them their place, in that of older ones. Replaces *ret_path. */
int store_place_columns(const struct store *s, const char *incoming, int64_t trace_id, char **ret_path);
/* The reverse: a file that nobody sees. */
int store_take_columns_back(struct store *s, const char *path, char **ret_incoming);
/* For finished columns of so many bytes, as store_make_room(). */
int store_make_room_for_columns(struct store *s, int64_t holder, int64_t bytes, int64_t collected_until);
/* A file that no row needs any more. */
void store_unlink(const char *path);
/* Whose columns a file of that name would be. */
bool store_columns_owner(const char *name, int64_t *ret_trace_id);

/*
 * remove.c: removals that may be large, in portions: the loop stays free for others. done() comes later,
 * once; what was removed by then stays removed where err says that it did not get to its end.
 */
struct store_removed {
    int err;
    int64_t traces, bytes;
    /* Of a vacuum, each at most STORE_LISTED_MAX, as in openapi.yaml, schema Vacuumed: what went (or would
     * go), and what is older than the last of it and stays. NULL of a session. */
    json_t *removed, *kept;
    int64_t collected_until; /* when the last of it was collected; RECORD_NONE: nothing went */
};
#define STORE_LISTED_MAX 1000
typedef void (*store_removed_fn)(const struct store_removed *removed, void *arg);
struct vacuum_request {
    int64_t keep;            /* bytes that may stay; RECORD_NONE: any number */
    int64_t collected_until; /* nothing that was collected later is removed; INT64_MAX: no limit */
    bool dry_run;            /* only list and count */
};
/* Removes the unpinned traces that were collected first; of those that lie elsewhere only the columns. */
void store_vacuum(struct store *s, const struct vacuum_request *request, const char *actor,
                  store_removed_fn done, void *arg);
/* A session with its rows, files and directory. */
void store_remove_session(struct store *s, int64_t session_id, const char *actor, store_removed_fn done,
                          void *arg);

/* At profd's start: with the removals of sessions that an earlier one began. */
int store_go_on_removing(struct store *s);
/* idle() is called whenever no large removal is under way any more. */
void store_on_idle(struct store *s, void (*idle)(void *arg), void *arg);

const char *store_path(const struct store *s);
const char *store_columns_path(const struct store *s);
/* While a large removal is under way a file may still be there whose row is gone. */
bool store_is_removing(const struct store *s);
/* Whether a path is one of the store's own. */
bool store_holds(const struct store *s, const char *path);

struct store_usage {
    int64_t traces, bytes, max_use, keep_free, free;
    const char *path;
};
/* Who holds what, the largest first, and the share that each has to himself. */
struct store_users {
    struct holder_usage *users;
    size_t n;
    int64_t share;
};
int store_list_users(const struct store *s, struct store_users *ret);
void store_users_done(struct store_users *u);
/* "uid 1000", a worker's URL, "others". The caller frees it. */
char *store_user_name(int64_t holder, const char *worker_url);
/* Whether a trace of so many bytes could be taken, were the oldest ones to go: 0, -ENOSPC, or why that cannot
 * be told. */
int store_could_take(struct store *s, int64_t bytes);
/* Traces, or the columns of one that lies elsewhere, that went for the store's budget since profd's start. */
uint64_t store_evictions(const struct store *s);
int store_usage(const struct store *s, struct store_usage *ret);
