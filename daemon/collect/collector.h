/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects traces: watches the directories that workers write to, imports finished files into the store and
 * the catalog, and reports to the sessions when a target has all of its traces, or never will. pipeline.h shows
 * the stages.
 *
 * The collector owns its directories and their files. Directories are scanned on the offload, files are read by
 * profd-ingest; only the decisions are made on the loop. It never writes to a worker's directory, except to
 * remove an original that was copied, where the configuration requests it.
 */
#pragma once

#include "daemon/collect/store.h"
#include "daemon/ingest/ingest.h"
#include "daemon/session/sessions.h"

enum collect_mode { COLLECT_COPY, COLLECT_REFERENCE };

struct collect_settings {
    int collect_mode; /* enum collect_mode */
    int remove_original;
    int64_t settle_ns;      /* wait for a file that stops growing, or does not appear: 10 s */
    int64_t file_max;       /* bytes of one file */
    int columns;            /* whether traces are read into columns */
    int64_t columns_memory; /* bytes for that, of one trace */
    /* Traces that an engine writes without a request; others stay where they are. */
    unsigned unclaimed_per_minute;
    char **watch; /* directories in which every trace is cataloged */
    size_t n_watch, cap_watch;
};

struct collector;

/* Borrows everything for its life. Installs itself as the sessions' collector. */
int collector_new(struct event_base *base, struct offload *offload, struct catalog *catalog,
                  struct sessions *sessions, struct store *store, struct ingest *ingest,
                  const struct collect_settings *settings, struct collector **ret);
/* Traces that an engine wrote without a request, and that were not collected. */
uint64_t collector_skipped(const struct collector *c);
/* Begins to watch the configured directories, and to compare store and catalog. */
void collector_begin(struct collector *c);
/* The configured directories have changed: watches the new ones, and removed ones no longer. */
void collector_renew_watches(struct collector *c);

/* import_request.c: a file that a client names, as a trace without a session or of one that is made of such
 * files. */
struct import_request {
    const char *path;   /* absolute; opened with profd's rights */
    bool reference;     /* leave it in place */
    bool again;         /* make the columns again if its bytes are in the catalog */
    const char *labels; /* a JSON object, or NULL */
    /* The session that it becomes part of: by its id, which must exist, or by its name, under which it is
     * created where it does not. RECORD_NONE and NULL: none. */
    int64_t session_id;
    const char *session_name;
    const char *actor;
};

struct import_result {
    int64_t trace_id; /* 0: see the problem */
    bool existed;     /* its bytes were in the catalog */
    struct problem problem;
};

/* done() runs later, once; also when the collector is closed. */
void collector_import(struct collector *c, const struct import_request *request,
                      void (*done)(const struct import_result *result, void *arg), void *arg);

/* Reads a trace whose file is there, for its columns. done() runs later, once; also when the collector is closed and where
 * no columns could be made, for which the row has the reason. */
void collector_read_columns(struct collector *c, const struct trace_record *t, void (*done)(void *arg),
                            void *arg);

/* Nothing new begins; running work may end. Then profd-ingest can be freed and the offload drained, then the
 * collector can be freed. */
void collector_close(struct collector *c);
struct collector *collector_free(struct collector *c);
