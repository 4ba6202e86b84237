/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store: the directory with profd's copies of traces, <state>/traces/<session>/<name>, the one with their
 * columns, <state>/columns/<trace>.columns, and the budget of both.
 *
 * A file is never visible in part: it is written as .incoming-N in the store's root, synced, and appears under
 * its name by a rename that replaces nothing (columns replace older ones of their trace). Files of others are
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

/* Makes the directories and removes the remains of interrupted copies. Borrows everything. */
int store_new(const struct store_settings *settings, struct catalog *catalog, struct offload *offload,
              struct store **ret, struct problem *p);
/* Running removals end after their portion. Then the offload can be drained, then the store freed. */
void store_close(struct store *s);
struct store *store_free(struct store *s);

/* The archive, which is a module above this one, as the store needs it. */
struct store_archive {
    /* What is not archived yet, and why, as a clause that follows "full: "; the caller frees it. */
    char *(*describe_lag)(void *arg);
    /* The row of an archived trace was removed. Whether its object will be deleted; if not it remains. */
    /* NULL: its object is deleted; otherwise the reason why it remains. */
    const char *(*trace_removed)(const char *key, const char *sha256, void *arg);
    void *arg;
};
/* NULL: traces are not archived. While they are, none leaves the store that the archive does not have; the others leave
 * their row. Borrows it. */
void store_set_archive(struct store *s, const struct store_archive *archive);
/* Whether a session may be begun: -ENOSPC with the problem where the store is full of traces that are not archived yet. */
int store_admit(struct store *s, struct problem *p);

const char *store_path(const struct store *s);
const char *store_columns_path(const struct store *s);
/* Whether a path is below store_path(). */
bool store_holds(const struct store *s, const char *path);

/* A file for an incoming copy. Its bytes count as the holder's until store_incoming_done(). The caller closes
 * *ret_fd and frees *ret_path. */
int store_incoming(struct store *s, int64_t holder, int64_t bytes, int *ret_fd, char **ret_path);
void store_incoming_done(struct store *s, int64_t holder, int64_t bytes);
/* Blocks. Renames to <dir>/<name> (a free variant of the name where it is taken) and syncs the directory. An
 * error with *ret_path set is one of that sync. The caller frees *ret_path. */
int store_publish(const struct store *s, const char *incoming, const char *dir, const char *name,
                  char **ret_path);
/* Removes a file without a row. */
void store_unlink(const char *path);
/* Removes a trace's row, its columns and, where it is in the store, its file. */
int store_remove_trace(struct store *s, const struct trace_record *t, const char *actor);

/* -- store_retention.c -- */

struct store_usage {
    int64_t traces, bytes, max_use, keep_free, free;
    const char *path;
};
int store_usage(const struct store *s, struct store_usage *ret);
/* In whose share of the store a file counts: see catalog_find_holder(). worker_url may be NULL. */
int64_t store_holder(const struct store *s, int64_t owner_uid, const char *worker_url);
/* Usage by holder, the largest first, and the share of each. */
struct store_users {
    struct holder_usage *users;
    size_t n;
    int64_t share;
};
int store_list_users(const struct store *s, struct store_users *ret);
void store_users_done(struct store_users *u);
/* "uid 1000", a worker's URL, "others". The caller frees it. */
char *store_user_name(int64_t holder, const char *worker_url);

/* Whether that many bytes fit into the budget without a removal. */
bool store_has_room(const struct store *s, int64_t bytes);
/* Removes files and rows of unpinned traces, none that was collected after collected_until, until the
 * holder's additional bytes, of which some may be written already, fit into the budget: the oldest traces of the holder that is most above its share.
 * If they cannot fit nothing is removed: -ENOSPC, or -EDQUOT where it would take traces within the shares of
 * others. */
int store_make_room(struct store *s, int64_t holder, int64_t bytes, int64_t written, int64_t collected_until);
/* The reason for which there was no room, in words. The caller frees it. */
char *store_refusal(const struct store *s, int64_t holder, int err);
/* Whether a trace of that many bytes could be taken after a removal of the oldest: 0, -ENOSPC, or another
 * error. */
int store_could_take(struct store *s, int64_t bytes);
/* Traces, or columns of a trace that was left in place, removed for the budget since profd's start. */
uint64_t store_evictions(const struct store *s);

/* -- Layouts of optional modules (extras/) -- */

struct session;
/* Other paths to the traces of a session, next to its own directory. */
struct store_layout {
    void (*session_ended)(const struct session *s, struct catalog *catalog, const struct store *store,
                          struct offload *offload);
    void (*prune)(const char *store_path); /* removes paths to sessions that are gone; blocks */
};
extern const struct store_layout *const extra_store_layouts[]; /* NULL at the end */

/* -- store_bulk_removal.c: removals that may be large, in portions: the loop stays free for others -- */

struct store_removed {
    int err; /* the removal ended early; completed portions stay removed */
    int64_t traces, bytes;
    int64_t evicted;                       /* of the traces: archived, only their files here were removed */
    int64_t objects_deleted, objects_left; /* of a session's traces in the archive */
    const char *objects_reason;            /* why the last of them was left; NULL: none was */
    /* Of a vacuum, each at most STORE_LISTED_MAX, as in openapi.yaml, schema Vacuumed: the traces that were
     * (or would be) removed, and older ones that were kept. NULL of a session. */
    json_t *removed, *kept;
    int64_t collected_until; /* when the last of them was collected; RECORD_NONE: none */
};
#define STORE_LISTED_MAX 1000
typedef void (*store_removed_fn)(const struct store_removed *removed, void *arg);
struct vacuum_request {
    int64_t keep;            /* bytes that may stay; RECORD_NONE: any number */
    int64_t collected_until; /* traces that were collected later stay; INT64_MAX: no limit */
    bool dry_run;            /* only list and count */
};
/* Removes the unpinned traces that were collected first; of those left in place only the columns. done() runs
 * later, once. */
void store_vacuum(struct store *s, const struct vacuum_request *request, const char *actor,
                  store_removed_fn done, void *arg);
/* A session with its rows, files and directory. */
void store_remove_session(struct store *s, int64_t session_id, const char *actor, store_removed_fn done,
                          void *arg);
/* At profd's start: continues removals of sessions that were interrupted. */
int store_resume_removals(struct store *s);
/* While a large removal runs, a file whose row is gone may still exist. */
bool store_is_removing(const struct store *s);
/* idle() runs whenever the last large removal has ended. */
void store_on_idle(struct store *s, void (*idle)(void *arg), void *arg);
