/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of JSON objects as tables: a line of a table of columns names the member that a column shows, and how.
 */
#pragma once

#include "base/json.h"
#include "client/cli/client.h"

enum json_kind {
    JSON_CELL_TEXT,
    JSON_CELL_LABELS, /* an object: "job=grpo step=12" */
    JSON_CELL_COUNT,  /* "1,234"; absent: 0 */
    JSON_CELL_SIZE,   /* bytes; absent: 0 */
    JSON_CELL_TIME,   /* wall-clock nanoseconds; 0: none */
    JSON_CELL_SPAN,   /* nanoseconds; negative: none */
    JSON_CELL_FIGURE, /* a measurement, rounded */
    JSON_CELL_GIVEN,  /* a number, as a user gave it */
};

struct json_column {
    struct table_column column;
    enum json_kind kind;
    const char *path; /* of the member: "counts/bytes"; may be NULL with text */
    /* The text for people in place of that of the member; the caller frees it. */
    char *(*text)(const json_t *row);
    enum colour (*colour)(const json_t *row);
};

/* An empty table of the columns of --columns, or of all. Returns an exit status; *ret is set with EXIT_DONE. */
int json_table_new(struct client *c, const struct json_column *columns, size_t n, struct table **ret);
/* The columns must be those of json_table_new(). */
void json_table_add(struct table *t, const struct json_column *columns, const json_t *row);
/* The text of a member; NULL: none. The caller frees it. */
char *json_cell_text(enum json_kind kind, const json_t *object, const char *path);
