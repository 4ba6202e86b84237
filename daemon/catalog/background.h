/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What profd has yet to compute of what the catalog has: sums of a trace, files of a session or of a benchmark run. Each is
 * a row from the commit that makes it necessary until the commit with its result, so a restart loses none of them. The triggers
 * of proto/catalog.sql add those of sessions and runs.
 */
#pragma once

#include "daemon/catalog/records.h"

enum background_kind {
    BACKGROUND_SUMS,     /* of a trace */
    BACKGROUND_SLICES,   /* of the traces of a session */
    BACKGROUND_REQUESTS, /* of a benchmark run */
    _BACKGROUND_KIND_MAX,
};

struct background_record {
    int64_t background_id; /* another one once it is wanted again, even while it is computed */
    int64_t id;            /* of the trace, the session or the run */
    int64_t tries;         /* that failed */
};

/* In this batch. What was wanted before and is not computed yet is not wanted twice. */
int catalog_want_background(struct catalog *c, enum background_kind kind, int64_t id);
/* fn is called after each commit with catalog_want_background() for that kind. One function for each kind. */
void catalog_on_background(struct catalog *c, enum background_kind kind, void (*fn)(void *arg), void *arg);
/* 1 and the oldest that is due by the wall clock, 0: none is. */
int catalog_next_background(struct catalog *c, enum background_kind kind, int64_t now,
                            struct background_record *ret);
/* When the next one is due; RECORD_NONE: there is none. */
int64_t catalog_next_background_at(struct catalog *c, enum background_kind kind);
/* It failed, and is tried again at next_at. */
int catalog_delay_background(struct catalog *c, const struct background_record *b, int64_t next_at);
/* It is computed, or nothing is left to compute. */
int catalog_end_background(struct catalog *c, int64_t background_id);
/* Whether any of any kind is due. */
bool catalog_background_is_due(struct catalog *c, int64_t now);
