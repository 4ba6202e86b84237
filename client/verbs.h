/* SPDX-License-Identifier: Apache-2.0 */
/* Every verb, and the options that all of them take. */
#pragma once

#include "client/verb.h"

extern const struct verb verb_audit, verb_analyze, verb_bench, verb_compare, verb_diff, verb_doctor, verb_du,
    verb_events, verb_export, verb_flame, verb_functions, verb_get, verb_ingest, verb_list_runs,
    verb_list_sessions, verb_list_traces, verb_list_workers, verb_merge, verb_nsys_command, verb_open,
    verb_pin, verb_query, verb_reports, verb_rm, verb_run, verb_show, verb_start, verb_status, verb_stop,
    verb_timeline, verb_token, verb_torch_command, verb_unpin, verb_vacuum;

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
