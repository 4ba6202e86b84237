/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every list and every report has in common: --format, --columns, --csv, --tsv, and a pager.
 *
 * A verb with has_listing set takes these options; verbs.c parses them into struct client. The verb makes its
 * table with listing_table() before it asks profd for anything, so that a misspelt column costs nothing,
 * fills it, and prints it with listing_print(). What else it prints goes only to people: listing_is_text().
 */
#pragma once

#include "client/cli/options.h"
#include "client/cli/table.h"
#include "client/transport/connection.h"

struct listing_options {
    const char *format, *columns;
    bool csv, tsv;
};

extern const struct option_def listing_option_defs[];
extern const size_t n_listing_option_defs;

/* Takes the options, and --json, into the client. -EINVAL with the problem. */
int listing_take(struct client *c, const struct listing_options *o, struct problem *p);

/* An empty table of the columns of --columns, or of all. Returns an exit status; *ret is set with EXIT_DONE.
 */
int listing_table(struct client *c, const struct table_column *columns, size_t n, struct table **ret);
/* The indexes of the columns that --columns names, or of all n; names are the keys. The same for what is no
 * table. The caller frees *ret. */
int listing_select(struct client *c, const char *const *keys, size_t n, size_t **ret, size_t *ret_n);

/* Whether text for people is wanted, which is what titles and footers are for. */
bool listing_is_text(const struct client *c);
bool listing_is_separated(const struct client *c);
/* The same, with headings and footers not turned off. */
bool listing_has_legend(const struct client *c);
/* In the format that was asked for, through a pager where there is one. */
void listing_print(struct client *c, struct table *table);
/* The workers of a session as the table that it is (session.h), and for people how the session stands.
 * Returns an exit status. */
int listing_print_workers(struct client *c, const json_t *session);

/* A line above a table, wrapped between words on a terminal. */
void listing_title(struct client *c, const char *title);

/* Refuses CSV, TSV or --columns where there is not one table: "--csv is of one report". Returns an exit
 * status. */
int listing_refuse(struct client *c, const char *what, const char *remedy);

/* Options of lists; type has the member limit, session or labels. Add limit and session by options_to_json(). */
/* clang-format off */
#define LIMIT_OPTION(type, things) \
    {"limit", 'n', "N", OPTION_COUNT, offsetof(type, limit), "Maximum number of " things ", newest first (default: 50)", "limit"}
#define SESSION_OPTION(type, things) \
    {"session", 's', "SESSION", OPTION_SESSION, offsetof(type, session), "Only " things " of this session", "session"}
#define LABEL_OPTION(type, things) \
    {"label", 0, "KEY=VALUE", OPTION_LIST, offsetof(type, labels), "Label to store with the " things " (repeatable)"}
/* clang-format on */

/* Sets "labels" where there are any; 0 or the problem. */
int labels_to_json(const struct option_list *list, json_t *request, struct problem *p);
/* "job=grpo step=12"; NULL where there is none. The caller frees it. */
char *labels_text(const json_t *labels);
