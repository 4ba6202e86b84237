/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which file is read next, and which one gives up its place: fair between users, and between the sources
 * (directories) of one user. Pure: no process, no descriptor, no clock but the one that its caller names.
 *
 * A file is short until it has been read for INGEST_QUEUE_SLICE_NS, then long; a large one is long from the
 * beginning. Short and long files each keep one place for themselves, as long as there are such files. A long
 * file keeps any other place only while no short file of a user with fewer running files waits, and
 * beyond the end of its turn only while no other file of such a user waits. What gives up its place is read
 * anew, from its beginning, in a turn that is at least INGEST_QUEUE_GROWTH times as long.
 *
 * So a short file of a user and source of which nothing is read waits for at most one slice of the file that
 * is read now, and one of each other user who waits.
 */
#pragma once

#include "base/util.h"
#include <sys/queue.h>

/* What a trace of a few hundred thousand events takes on a busy host. */
#define INGEST_QUEUE_SLICE_NS INT64_C(5000000000)
#define INGEST_QUEUE_GROWTH   4
/* Larger ones would not be read within a slice. */
#define INGEST_QUEUE_SHORT_BYTES (INT64_C(64) << 20)

enum queue_class { QUEUE_SHORT, QUEUE_LONG, _QUEUE_CLASS_MAX };

/* What is counted of a user, and of each of his sources. */
struct queue_share {
    TAILQ_ENTRY(queue_share) next;
    struct queue_share *user; /* of a source; NULL: it is a user */
    char *name;
    unsigned n_files, n_running, n_waiting, n_waiting_of[_QUEUE_CLASS_MAX];
    uint64_t served[_QUEUE_CLASS_MAX]; /* when it last had a turn, or began to wait: a count of such events */
};

/* A file: part of whatever its owner knows of it. */
struct queue_file {
    TAILQ_ENTRY(queue_file) next;
    struct queue_share *user, *source;
    uint64_t number;  /* in order of arrival */
    unsigned n_turns; /* that it had, or would not be finished in */
    bool background;  /* set before it is added: nobody waits for it, everything else goes first */
    bool running, yielding;
    int64_t began_ns; /* its turn */
};
TAILQ_HEAD(queue_file_list, queue_file);
TAILQ_HEAD(queue_share_list, queue_share);

struct ingest_queue {
    unsigned places; /* files that are read at a time; one more is, where that is one and it is long */
    int64_t slice_ns;
    struct queue_file_list waiting, running;
    struct queue_share_list shares;
    unsigned n_waiting, n_running;
    uint64_t clock;
};

/* How many files may be read at a time, given the places. */
unsigned ingest_queue_running_max(unsigned places);
void ingest_queue_init(struct ingest_queue *q, unsigned places);
/* Of an empty one. */
void ingest_queue_done(struct ingest_queue *q);
/* Whether one more file of this source may wait: who has many waiting leaves room for others. */
bool ingest_queue_has_room(const struct ingest_queue *q, const char *user, const char *source,
                           unsigned waiting_max);
void ingest_queue_add(struct ingest_queue *q, struct queue_file *f, const char *user, const char *source,
                      int64_t size);
/* A file that waits, or was running. */
void ingest_queue_remove(struct ingest_queue *q, struct queue_file *f);

/* The file to begin now, NULL: none; to be followed by ingest_queue_begin() or ingest_queue_remove(). */
struct queue_file *ingest_queue_next(const struct ingest_queue *q, int64_t now_ns);
void ingest_queue_begin(struct ingest_queue *q, struct queue_file *f, int64_t now_ns);
/* A running file that is to give up its place, NULL: none. It is yielding from now on, until
 * ingest_queue_put_back() or ingest_queue_remove(). */
struct queue_file *ingest_queue_yield(struct ingest_queue *q, int64_t now_ns);
/* Its next turn is longer than the one that it had. */
void ingest_queue_put_back(struct ingest_queue *q, struct queue_file *f, int64_t now_ns);
/* When ingest_queue_yield() is to be asked again though nothing has happened; INT64_MAX: never. */
int64_t ingest_queue_due(const struct ingest_queue *q, int64_t now_ns);
