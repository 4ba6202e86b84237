/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this room share: directories, the files in them, and each target's collection.
 */
#pragma once

#include "daemon/collect/claim.h"
#include "daemon/collect/collector.h"
#include "daemon/collect/scan.h"
#include "trace/read/tracename.h"

#define OPENERS_MAX 8

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
    enum file_state state;
    bool regular, vanished;
    int64_t size, mtime_ns;
    dev_t device;
    ino_t inode;
    uid_t uid;
    int64_t changed_ns;           /* monotonic: when it was last seen to differ */
    int64_t checked_size;         /* an earlier check found it unfinished at this size; -1 none */
    int64_t openers[OPENERS_MAX]; /* targets that had it open */
    size_t n_openers;
    int64_t claimed_by; /* target id, 0 none */
    bool in_place;      /* the store could not take it */
};
TAILQ_HEAD(file_list, file);

struct dir {
    TAILQ_ENTRY(dir) next;
    struct collector *collector;
    char *path;
    struct file_list files;
    void *by_name; /* tsearch(3) tree of struct file */
    int watch;     /* inotify, -1 none */
    bool remote;   /* inotify does not see other hosts */
    bool configured;
    bool looked_at; /* at least once */
    bool dirty;     /* something happened: look again */
    unsigned n_targets;
    int err; /* of the last look */
};
TAILQ_HEAD(dir_list, dir);

/* A target's part in all this. */
struct collection {
    TAILQ_ENTRY(collection) next;
    struct target *target;
    struct dir *dir; /* NULL: not visible on this host */
    bool collecting; /* its stop is over, since began_ns */
    int64_t began_ns;
    bool looked_since_stop;
    bool ambiguous;       /* traces that may be its own were not attributed */
    int64_t last_news_ns; /* monotonic: stop over, or a file changed */
    unsigned n_whole;     /* complete rank traces */
    unsigned n_traces;    /* of any state, ambiguous ones of its directory included */
    uint64_t ranks;       /* bit of each rank below 64 that is there */
    char *trouble;        /* why a file could not be had, the first one */
    char *trouble_remedy;
    pid_t *pids, *inner_pids;
    size_t n_pids;
};
TAILQ_HEAD(collection_list, collection);

struct collector {
    struct event_base *base;
    struct offload *offload;
    struct catalog *catalog;
    struct sessions *sessions;
    struct store *store;
    struct ingest *ingest;
    const struct collect_settings *settings;
    struct dir_list dirs;
    struct collection_list collections;
    int inotify_fd;
    struct event *inotify_event, *tick;
    bool scanning, scan_again;
    int64_t *preparing; /* sessions that wait for the look that is under way or next */
    size_t n_preparing, cap_preparing;
    unsigned n_bringing; /* files on their way into the catalog */
    bool closing;
};

/* collector.c */
void collector_look(struct collector *c);
/* files.c: what a look at a directory found, and which files are finished. */
void dir_merge(struct dir *d, const struct scan_dir *scan);
void dir_settle(struct dir *d);
bool dir_has_pending(const struct dir *d, const struct collection *for_whom);
void file_free(struct file *f);
/* Targets that could have written it. Returns how many, at most max. */
size_t file_claimants(const struct file *f, struct collection **ret, size_t max);
/* bringin.c: from a finished file to its row. */
void file_bring_in(struct file *f);
void adopt_file(struct collector *c, const char *path, const char *name);
/* ending.c: when a target has everything. */
void collections_check(struct collector *c);
