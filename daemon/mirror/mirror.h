/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends the rows of the catalog to PostgreSQL (docs/mirror.md): all hosts in one database. The catalog stays the truth; profd
 * works without the mirror, and fills one again that was emptied.
 *
 * A batch is one call of fleet.apply(), so one transaction and one round trip: in order, and without effect where it is
 * repeated. What the server answers when a connection is made decides from where to send. Connections exist only while there
 * is something to send. Batches are read on a thread; the loop only passes them on.
 *
 * The server is not trusted: its numbers are checked, and all waits have deadlines.
 */
#pragma once

#include "base/json.h"
#include "base/offload.h"
#include "base/problem.h"
#include "daemon/catalog/catalog.h"
#include "daemon/mirror/settings.h"

struct mirror;
struct content_question;

enum mirror_phase {
    MIRROR_OFF,     /* not configured */
    MIRROR_CURRENT, /* nothing to send */
    MIRROR_CONNECTING,
    MIRROR_SENDING,
    MIRROR_WAITING, /* after a failure, for the next try */
    _MIRROR_PHASE_MAX,
};
const char *mirror_phase_name(enum mirror_phase phase);

struct mirror_state {
    enum mirror_phase phase;
    bool connected;
    int64_t schema;             /* version of the mirror's; 0: not known yet */
    int64_t applied;            /* number of the last change that the mirror has; -1: not known yet */
    int64_t last;               /* number of the last change of the catalog */
    int64_t lag;                /* changes to send, counted up to CHANGES_COUNTED_MAX; -1: not known yet */
    int64_t lag_ns;             /* age of the oldest of them */
    int64_t next_at;            /* wall-clock time of the next try; 0 where none is planned */
    const char *error, *remedy; /* of the last failure, NULL once a batch was taken; borrowed */
    uint64_t rows, failures, refused_rows; /* since the start */
};

/* Settings and catalog are borrowed. -EINVAL with the problem where an address is none. */
int mirror_new(struct event_base *base, struct offload *offload, struct catalog *catalog,
               const struct mirror_settings *settings, struct mirror **ret, struct problem *p);
/* Begins to send. */
void mirror_begin(struct mirror *m);
/* Whether settings would be accepted. */
int mirror_check_settings(const struct mirror_settings *s, struct problem *p);
/* The settings were replaced: connects anew. */
void mirror_renew(struct mirror *m);
/* Ends the connection, before the offload is drained. -ETIMEDOUT where a server holds the thread that connects:
 * the process must end without waiting for it, and without mirror_free(). NULL is nothing. */
int mirror_close(struct mirror *m);
/* After the offload was drained. NULL is nothing. */
struct mirror *mirror_free(struct mirror *m);

/* Whether another host has a trace with that content: content.h. NULL also where no mirror is configured. */
struct content_question *mirror_ask_content(struct mirror *m, const char *sha256,
                                            void (*done)(const char *host, const struct problem *p,
                                                         void *arg),
                                            void *arg);
bool mirror_is_configured(const struct mirror *m);

void mirror_read_state(const struct mirror *m, struct mirror_state *ret);
/* Whether it has changes to send and a server that takes them: a profd that ends when idle waits for it. */
bool mirror_is_busy(const struct mirror *m);
/* {"state", "url", "reader", "catalog", "host", "schema_version", "schema_known", "applied", "last", "lag",
 * "lag_ns", "rows", "error", "remedy", "next_at"}, without passwords. The caller releases it. */
json_t *mirror_to_json(const struct mirror *m);
