/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this room share: directories, the files in them, and each target's collection.
 */
#pragma once

#include "daemon/collect/claim.h"
#include "daemon/collect/collector.h"
#include "daemon/collect/reference.h"
#include "daemon/collect/scan.h"
#include "trace/read/tracename.h"
#include <sys/stat.h>

#define OPENERS_MAX 8
#define N_STAGES    (TRACE_STAGE_DECODE + 1)

enum file_state {
    FILE_OLD,      /* was there before, or is no trace: ignored until it changes */
    FILE_GROWING,  /* not finished yet, as far as can be told */
    FILE_CHECKING, /* profd-ingest reads it, or it is being placed */
    FILE_DONE,     /* in the catalog */
};

struct file {
    TAILQ_ENTRY(file) next;
    struct dir *dir;
    char *name;
    struct trace_name parsed;
    enum file_state state; /* changed by file_set_state() */
    const char *what;      /* it is, where it is no regular file; NULL */
    uint64_t seen_in;      /* the number of the latest look that found it */
    int64_t size, mtime_ns;
    dev_t device;
    ino_t inode;
    uid_t uid;
    int64_t changed_ns;         /* monotonic: when it was last seen to differ */
    int64_t written_ns;         /* monotonic: then, less how long before it was written by its own time */
    int64_t arrived_at;         /* wall: when it was seen to come or change; 0 where it was there at first */
    int64_t checked_size;       /* an earlier check found it unfinished at this size; -1 none */
    pid_t openers[OPENERS_MAX]; /* workers whose processes had it open */
    size_t n_openers;
    int64_t claimed_by; /* target id, 0 none */
    int64_t trace_id;   /* its row, where it was cataloged unfinished; 0 none */
    bool in_place;      /* the store could not take it */
    bool worth_room;    /* whole: older traces may go for it */
    bool admitted;      /* nobody asked for it, and it is within the limit */
};
TAILQ_HEAD(file_list, file);
TAILQ_HEAD(collection_list, collection);

struct dir {
    TAILQ_ENTRY(dir) next;
    struct collector *collector;
    char *path;
    struct place place; /* where it lies, as long as it is used */
    char *refusal;      /* why the latest look was none, NULL */
    struct file_list files;
    unsigned n_pending; /* files that grow or are checked */
    void *by_name;      /* tsearch(3) tree of struct file */
    struct collection_list collections;
    unsigned n_targets; /* of its collections */
    int watch;          /* inotify, -1 none */
    bool remote;        /* inotify does not see other hosts */
    bool configured;
    int64_t writer_uid; /* of the one user whose workers wrote here; -1 unknown or several */
    uint64_t lane;      /* of the offload */
    unsigned n_opening; /* files of it that threads are opening */
    bool looking;       /* a thread is, or what it found is being merged */
    uint64_t n_looks;
    bool look_again;          /* as soon as that is over */
    int64_t looked_ns;        /* monotonic: when the latest look that is over began; 0 none */
    int64_t rests_until_ns;   /* monotonic: no look before; the latest one was work */
    int64_t reports_since_ns; /* monotonic: of the minute in which n_reports files were named */
    unsigned n_reports;
    bool looked_at; /* at least once */
    bool dirty;     /* something happened: look again */
    bool said_full; /* that it has more files than are looked at */
    int err;        /* of the last look */
};
TAILQ_HEAD(dir_list, dir);

/* One look at one directory: another one, on a server that does not answer, holds up nobody else. */
struct look {
    TAILQ_ENTRY(look) next;
    struct dir *dir;
    struct scan_dir scan;
    int64_t began_ns;
    /* What it found is merged in portions: directories may hold a hundred thousand names. */
    enum look_phase { LOOK_NEW, LOOK_ENTRIES, LOOK_VANISHED, LOOK_SETTLE, LOOK_OVER } phase;
    size_t entry;      /* the next one of the scan */
    struct file *file; /* the next one of the directory */
    int64_t merged_ns; /* that this has taken */
};
TAILQ_HEAD(look_list, look);

/* Notes of which engine instance the traces of a target are, once they are there (trace/read/instance.h). */
void target_find_instances(struct catalog *c, const struct target *t);

/* A target's part in all this. */
struct collection {
    TAILQ_ENTRY(collection) next, next_in_dir;
    struct target *target;
    struct dir *dir; /* NULL: not visible on this host */
    bool collecting; /* its stop is over, since began_ns */
    int64_t began_ns;
    bool looked_since_stop;
    bool may_have_more;            /* is a candidate of an ambiguous file */
    bool ambiguous;                /* traces that may be its own were not attributed */
    int64_t last_news_ns;          /* monotonic: stop over, or one of its files changed */
    unsigned n_whole_of[N_STAGES]; /* complete rank traces, by stage: an engine may split each rank's */
    unsigned n_whole;              /* the most of them */
    unsigned n_traces;             /* of any state, ambiguous ones of its directory included */
    uint64_t ranks;                /* bit of each rank below 64 that is there */
    char *damage;                  /* what is wrong with a trace of its own, the latest one */
    char *trouble;                 /* why a file could not be had, the first one */
    char *trouble_remedy;
    pid_t *pids, *inner_pids;
    size_t n_pids;
};

/* A session that waits until its directories were looked at. */
struct preparing {
    int64_t session_id, asked_ns;
};

/* How many traces that nobody asked for came within a minute. */
struct unclaimed_limit {
    int64_t began_ns; /* monotonic, of the minute; 0: there was none */
    unsigned n_admitted, skipped;
    uint64_t skipped_total;
    char *latest; /* path of one that was skipped */
    struct event *minute_over;
};

struct bringing;
struct reconcile;
struct reread;

TAILQ_HEAD(bringing_list, bringing);

struct collector {
    struct event_base *base;
    struct offload *offload;
    struct catalog *catalog;
    struct sessions *sessions;
    struct store *store;
    struct ingest *ingest;
    const struct collect_settings *settings;
    struct dir_list dirs;
    struct look_list looks; /* that are being merged */
    struct collection_list collections;
    int inotify_fd;
    bool said_unwatched; /* that inotify's watches are used up */
    struct event *inotify_event, *tick, *arm, *merge;
    struct preparing *preparing;
    size_t n_preparing, cap_preparing;
    unsigned n_bringing;          /* files on their way into the catalog */
    unsigned n_adopting;          /* of them, files of the store */
    struct bringing_list unsaved; /* of them, those whose row the catalog could not take */
    unsigned n_opening;           /* files that threads are opening */
    struct event *resave;
    struct reconcile *reconcile; /* NULL once it is over */
    bool left_alone, forgotten;  /* what reconcile left to living sessions; whether one has ended since */
    struct reread *reread;       /* NULL before it begins, and once it is over */
    struct unclaimed_limit unclaimed;
    bool closing;
};

/* collector.c */
void collector_arm_tick(struct collector *c);

/* files.c: what a look at a directory found, and which files are finished. False where the time was over
 * before all of it was done: to be called again. */
bool look_merge(struct look *look, int64_t until_ns);
/* Files that may yet come to something, for one collection or (NULL) anybody. */
bool dir_has_pending(const struct dir *d, const struct collection *for_whom);
struct file *dir_find_file(struct dir *d, const char *name);
void file_free(struct file *f);
void file_set_state(struct file *f, enum file_state state);
/* Time since anything was written to it. */
int64_t file_quiet_for(const struct file *f);
/* trust.c: why a file, open and looked at, is not collected; NULL where it may be. */
const char *file_distrust(const struct file *f, int fd, const struct stat *st);
/* Nothing of the target's recording was written before, by the times of files: the wall time of its start, or
 * what the clock as it is set now would have shown then where that is earlier. */
int64_t target_began_at(const struct target *t);
/* Whether the target could have written it: by place, time and the pattern of its name. */
bool file_may_be_of(const struct file *f, const struct collection *k);

/* unclaimed.c: whether a trace that an engine wrote unasked may come in; what may not is counted. */
bool unclaimed_admit(struct file *f);
void unclaimed_init(struct collector *c);
void unclaimed_done(struct collector *c);

/* attribute.c: puts whose the file is into its row. */
void file_attribute(struct file *f, struct trace_record *row);

/* found.c: from a finished file to its row. */
void file_bring_in(struct file *f);
/* Says to all who might wait for a file in it why they will not get it. */
void dir_refused(struct dir *d, const char *why);
/* bringin.c: the rows that the catalog could not take are tried again; at the end of profd they are dropped.
 */
void collector_resave(evutil_socket_t fd, short what, void *collector);
void collector_drop_unsaved(struct collector *c);
/* adopt.c: a file of the store, or one that was missing: into the catalog as it lies. Takes what it refers
 * to.
 */
void adopt_file(struct collector *c, struct reference *take_reference);

/* reread.c: traces that have no columns, or columns of an older version, get them while nothing else is to be
 * done. */
void reread_begin(struct collector *c);
void reread_go_on(struct collector *c);
struct reread *reread_free(struct reread *r);

/* reconcile.c: store and catalog are compared when profd starts. */
void reconcile_begin(struct collector *c);
/* A target is over: what was left to its session may be looked at, once nothing is collected. */
void reconcile_left(struct collector *c);
/* A file less is being adopted. */
void reconcile_go_on(struct collector *c);
struct reconcile *reconcile_free(struct reconcile *r);

/* ending.c: when a target has everything. */
void collections_check(struct collector *c);
void dir_check_collections(struct dir *d);
