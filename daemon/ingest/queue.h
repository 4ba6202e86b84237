/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fair queue: which file is read next, and which one yields its slot; fair between users, and between the
 * sources (directories) of one user. Pure: no process, no descriptor, and the caller's clock.
 *
 * A file is short until it has been read for INGEST_QUEUE_SLICE_NS, then long; a large one is long from the
 * beginning. Short and long files each keep one slot, as long as there are such files. A long file keeps any
 * other slot only while no short file of a user with fewer running files waits, and beyond its time slice only
 * while no other file of such a user waits. A file that yielded is read again, from its beginning, in a slice
 * that is at least INGEST_QUEUE_GROWTH times as long.
 *
 * So a short file of a user and source without a running file waits for at most one slice of the file that
 * runs now, and one of each other waiting user.
 */
#pragma once

#include "base/util.h"
#include <sys/queue.h>

/* Time for a trace of a few hundred thousand events on a busy host. */
#define INGEST_QUEUE_SLICE_NS INT64_C(5000000000)
#define INGEST_QUEUE_GROWTH   4
/* Larger ones would not be read within a slice. */
#define INGEST_QUEUE_SHORT_BYTES (INT64_C(64) << 20)

enum queue_class { QUEUE_SHORT, QUEUE_LONG, _QUEUE_CLASS_MAX };

/* Counts of a user, and of each of the user's sources. */
struct queue_share {
    TAILQ_ENTRY(queue_share) next;
    struct queue_share *user; /* of a source; NULL: it is a user */
    char *name;
    unsigned n_files, n_running, n_waiting, n_waiting_of[_QUEUE_CLASS_MAX];
    uint64_t served[_QUEUE_CLASS_MAX]; /* when it last got a slot, or began to wait: a count of such events */
};

/* A file: embedded in the caller's struct. */
struct queue_file {
    TAILQ_ENTRY(queue_file) next;
    struct queue_share *user, *source;
    uint64_t number;   /* in order of arrival */
    unsigned n_slices; /* that it had, or is too large for */
    bool background;   /* set before it is added: nobody waits for it, everything else goes first */
    bool running, yielding;
    int64_t began_ns; /* its slice */
};
TAILQ_HEAD(queue_file_list, queue_file);
TAILQ_HEAD(queue_share_list, queue_share);

struct ingest_queue {
    unsigned slots; /* files that are read at a time; with one slot a short file may run next to a long one */
    int64_t slice_ns;
    struct queue_file_list waiting, running;
    struct queue_share_list shares;
    unsigned n_waiting, n_running;
    uint64_t clock;
};

/* Number of files that may be read at a time, given the slots. */
unsigned ingest_queue_running_max(unsigned slots);
void ingest_queue_init(struct ingest_queue *q, unsigned slots);
/* Removes all files. */
void ingest_queue_done(struct ingest_queue *q);
/* Whether one more file of this source may wait: a source with many waiting files leaves room for others. */
bool ingest_queue_has_room(const struct ingest_queue *q, const char *user, const char *source,
                           unsigned waiting_max);
void ingest_queue_add(struct ingest_queue *q, struct queue_file *f, const char *user, const char *source,
                      int64_t size);
/* A file that waits, or was running. */
void ingest_queue_remove(struct ingest_queue *q, struct queue_file *f);

/* The file to start now, NULL: none; to be followed by ingest_queue_begin() or ingest_queue_remove(). */
struct queue_file *ingest_queue_next(const struct ingest_queue *q, int64_t now_ns);
void ingest_queue_begin(struct ingest_queue *q, struct queue_file *f, int64_t now_ns);
/* A running file that is to yield its slot, NULL: none. It is yielding from now on, until
 * ingest_queue_put_back() or ingest_queue_remove(). */
struct queue_file *ingest_queue_yield(struct ingest_queue *q, int64_t now_ns);
/* A file that yielded waits again; its next slice is longer. */
void ingest_queue_put_back(struct ingest_queue *q, struct queue_file *f, int64_t now_ns);
/* When ingest_queue_yield() is to be called again without another event; INT64_MAX: never. */
int64_t ingest_queue_due(const struct ingest_queue *q, int64_t now_ns);
