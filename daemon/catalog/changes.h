/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changed in the catalog, in the order of change_row: rows of the public views as JSON, for the mirror in PostgreSQL.
 *
 * A row is sent as it is now; the number of its last change is what counts, so a batch that is repeated, or follows one that
 * was lost, gives the same rows. Numbers are never given twice, and nothing is forgotten when it was sent, except deletions
 * long ago.
 */
#pragma once

#include "base/problem.h"

struct catalog;

/* Traces and events get their numbers here, because a catalog whose changes nobody reads is spared the work:
 * up to a limit of rows in the open commit batch. 1: some did, and there may be more; 0: all have one.
 * Negative errno. */
int catalog_number_changes(struct catalog *c);
/* The number of the newest change, 0 where there is none. Changes of the open commit batch count. Negative errno. */
int catalog_changes_last(struct catalog *c, int64_t *ret);
/* Changes after a number, of which those that have one are counted up to CHANGES_COUNTED_MAX, and the time of
 * the first; RECORD_NONE where none has one. */
#define CHANGES_COUNTED_MAX 100000
int catalog_changes_behind(struct catalog *c, int64_t after, int64_t *ret_n, int64_t *ret_oldest_at);

struct changes_request {
    const char *path;  /* of the catalog */
    int64_t after;     /* number of the last change that was sent */
    int64_t rows_max;  /* at least 1 */
    size_t bytes_max;  /* of JSON; one row may be larger */
    const char *profd; /* version */
};

struct changes {
    char *json; /* the object that fleet.apply() of proto/mirror.sql takes; NULL where nothing changed */
    int64_t to; /* number of its last change */
    int64_t rows;
    int64_t last; /* number of the newest change; it may be that of a row which is forgotten */
};

/* Reads with a connection of its own, on any thread, a committed state. */
int changes_read(const struct changes_request *request, struct changes *ret, struct problem *p);
void changes_done(struct changes *c);

/* A wall-clock time as PostgreSQL reads it, in microseconds, the digits below cut off: "2026-11-20T10:00:00.123456Z". Pure. */
#define CHANGES_TIME_MAX 96
char *changes_time(char ret[static CHANGES_TIME_MAX], int64_t wall_ns);
