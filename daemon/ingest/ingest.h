/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profd's side of profd-ingest: a queue of files to look at, worked off by a bounded number of children.
 *
 * A child gets two descriptors, no rights, and a deadline that grows with the file; one that outlives it is
 * killed. Whatever happens to a child, its job ends with a result. Children are waited for by pidfd: no
 * signal handler, no interference with other children of the process.
 */
#pragma once

#include "base/json.h"
#include "proto/names.h"
#include <event2/event.h>

/* Files that may wait: each holds two descriptors. */
#define INGEST_WAITING_MAX 256

struct ingest;
struct ingest_job;

struct ingest_result {
    int err; /* 0, or why the job itself failed: -ENOSPC of the destination, -ECANCELED, -EAGAIN
                (too many wait), a child that could not be started */
    enum trace_state state; /* TRACE_UNREADABLE where err is set, or the child died */
    char *reason;           /* NULL where there is nothing to say */
    json_t *facts;          /* as protocol.h describes them; an empty object where there are none */
};

int ingest_new(struct event_base *base, const char *program_path, unsigned children_max, struct ingest **ret);
/* Kills what runs and ends every job with -ECANCELED. Not to be called from done(). */
struct ingest *ingest_free(struct ingest *ingest);
/* True when INGEST_WAITING_MAX files wait: hold back what can be held back. */
bool ingest_is_full(const struct ingest *ingest);
/* How long a child may take for a small file; larger ones get more. INGEST_DEADLINE by default. */
void ingest_set_deadline(struct ingest *ingest, int64_t duration_ns);

/*
 * Takes both descriptors, also where it fails. dest_fd is an empty file open for reading and writing, or -1
 * for a check without a copy. done() runs later on the loop, exactly once; the result is borrowed and the job
 * gone when it returns.
 */
struct ingest_job *ingest_run(struct ingest *ingest, int source_fd, int dest_fd, int64_t size_max,
                              void (*done)(const struct ingest_result *result, void *arg), void *arg);
/* done() runs with -ECANCELED, later on the loop. */
void ingest_cancel(struct ingest_job *job);

DEFINE_CLEANUP(struct ingest *, ingest_free)
