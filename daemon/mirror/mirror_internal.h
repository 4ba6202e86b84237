/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the mirror: the sender (mirror.c), what it reports about itself (mirror_state.c), and the
 * batch that it reads on a thread (mirror_batch.c). The question whether another host has a content
 * (content.c) has a connection of its own, and uses nothing of this header.
 */
#pragma once

#include "base/offload.h"
#include "base/problem.h"
#include "daemon/catalog/changes.h"
#include "daemon/mirror/mirror.h"
#include <event2/event.h>

/* JSON of a batch: one row may be larger. */
#define MIRROR_BATCH_BYTES (1u << 20)

/* A batch that is being read. Lives until its done(), also where the mirror was closed. */
struct mirror_batch;
typedef void (*mirror_batch_fn)(int err, const struct changes *changes, const struct problem *p, void *arg);

struct mirror_batch *mirror_batch_read(struct offload *offload, const char *catalog_path, int64_t after,
                                       int64_t rows_max, mirror_batch_fn done, void *arg);
/* Its done() is not called. NULL is nothing. */
void mirror_batch_cancel(struct mirror_batch *b);

/* How many rows the next batch has. A row that the server refuses is found by halving, and passed over alone. */
struct mirror_window {
    int64_t rows, rows_max;
};
void mirror_window_init(struct mirror_window *w, int64_t rows_max);
void mirror_window_taken(struct mirror_window *w);
/* True where the batch was a single row: it is to be passed over. */
bool mirror_window_refused(struct mirror_window *w);

enum mirror_call {
    MIRROR_CALL_VERSION, /* asks for that of the schema */
    MIRROR_CALL_APPLIED, /* asks what is applied */
    MIRROR_CALL_BATCH,
    MIRROR_CALL_SKIP, /* the batch without its row */
};

/* Of mirror.c; mirror_state.c only reads it. */
struct mirror {
    struct event_base *base;
    struct offload *offload;
    struct catalog *catalog;
    const struct mirror_settings *settings;
    struct name_resolver *names;
    struct pq_connector *connector;

    enum mirror_phase phase;
    struct pq *pq;
    enum mirror_call call;      /* that is running, or ran last */
    struct mirror_batch *batch; /* being read */
    struct mirror_window window;
    int64_t schema;         /* version of the mirror's; 0: not known */
    int64_t applied;        /* -1: not known */
    int64_t from, to, rows; /* of the batch that is being sent */
    int64_t nothing_until;  /* number of a change up to which there is nothing more to send */
    int64_t last_at_start;  /* what an earlier profd can have sent at most */
    bool was_asked;
    int64_t renewed_ns; /* monotonic: when the catalog got another UUID last; 0: never */
    unsigned behind, failures_in_row;
    struct event *look, *gather, *retry, *idle;

    int64_t next_at, begun_ns;
    char *error;
    const char *remedy;
    uint64_t n_rows, n_failures, n_refused;
};

/* Pure. "23505" and "22003" are of values; the row is wrong, not the connection. */
bool mirror_error_is_of_row(const char *state);
/* What to do about an SQLSTATE or a text of libpq; static, NULL: nothing known. */
const char *mirror_error_remedy(const char *state, const char *text);
/* A number of changes, as the server answers it; -EPROTO. */
int mirror_parse_applied(const char *text, int64_t *ret);
