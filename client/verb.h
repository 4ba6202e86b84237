/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a verb of profctl is: one file each, one struct each, listed in verbs.c.
 *
 * run() gets its parsed options and the words behind them, and returns the exit status (names.h). What a
 * program may read goes to client->out; everything said to a person goes to client->err.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include "client/cli/options.h"
#include "client/cli/pager.h"
#include "client/cli/screen.h"
#include "client/cli/table.h"
#include "client/transport/contexts.h"
#include "client/transport/request.h"
#include "proto/names.h"

struct client {
    struct door *door;
    struct screen out, err;
    bool json, no_legend, quiet;
    /* Of lists and reports (listing.h). */
    enum table_format format;
    const char *columns; /* of --columns, NULL: all */
    bool may_page;       /* a verb that draws again or follows clears it */
    struct pager pager;
    const struct connection *connection; /* as options name it */
    bool may_start_profd;                /* nobody said which profd is meant */
    struct transient *transient;         /* the profd that was started, or NULL */
};

struct verb {
    const char *name;
    const char *words;   /* "[s7]": what comes behind the options, for --help */
    const char *summary; /* one line */
    const char *details; /* further lines of --help, may be NULL */
    char own_kind;       /* what a bare number means: 's', 't', 'r', or 0 */
    unsigned min_words, max_words;
    const struct option_def *options;
    size_t n_options, values_size;
    bool has_listing;        /* takes the options of lists and reports (listing.h) */
    bool needs_only_catalog; /* a profd for the time of the call will do */
    bool is_offline;         /* asks no profd, whatever context is in use: client->door is NULL */
    int (*run)(struct client *c, const void *options, int n_words, char **words);
};

#define WORDS_UNLIMITED 10000

/* An id of the kinds that are allowed ("st"), in normal form ("s7") into ret (at least 24 bytes); else says
 * so and returns -EINVAL. */
#define REF_TEXT_MAX 24
int verb_ref(struct client *c, const char *word, char own_kind, const char *kinds, char *ret);
/* Where profd has it: "/v1/sessions/s7". The caller frees it. */
char *verb_ref_path(const char *ref);

/* A verb with the defaults of all its options; returns its exit status. */
int verb_call(struct client *c, const struct verb *v, int n_words, char **words);
/* The newest session, with_traces: of those that have any; its id into ret (at least REF_TEXT_MAX bytes),
 * which one is printed on stderr. For verbs whose subject was not named. Returns an exit status. */
int verb_newest_session(struct client *c, bool with_traces, char *ret);

/* Where no profd answers, and none was named, starts one for the time of this call (transient.h). Returns an
 * exit status; EXIT_DONE also where there is none to be started: what is asked of it then fails. */
int client_need_profd(struct client *c);
/* Where no profd answers, and none was named, starts the user's own, which stays (own.h): for what is owed
 * when profctl has ended. Ends one that was started for the time of this call. Returns an exit status, as
 * above. */
int client_need_own_profd(struct client *c);
/* For a verb that goes on for long without it: lets a profd that was started end, so that others may start
 * one. */
void client_release_profd(struct client *c);
/* Says what failed and what to do, on stderr; returns the exit status that follows from it. */
int client_fail(struct client *c, const struct problem *p);
/* The same for a request that is wrong: what is wrong in the words of format. remedy may be NULL. */
int client_refuse(struct client *c, const char *remedy, const char *format, ...) _printf_(3, 4);
/* A line on stderr, unless --quiet. */
void client_say(struct client *c, const char *format, ...) _printf_(2, 3);
/* Whether a person can be asked, and the answer to a question, which ends with " [y/N] ", on stderr. */
bool client_can_ask(const struct client *c);
bool client_confirm(struct client *c, const char *format, ...) _printf_(2, 3);
/* An answer as JSON on stdout: indented on a terminal. Returns EXIT_DONE. */
int client_print_json(struct client *c, const json_t *j);
/* A GET that says what failed. Returns an exit status; *ret is set with EXIT_DONE. */
int client_get(struct client *c, const char *path, const char *doing, json_t **ret);
