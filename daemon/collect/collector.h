/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What came out: watches the directories that workers write to, brings finished files into the store, and
 * tells the sessions when a target has everything, or never will.
 *
 * The collector owns its directories and what it knows of each file. Looking at directories runs on the
 * offload, reading of files in profd-ingest; only the decisions are made here. It never writes to a worker's
 * directory, except to remove an original that was copied, where the configuration asks for that.
 */
#pragma once

#include "daemon/collect/store.h"
#include "daemon/ingest/ingest.h"
#include "daemon/session/sessions.h"

enum collect_mode { COLLECT_COPY, COLLECT_REFERENCE };

struct collect_settings {
    int collect_mode; /* enum collect_mode */
    int remove_original;
    int64_t settle_ns;      /* how long to wait for a file that grows no more, or never comes: 10 s */
    int64_t file_max;       /* bytes of one file */
    int columns;            /* whether traces are read into columns */
    int64_t columns_memory; /* that this may take, for one trace */
    /* Of the traces that an engine writes unasked; the others stay where they are. */
    unsigned unclaimed_per_minute;
    char **watch; /* directories in which whatever appears is cataloged */
    size_t n_watch, cap_watch;
};

struct collector;

/* Borrows everything for its life. Installs itself as the sessions' collector. */
int collector_new(struct event_base *base, struct offload *offload, struct catalog *catalog,
                  struct sessions *sessions, struct store *store, struct ingest *ingest,
                  const struct collect_settings *settings, struct collector **ret);
/* How many traces that an engine wrote unasked stayed where they were. */
uint64_t collector_skipped(const struct collector *c);
/* Begins to watch the configured directories, and to compare store and catalog. */
void collector_begin(struct collector *c);
/* The configured directories have changed: watches those that are, and no longer those that were. */
void collector_renew_watches(struct collector *c);
/* import.c: a file that somebody names, as a trace of no session or of one that is made of such files. */
struct import_order {
    const char *path;   /* absolute; opened with profd's rights */
    bool reference;     /* leave it where it is */
    bool again;         /* make the columns again if its bytes are in the catalog */
    const char *labels; /* a JSON object, or NULL */
    /* The session that it becomes part of: by its id, which must be there, or by its name, under which it is
     * made where it is not. RECORD_NONE and NULL: none. */
    int64_t session_id;
    const char *session_name;
    const char *actor;
};

struct import_result {
    int64_t trace_id; /* 0: see the problem */
    bool existed;     /* its bytes were in the catalog */
    struct problem problem;
};

/* done() comes later, once; also when the collector is closed. */
void collector_import(struct collector *c, const struct import_order *order,
                      void (*done)(const struct import_result *result, void *arg), void *arg);

/* From here on nothing is begun; what is under way may end. Then profd-ingest can be freed and the offload
 * drained, then this can be freed. */
void collector_close(struct collector *c);
struct collector *collector_free(struct collector *c);
