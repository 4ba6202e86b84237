/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of every list and every report: --format, --columns, --csv, --tsv, and a pager.
 *
 * A verb with has_listing set takes these options; verb.c parses them into struct client. The verb makes its table with
 * listing_table() before it calls profd, so that an unknown column is refused first, fills it, and prints it with
 * listing_print(). Everything else that it prints is for people: listing_is_text().
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
/* The indexes of the columns of --columns, or of all n; keys are their names. The caller frees *ret. */
int listing_select(struct client *c, const char *const *keys, size_t n, size_t **ret, size_t *ret_n);

/* Whether the format is text for people, which has titles and footers. */
bool listing_is_text(const struct client *c);
bool listing_is_separated(const struct client *c);
/* The same, unless headings and footers are disabled. */
bool listing_has_legend(const struct client *c);
/* In the format of the options, through a pager if there is one. */
void listing_print(struct client *c, struct table *table);
/* The workers of a session as a table (session.h), and for people the progress of the session. An exit status. */
int listing_print_workers(struct client *c, const json_t *session);

/* A line above a table, wrapped between words on a terminal. */
void listing_title(struct client *c, const char *title);

/* Refuses CSV, TSV and --columns without a single table: "--csv needs one report". An exit status. */
int listing_refuse(struct client *c, const char *what, const char *remedy);

/* Options of lists; type has the member limit, session or labels. Add limit and session by options_to_json(). */
/* clang-format off */
#define LIMIT_OPTION(type, things) \
    {"limit", 'n', "N", OPTION_COUNT, offsetof(type, limit), "Maximum number of " things ", newest first (default: 50)", "limit"}
#define SESSION_OPTION(type, things) \
    {"session", 's', "SESSION", OPTION_SESSION, offsetof(type, session), "Only " things " of this session", "session"}
/* What selects and orders rows at the server; type has the members labels, search and sort. */
#define SEARCH_OPTIONS(type, things, columns) \
    {"search", 0, "WORDS", OPTION_TEXT, offsetof(type, search), "Only " things " with all of these words in a column", "search"}, \
    {"label", 0, "KEY=VALUE", OPTION_LIST, offsetof(type, labels), "Only " things " with this label (repeatable)", "label"}, \
    {"sort", 0, "COLUMN", OPTION_TEXT, offsetof(type, sort), "Sort by COLUMN, or by -COLUMN in descending order: " columns, "sort"}
#define LABEL_OPTION(type, things) \
    {"label", 0, "KEY=VALUE", OPTION_LIST, offsetof(type, labels), "Label to store with the " things " (repeatable)"}
/* clang-format on */

/* Sets "labels" where there are any; 0 or the problem. */
int labels_to_json(const struct option_list *list, json_t *request, struct problem *p);
/* "job=grpo step=12"; NULL: no labels. The caller frees it. */
char *labels_text(const json_t *labels);
