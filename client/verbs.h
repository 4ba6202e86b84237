/* SPDX-License-Identifier: Apache-2.0 */
/* Every verb, and the options that all of them take. */
#pragma once

#include "client/verb.h"

extern const struct verb verb_list_workers, verb_doctor, verb_start, verb_run, verb_status, verb_stop,
    verb_list_sessions, verb_list_traces, verb_ingest, verb_query, verb_show, verb_get, verb_open, verb_rm,
    verb_pin, verb_unpin, verb_du, verb_vacuum, verb_events, verb_export, verb_merge, verb_analyze,
    verb_reports, verb_flame, verb_diff, verb_token, verb_bench, verb_list_runs, verb_compare;

/* NULL-terminated, in the order of `profctl help`. */
extern const struct verb *const verbs[];

/* main.c */
extern const struct option_def global_options[];
extern const size_t n_global_options;

const struct verb *verb_find(const char *name);
void verb_help(FILE *out, const struct verb *v);
void verbs_help(FILE *out);
/* Says so; returns the exit status. */
int verb_unknown(struct client *c, const char *name);
