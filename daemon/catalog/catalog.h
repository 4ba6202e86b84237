/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The catalog: the only module that runs SQL on catalog.db. Opens, migrates and guards it; holds the
 * open transaction of the commit batch. Called by session, collect and api; calls none of them.
 *
 * Writes of one iteration of the loop are one commit batch. catalog_then() queues what may be done only after
 * they are on disk: the commit happens at the end of the iteration, then the queued functions run in order,
 * with 0 or the error of the commit. Nothing here blocks for long: checkpoints, vacuum and bulk deletes run on the
 * offload with a connection of their own, and a write that meets another program's lock fails with -EBUSY
 * after milliseconds. Events, requests of runs and functions then wait in memory; owners of other rows save
 * them again.
 *
 * A catalog whose files are deleted, replaced or truncated while it is open is lost: nothing more is written.
 */
#pragma once

#include "base/json.h"
#include "base/offload.h"
#include "base/problem.h"
#include "proto/names.h"

struct catalog;

#define CATALOG_APPLICATION_ID 0x50524f46
#define CATALOG_VERSION        9

/*
 * Opens or creates path (directory 2750, file 0640, WAL kept). Refuses, with a remedy: a newer version,
 * another application's file, an unwritable or full disk, a catalog that another profd holds (lock file
 * next to it), a file that is damaged. An older version is migrated after a VACUUM INTO copy next to it.
 */
int catalog_open(const char *path, struct event_base *base, struct offload *offload, struct catalog **ret,
                 struct problem *p);
/*
 * Commits what is open and runs what waits for it, checkpoints, closes. Upkeep in progress is cancelled and
 * waited for. Not to be called from a function of catalog_then().
 */
struct catalog *catalog_close(struct catalog *c);
DEFINE_CLEANUP(struct catalog *, catalog_close)

/*
 * Queues fn for the end of the batch, also where the batch wrote nothing. Once a write of a batch has failed,
 * nothing of that batch is kept and its functions get the error; a caller then saves its complete rows again.
 * Functions run in the order in which they were queued; what they write or queue belongs to the next commit.
 * A commit that must survive a power cut (the state transition that leads to a start) asks for full_sync: fn runs after
 * the log has been fsynced. Others cost no fsync.
 */
void catalog_then(struct catalog *c, bool full_sync, void (*fn)(int err, void *arg), void *arg);
/* Commits at once, before the iteration ends, and runs what was queued (unless called by such a function: then it
 * runs after that one). */
int catalog_commit(struct catalog *c, bool full_sync);
/* True while the last commit failed (disk full, read-only): sessions are refused, stops are sent all the
 * same. */
bool catalog_is_broken(const struct catalog *c);
/* The error of the last commit; 0 where it succeeded. */
int catalog_error(const struct catalog *c);
/* Why the last commit failed, in one line; NULL while it did not. */
const char *catalog_broken_reason(const struct catalog *c);
/* Sets p to "WHAT: WHY" for an error of this module, with its remedy; returns err. */
int catalog_problem(const struct catalog *c, int err, struct problem *p, const char *format, ...)
    _printf_(4, 5);
/* fn is called from the loop, once, when the catalog is found to be lost. */
void catalog_on_lost(struct catalog *c, void (*fn)(void *arg), void *arg);
/* Ends the broken state where its cause is gone: commits a small write to disk, at once. Called for requests that are
 * refused while the catalog is broken: nothing else would write then, and notice the recovery. */
int catalog_probe(struct catalog *c);
/* For profd's operator; since profd's start but for the log's size. */
struct catalog_metrics {
    uint64_t commits, failed_commits;
    uint64_t traces_added[_TRACE_STATE_MAX], traces_removed;
    int64_t wal_bytes; /* of the log, as of the last commit */
};
void catalog_metrics(const struct catalog *c, struct catalog_metrics *ret);
const char *catalog_path(const struct catalog *c);
/* This catalog among those of other hosts: a UUID that stays with the file, and the name of the host. */
const char *catalog_uuid(const struct catalog *c);
const char *catalog_host(const struct catalog *c);
/* Renames the host; until then it is the name that the system had when the file was created. */
int catalog_set_host(struct catalog *c, const char *name);
/* A new UUID for a catalog that was restored from a copy: others have rows of the old one that this file lacks. The row remembers
 * the one that it replaces. */
int catalog_renew_uuid(struct catalog *c);

/* Listeners to changes (event streams, D-Bus, status): called after the commit that wrote the event. */
typedef void (*catalog_event_fn)(const json_t *event, void *arg);
void catalog_on_event(struct catalog *c, catalog_event_fn fn, void *arg);
