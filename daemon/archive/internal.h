/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the archiver share. */
#pragma once

#include "archive/archive.h"
#include "daemon/archive/archive_loop.h"
#include "daemon/archive/archiver.h"
#include "daemon/catalog/uploads.h"
#include "daemon/collect/safe_open.h"
#include <sys/queue.h>
#include <sys/stat.h>

/* Which credentials a request uses. */
enum archive_role { ROLE_WRITE, ROLE_READ, ROLE_DELETE, _ARCHIVE_ROLE_MAX };

/* A request that is small, with all repetitions. */
#define ARCHIVE_REQUEST_NS (30 * INT64_C(1000000000))
/* The speed at which a transfer is given up at the latest; without any byte it is after ARCHIVE_STALL_DEFAULT_NS. */
#define ARCHIVE_SLOWEST_BYTES_PER_S INT64_C(65536)
/* Of an object that is copied because another host says so: its deadline does not overflow. */
#define ARCHIVE_COPY_BYTES_MAX (INT64_C(64) << 40)
/* How long after a first attempt another one may begin. */
#define ARCHIVE_PATIENCE_NS (10 * INT64_C(1000000000))

struct upload;
TAILQ_HEAD(upload_list_head, upload);
struct fetch;
TAILQ_HEAD(fetch_list, fetch);
struct archive_copying;
TAILQ_HEAD(archive_copying_list, archive_copying);
struct archive_restoring;
TAILQ_HEAD(archive_restoring_list, archive_restoring);
struct object_removal;
TAILQ_HEAD(object_removal_list, object_removal);
struct archive_probe;
TAILQ_HEAD(archive_probe_list, archive_probe);

/* A connection that was replaced, until its last request has ended. */
struct retired_loop {
    SLIST_ENTRY(retired_loop) next;
    struct archive_loop *loop;
};
SLIST_HEAD(retired_list, retired_loop);

struct archiver {
    struct archiver_modules modules;
    const struct archiver_settings *settings;
    struct archive_loop *loops[_ARCHIVE_ROLE_MAX]; /* NULL: none with that role */
    char *fingerprint;                             /* of the settings in use */
    struct retired_list retired;
    struct store_archive for_store;
    bool began, closing;

    /* uploads.c */
    struct upload_list_head uploads;
    unsigned n_uploads;
    struct event *timer;    /* the next try, or look at the credentials */
    struct event *wakeup;   /* something may wait to be uploaded: once for all events of an iteration */
    struct problem problem; /* of the archive, by the last upload; what == NULL: none */
    int problem_err;
    int64_t failing_since; /* wall clock */
    int64_t retry_ns;      /* monotonic; not before, while it fails */
    unsigned n_failures;   /* in a row */
    struct archiver_metrics counts;

    struct fetch_list fetches;
    struct archive_copying_list copies;
    struct archive_restoring_list restorings;
    const struct archive_others *others; /* NULL: nobody knows */
    void *others_arg;
    struct object_removal_list removals;
    struct archive_probe_list probes;
};

/* archiver.c: the connection for a role; NULL: none. Questions are asked with the reader's credentials. */
struct archive_loop *archiver_loop(const struct archiver *a, enum archive_role role);

/* One upload. */
struct upload {
    TAILQ_ENTRY(upload) link;
    struct archiver *archiver;
    struct upload_record row;
    int fd; /* or a negative errno value */
    struct stat st;
    struct file_reference file;
    char sha256[ARCHIVE_SHA256_SIZE];
    struct archive_upload *machine; /* NULL: a manifest, which is one PUT that replaces */
    struct archive_job *job;
    enum archive_verb verb; /* of the request in flight */
    bool has_pending;       /* a thread or a commit calls back */
    bool is_cancelled;      /* meanwhile: then it is only freed */
};

/* upload_steps.c: begins it, and wakes uploads.c at its end. */
void upload_begin(struct archiver *a, const struct upload_record *row);
void upload_cancel(struct upload *u);
void upload_free(struct upload *u);

/* uploads.c: the archive failed with err, or works. */
void uploads_note_failure(struct archiver *a, int err, const struct problem *p);
void uploads_note_success(struct archiver *a);
/* The delay after that many failures in a row. */
int64_t upload_wait_ns(unsigned n_failures);
void uploads_init(struct archiver *a);
void uploads_begin(struct archiver *a);
/* Gives up what is in flight: the connections are about to be replaced. */
void uploads_cancel(struct archiver *a);
void uploads_done(struct archiver *a);
/* Something may wait. */
void uploads_wake(struct archiver *a);
/* upload_report.c: "3 traces (1.2 GiB) wait for the archive s3://..., the oldest for 2h: REASON"; NULL: none.
 * The caller frees it. */
char *uploads_describe_lag(struct archiver *a);
void uploads_put_json(struct archiver *a, json_t *object);

/* object_key.c: of the object with that content; equal content has one, whoever uploads it. The caller frees it. */
char *object_key_of_trace(const char *sha256, const char *name);
/* Whether a key that another host named is one of that content. */
bool object_key_is_of(const char *key, const char *sha256);

/* fetch.c, copy.c, restore.c, objects.c */
void fetches_cancel(struct archiver *a);
void copies_cancel(struct archiver *a);
void restorings_cancel(struct archiver *a);
void object_removals_cancel(struct archiver *a);
bool object_is_being_removed(const struct archiver *a, const char *key);
void probes_cancel(struct archiver *a);

/* manifest.c: the JSON of a session, as a file in memory. A descriptor, with its size. */
int manifest_open(struct archiver *a, int64_t session_id, uint64_t *ret_size);
/* Its key; the caller frees it. NULL: there is no such session. */
char *manifest_key(struct archiver *a, int64_t session_id);
/* The session of that trace, or that ended, is to be described once its traces are archived. */
void manifest_want(struct archiver *a, int64_t session_id);
