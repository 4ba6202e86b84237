/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profd's side of profd-ingest: files to read, in the order of queue.h, by a bounded number of
 * children.
 *
 * A child gets a few descriptors, no rights, and a deadline that grows with the file; one that outlives it is
 * killed. Whatever happens to a child, its file ends with a result. Children are waited for by pidfd: no
 * signal handler, no interference with other children of the process.
 */
#pragma once

#include "base/json.h"
#include "base/metrics.h"
#include "proto/names.h"
#include <event2/event.h>

/* Files that may wait: each holds two descriptors. */
#define INGEST_WAITING_MAX 256

struct ingest;

/* Where columns go; -1 where it cannot be opened. */
struct ingest_columns {
    int fd, spill_fd;
    int64_t room; /* bytes that both may take together */
};

/* A file to read; the meaning of each descriptor is that of proto/ingest.h. */
struct ingest_request {
    int source_fd;
    int64_t source_size; /* when it was opened: to ask its file system anew could block */
    int dest_fd;         /* -1 where not wanted */
    /* Opens the files for columns when a child starts. NULL: no columns. */
    void (*open_columns)(struct ingest_columns *ret, void *arg);
    /* The child was ended to yield its slot: they will be opened again. NULL where open_columns is. */
    void (*drop_columns)(void *arg);
    /* For the fair queue: the user, and the directory or client of that user. */
    const char *user, *source;
    int64_t size_max;
    int64_t memory_max; /* of reading into columns */
    bool background;    /* nobody waits for it: all other files go first */
};

struct ingest_result {
    int err;                /* 0, or why it was not read: -ENOSPC of the destination, -ECANCELED, -EAGAIN
                (too many wait), a child that could not be started */
    enum trace_state state; /* TRACE_UNREADABLE where err is set, or the child died */
    char *reason;           /* NULL: none */
    bool used_up;           /* the child's time or memory was, and it was killed for that */
    json_t *facts;          /* as proto/ingest.h describes them; an empty object where there are none */
    int source_fd, dest_fd; /* of the request, for another try; closed when done() returns */
};

int ingest_new(struct event_base *base, const char *program_path, unsigned children_max, struct ingest **ret);
/* Kills what runs and ends every file with -ECANCELED. Not to be called from done(). */
struct ingest *ingest_free(struct ingest *ingest);
/* Running children are not ended. */
void ingest_set_children_max(struct ingest *ingest, unsigned children_max);
/* Takes a descriptor of cgroup.procs: each child joins that cgroup by writing "0" to it (cgroup.h). */
void ingest_set_group(struct ingest *ingest, int take_procs_fd);
/* Maximum of children at a time: two where [collect] children= is one, for a short file (queue.h). */
unsigned ingest_children_max(const struct ingest *ingest);
/* Since profd's start, but for those that are running and waiting. */
struct ingest_metrics {
    unsigned running, waiting;
    uint64_t read, failed, killed; /* files; killed: by the child's limits, or by profd at its deadline */
    uint64_t put_back;             /* times that a file yielded its slot, to be read later */
    uint64_t bytes;                /* of files that a child was given */
    struct histogram durations;
};
void ingest_metrics(const struct ingest *ingest, struct ingest_metrics *ret);
/* 0, or why profd-ingest cannot be started: -ENOENT, -EACCES. */
int ingest_check(const struct ingest *ingest);
/* True when INGEST_WAITING_MAX files wait: postpone files that can be postponed. */
bool ingest_is_full(const struct ingest *ingest);
/* Whether one more file of this source may wait; a source with many waiting files leaves room for others. */
bool ingest_has_room(const struct ingest *ingest, const char *user, const char *source);
/* Time limit of a child for a small file; larger ones get more. INGEST_DEADLINE by default. */
void ingest_set_deadline(struct ingest *ingest, int64_t duration_ns);
/* INGEST_QUEUE_SLICE_NS by default. */
void ingest_set_slice(struct ingest *ingest, int64_t duration_ns);

/*
 * Takes both descriptors, also where it fails. done() runs later on the loop, exactly once; the result is
 * borrowed.
 */
void ingest_run(struct ingest *ingest, const struct ingest_request *request,
                void (*done)(const struct ingest_result *result, void *arg), void *arg);

DEFINE_CLEANUP(struct ingest *, ingest_free)
