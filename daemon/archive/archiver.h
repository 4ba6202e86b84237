/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The archive of this profd: traces of the store are copied to a bucket of an S3 service or to a shared directory, and come
 * back when somebody needs one that left the store.
 *
 *     uploads.c   each trace of the store: which is next, and when what failed is tried again
 *     upload_steps.c  one of them: object first, row after
 *     fetch.c     a trace of which only the archive has the file, into the store
 *     copy.c      a trace of a host that does not answer, for one download
 *     objects.c   deletion of objects whose traces were removed
 *     manifest.c  a description of each session, so that the bucket alone can rebuild the catalog
 *     restore.c   which it does, by manifest_restore.c
 *
 * All of it runs on the event loop, by archive_loop.h: requests are small state machines, TLS and HTTP are libcurl's on
 * libevent in pieces of at most 256 KiB, and everything that may block (hashing, which also brings content of a cold disk
 * into the page cache just before it is sent; shared directories; opening and syncing files) is work for the offload's
 * threads. A child for each transfer would keep TLS off the loop as well and cost a process, a second event loop and a
 * protocol for each file; it is not needed for that.
 *
 * The archiver owns its connections and transfers. It borrows catalog, store and collector, never replaces or changes an
 * object with another content, never deletes one without a credential that is for deletions, and trusts no answer: an upload
 * counts when a HEAD reports the size and the SHA-256 of the file.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include "daemon/archive/settings.h"
#include "daemon/collect/collector.h"

struct archiver;

struct archiver_modules {
    struct event_base *base;
    struct offload *offload;
    struct catalog *catalog;
    struct store *store;
    struct collector *collector;
};

/* 0, or -EINVAL with the problem where the settings are wrong. Connects to nothing. */
int archiver_check_settings(const struct archiver_settings *s, struct problem *p);
/* Borrows everything. The settings may be those of no archive. */
int archiver_new(const struct archiver_modules *modules, const struct archiver_settings *settings,
                 struct archiver **ret, struct problem *p);
/* After the catalog was opened and rows may be written: begins to upload. */
void archiver_begin(struct archiver *a);
/* Looks soon for files that wait for it (catalog_want_upload()). */
void archiver_wake(struct archiver *a);
/* The settings, which stay where they are, have changed. On an error there is no archive until the next change. */
void archiver_renew(struct archiver *a);
/* Nothing new begins; what is in flight is given up. Then the offload can be drained, the catalog closed, the archiver
 * freed, which the store must not use any more: until then it keeps what is not archived. */
void archiver_close(struct archiver *a);
struct archiver *archiver_free(struct archiver *a);

/*
 * What other hosts have, by a module that knows (a mirror of all catalogs): whether one of them has a trace with a content,
 * before its object is deleted. find() calls done() later, once, with the name of the host, "" where none has it, or a
 * problem; it returns NULL where there is no such knowledge.
 */
struct archive_others {
    bool (*is_known)(void *arg);
    void *(*find)(void *arg, const char *sha256,
                  void (*done)(const char *host, const struct problem *p, void *done_arg), void *done_arg);
    void (*cancel)(void *question);
};
/* Borrows both. */
void archiver_set_others(struct archiver *a, const struct archive_others *others, void *arg);

/* Whether [archive] url= is set. */
bool archiver_is_configured(const struct archiver *a);

/* Brings the file of a trace back into the store, if only the archive has it; `columns`: also its columns, if there are
 * none. done() runs later, once, with a problem or NULL. What was begun goes on when nobody waits any more. */
void archiver_fetch(struct archiver *a, int64_t trace_id, bool columns,
                    void (*done)(const struct problem *p, void *arg), void *arg);

/*
 * A trace of another host, which does not answer: its object, into a file of the caller, checked by size and SHA-256. Nothing of
 * it enters the store or the catalog.
 */
struct archive_copy {
    const char *sha256, *name,
        *key;     /* by another host: the key is used only where it is one of that content; NULL: not known */
    int64_t size; /* below 64 TiB */
    int fd;       /* stays the caller's; -1: it is only asked for */
};
struct archive_copying;
/* done() runs later, once, with a problem or NULL; an object that is not there is -ENOENT, PROBLEM_NOT_FOUND. NULL: there is no
 * archive, or the content or its size is not known. */
struct archive_copying *archiver_copy(struct archiver *a, const struct archive_copy *copy,
                                      void (*done)(const struct problem *p, void *arg), void *arg);
/* Without done(). NULL is nothing. */
void archiver_copy_cancel(struct archive_copying *c);

/*
 * Rows of the sessions and traces that the manifests in the archive describe, some manifests at a time: after: "next" of the answer
 * before, NULL: from the first one. done() runs later, once, with the answer as of POST /v1/archive/restore, or a problem. NULL: there
 * is no archive that may be read.
 */
struct archive_restoring;
struct archive_restoring *archiver_restore(struct archiver *a, const char *after,
                                           void (*done)(json_t *take_answer, const struct problem *p,
                                                        void *arg),
                                           void *arg);
/* Without done(). NULL is nothing. */
void archiver_restore_cancel(struct archive_restoring *t);

/* Bytes of a trace that arrived so far; -1: it is not being fetched. */
int64_t archiver_fetched_bytes(const struct archiver *a, int64_t trace_id);
/* Whether anything is in flight. */
bool archiver_is_busy(const struct archiver *a);

/* What becomes of the object of a trace whose row was removed. */
enum object_fate {
    OBJECT_DELETED,
    OBJECT_SHARED, /* another trace has the same content; of another host: which one is the problem */
    OBJECT_LEFT,   /* there is no credential for deletions; or see the problem */
};
/* done() runs later, once; may be NULL. */
void archiver_remove_object(struct archiver *a, const char *key, const char *sha256,
                            void (*done)(enum object_fate fate, const struct problem *p, void *arg),
                            void *arg);

/* GET /v1/archive: see openapi.yaml, schema Archive. */
json_t *archiver_to_json(struct archiver *a);

struct archiver_metrics {
    uint64_t uploaded, uploads_failed, uploaded_bytes, fetched, fetches_failed, fetched_bytes;
    int64_t waiting_files, waiting_bytes, lag_ns;
    bool is_failing;
};
void archiver_metrics(struct archiver *a, struct archiver_metrics *ret);

/* Asks the archive for an object that does not exist: whether it answers, and by which address. done() runs later, once. */
struct archiver_probe {
    const struct problem *problem; /* NULL: it answers */
    const char *address;           /* ""; of a directory, and where none was reached */
};
void archiver_probe(struct archiver *a, void (*done)(const struct archiver_probe *probe, void *arg),
                    void *arg);
const char *archiver_name(const struct archiver *a);
/* Why uploads do not succeed, or NULL. */
const struct problem *archiver_problem(const struct archiver *a);
