/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of traces, sessions and runs that are searched, sorted or paged by position: which rows they have, in their order.
 *
 * A search reads all rows of its kind, so it runs on a thread with a connection of its own, which sees what is committed; it
 * ends by a deadline, or when nobody waits for it any more. The SQL is composed of texts of this module only: what a client
 * sends is bound as values, or chooses a line of a table.
 *
 * Traces of other hosts are part of the list of traces, as in catalog_each_remote_trace().
 */
#pragma once

#include "base/problem.h"
#include "base/util.h"
#include <stdatomic.h>

enum listing_kind {
    LISTING_TRACES,
    LISTING_SESSIONS,
    LISTING_RUNS,
    _LISTING_KIND_MAX,
};

#define LISTING_WORDS_MAX   8   /* of a search; all have to be found */
#define LISTING_SEARCH_MAX  256 /* bytes */
#define LISTING_LABELS_MAX  8
#define LISTING_DEADLINE_NS (10 * NS_PER_S)
#define LISTING_OFFSET_MAX  INT64_C(1000000000)

struct listing_request {
    enum listing_kind kind;
    char *path;   /* of the catalog */
    char *search; /* words, each of which has to be in one of the columns that a user sees; NULL: none */
    char *sort;   /* a column, "-" before it: descending; NULL: newest first */
    char *state;  /* NULL: any; "active" for sessions and runs that are not over */
    char *labels[LISTING_LABELS_MAX]; /* KEY=VALUE; all have to match */
    size_t n_labels;
    /* Of traces; session_id also of runs. RECORD_NONE, NULL: any. */
    int64_t session_id, since, until;
    char *worker_url;
    bool unclaimed;
    int64_t before_id; /* newest first only: those after it in the list; RECORD_NONE: from the start */
    int64_t limit, offset;
    bool wants_total;
    atomic_bool is_cancelled;
};

struct listing {
    int64_t *ids; /* at most limit */
    size_t n;
    bool has_more; /* after them */
    int64_t total; /* of all offsets; RECORD_NONE: not asked for */
};

/* A request for the newest, without conditions. */
void listing_request_init(struct listing_request *q, enum listing_kind kind);
void listing_request_done(struct listing_request *q);
/* Whether sort, state, search, labels and offset are such that listing_read() takes them: -EINVAL with the problem. Pure. */
int listing_request_check(const struct listing_request *q, struct problem *p);
/* On any thread. -ECANCELED, -ETIMEDOUT after the deadline, or the catalog's error, with the problem. */
int listing_read(const struct listing_request *q, struct listing *ret, struct problem *p);
void listing_done(struct listing *l);
