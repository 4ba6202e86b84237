/* SPDX-License-Identifier: Apache-2.0 */
/* Every verb, and what verbs do for each other. */
#pragma once

#include "client/local/user_profd.h"
#include "client/transport/connection.h"
#include "client/verbs/verb.h"

extern const struct verb verb_analyze, verb_bench, verb_complete, verb_completion, verb_context, verb_compare,
    verb_diff, verb_doctor, verb_du, verb_events, verb_export, verb_flame, verb_get, verb_ingest, verb_label,
    verb_list_hosts, verb_list_runs, verb_list_sessions, verb_list_traces, verb_list_workers, verb_merge,
    verb_mirror, verb_open, verb_peer, verb_pin, verb_query, verb_reports, verb_rm, verb_show, verb_start,
    verb_status, verb_stop, verb_timeline, verb_token, verb_unpin, verb_vacuum, verb_web;

struct ingest_options {
    struct option_list labels;
    const char *session; /* name or id, NULL */
    bool reference, again, archive;
};

/* Imports files, one after another, with a line for each, as `profctl ingest` does. Starts a profd if none is
 * running. Returns the exit status. */
int ingest_words(struct client *c, const struct ingest_options *o, int n_words, char **words);
/* What the manifests in the archive describe and the catalog does not have. Returns the exit status. */
int ingest_archive(struct client *c);

/* A new token, and its hash as a tokens file has it. An exit status. */
#define TOKEN_TEXT_SIZE (sizeof(TOKEN_PREFIX) + 2 * TOKEN_RANDOM_BYTES)
#define TOKEN_HASH_SIZE 65
int token_make(struct client *c, char token[static TOKEN_TEXT_SIZE], char hash[static TOKEN_HASH_SIZE]);

/* The contents of the store, of the JSON of /v1/usage: "48 traces, 3.1 GiB of 200 GiB". The caller frees it. */
char *usage_text(const json_t *usage);

/* The address of the mirror for readers: the given one, or that which profd names. The caller frees *ret. Returns an exit
 * status. */
int mirror_find_reader(struct client *c, const char *given, char **ret);

/* Runs a named query on a trace, as `profctl query --named` does. limit: rows, or OPTION_ABSENT. Returns the
 * exit status. */
int query_run_named(struct client *c, const char *name, const char *trace, int64_t limit);
