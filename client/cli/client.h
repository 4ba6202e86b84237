/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One invocation of profctl: its streams, how output is wanted, and messages to its user. Every module of
 * the client takes a struct client; only main.c makes one.
 *
 * Data for programs goes to client->out, messages to people go to client->err. The connection to profd and
 * the profd that was started for this invocation belong to upper layers (transport/connection.h,
 * local/user_profd.h), which set and use them.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include "client/cli/options.h"
#include "client/cli/screen.h"
#include "client/cli/table.h"
#include "proto/names.h"

struct client {
    struct connection *connection; /* NULL: the verb needs no profd */
    struct screen out, err;
    bool json, no_legend, quiet;
    enum table_format format; /* of lists and reports (views/listing.h) */
    const char *columns;      /* of --columns, NULL: all */
    bool may_page;            /* cleared by verbs that redraw or follow */
    struct pager pager;
    const struct connection_options *connection_options; /* as given by the options */
    bool may_start_profd;                                /* no option or variable names a profd */
    struct transient *transient; /* the profd that was started for this call, or NULL */
    json_t *missing_hosts;       /* that profd asked for traces in vain, and that were named; NULL: none */
    json_t *lost_hosts;          /* and traces that are gone (traces/lost_hosts.h); NULL: none */
};

/* Prints the problem and its remedy on stderr; returns the exit status that corresponds to its kind. */
int client_fail(struct client *c, const struct problem *p);
/* The same of a problem of that kind: format describes what is wrong. remedy may be NULL. */
int client_error(struct client *c, enum problem_kind kind, const char *remedy, const char *format, ...)
    _printf_(4, 5);
/* The same of a wrong request (PROBLEM_BAD_REQUEST). */
#define client_refuse(c, remedy, ...) client_error(c, PROBLEM_BAD_REQUEST, remedy, __VA_ARGS__)
/* A line on stderr, unless --quiet. */
void client_note(struct client *c, const char *format, ...) _printf_(2, 3);
/* Whether the user can be asked (terminals on both sides), and a question, printed with " [y/N] ". */
bool client_can_ask(const struct client *c);
bool client_confirm(struct client *c, const char *format, ...) _printf_(2, 3);

/* Starts the pager if this verb may have one. Call it before the first line of output. */
void client_page(struct client *c);
/* A JSON value on stdout, indented on a terminal. Returns EXIT_DONE. */
int client_print_json(struct client *c, const json_t *j);

/* Blocks SIGINT and SIGTERM from here on, for those who wait for them (views/follow.h). A pending one ends
 * a call to profd that is in flight with -EINTR. */
void client_hold_signals(void);

/* An id of one of the kinds ("st") in normal form ("s7") into ret (at least REF_TEXT_MAX bytes). A bare number
 * is of default_kind. Else prints the error and returns -EINVAL. */
#define REF_TEXT_MAX 24
int client_parse_ref(struct client *c, const char *word, char default_kind, const char *kinds, char *ret);
