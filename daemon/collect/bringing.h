/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file on its way to its row. bringin.c does what all of them need; where they differ is a table of
 * functions: found.c for what appeared in a directory, adopt.c for what lies in the store, import.c for what
 * a client names.
 */
#pragma once

#include "daemon/collect/internal.h"

struct bringing;

struct bringing_kind {
    /* What was read is in the row; says whose it is. False where it ends here, and nothing of it is kept. */
    bool (*judge)(struct bringing *b, const struct ingest_result *r);
    /* Just before the row is saved: true where another file, brought in meanwhile, has made it needless. May
     * be NULL. */
    bool (*overtaken)(struct bringing *b);
    /* The row is saved (0), or could not be. The last that is heard of it. */
    void (*saved)(struct bringing *b, int err);
    /* It ended before; may be NULL. */
    void (*dropped)(struct bringing *b);
};

struct bringing {
    TAILQ_ENTRY(bringing) next_unsaved;
    struct collector *collector;
    const struct bringing_kind *kind;
    char *dir_path, *name, *origin;
    char *user; /* who takes turns with others (queue.h): the file's owner, or the client that named it */
    int64_t size, mtime_ns;
    dev_t device;
    ino_t inode;
    uid_t uid;
    gid_t gid;
    struct place place;      /* of its directory; empty where nobody asked */
    int64_t process_started; /* of the process whose root its path leads through, or RECORD_NONE */
    char *actor;             /* who wants it, for the log */
    bool stays;              /* where it is, which is no news */
    int64_t known_id;        /* the row that it takes the place of; 0: the one with its path, if any */
    char *incoming;
    int64_t holder;   /* in whose share of the store it counts, as far as that is known yet */
    int64_t expected; /* bytes that the store keeps for it */
    /* Traces that were collected later are not removed for it: nobody asked for a file that merely lies in a
     * directory, and an old one must not displace what was recorded since. */
    int64_t displaces_until;
    bool no_columns;      /* they are not wanted */
    char *columns;        /* the columnar file on its way; NULL: none */
    int64_t columns_room; /* that the store lends to it */
    char *columns_reason; /* why there are none, where profd-ingest could not say */
    bool columns_used_up; /* its time or memory, by them */
    char *store_note;     /* why it was left in place */
    /* Files of the row before, which go when this one is committed. */
    char *outdated_path, *outdated_columns;
    json_t *facts;
    struct trace_record row;
    char *store_dir;
    int err; /* of placing it, then of saving its row */
    bool remove_original;
    int64_t holes; /* bytes of it that were never written (place.h) */
    bool changed;  /* while it was read: what was read is not what it is */
    /* found.c */
    bool patient;     /* quiet for so long that it is taken as it is */
    bool check_first; /* there is no room: none is made for what may not be whole */
    /* import.c */
    struct import *import;
};

/* Ends with kind's saved() or dropped(), later. */
struct bringing *bringing_new(struct collector *c, const struct bringing_kind *kind, const char *dir_path,
                              const char *name, const struct stat *st);
/* Whose turn it is when a file of this owner is read; the caller frees it. */
char *bringing_user(uid_t owner);
/* Takes the source; the copy is written where one is incoming. */
void bringing_start(struct bringing *b, int source_fd, int dest_fd);
/* A copy in the store, which older traces make room for; where there is none it is noted why. -EMFILE or
 * -ENFILE: not now. */
int bringing_into_store(struct bringing *b, int *ret_dest_fd);
/* Ends it before it was started. */
void bringing_drop(struct bringing *b);

/* columns.c: the columnar file of a trace. Until it has its place it is a draft, which is a path; NULL: none.
 */
void columns_open_draft(struct collector *c, struct ingest_columns *ret, char **ret_draft);
void columns_drop(char **draft);
/* What came of it, into the row; drops what is none, or what the store has no room for. reason: why there is
 * none, where that is not in the facts; or NULL. used_up: the child's time or memory was. */
void columns_settle(struct collector *c, char **draft, const json_t *facts, const char *reason, bool used_up,
                    int64_t displaces_until, struct trace_record *row);
/* Gives it its place, which needs the row's id, and saves row and summary; of none, only the summary. Not
 * committed. */
int columns_keep(struct collector *c, char **draft, const json_t *facts, struct trace_record *row);
/* The row was not committed: what was kept is a draft again. */
void columns_take_back(struct collector *c, char **draft, struct trace_record *row);
/* All of this for a trace that was read again, in the place of the columns that it has; committed. */
int columns_renew(struct collector *c, char **draft, const json_t *facts, const char *reason, bool used_up,
                  struct trace_record *row);

/* facts.c: what profd-ingest and a file's name say, into the row. Of what it says, only sizes of files in the
 * store are compared with anything. */
void facts_to_row(const json_t *facts, struct trace_record *row);
void name_to_row(const struct trace_name *n, struct trace_record *row);
