/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of a run, each with what was measured of it, on stdout. */
#pragma once

#include "client/verb.h"

enum requests_format {
    REQUESTS_TABLE, /* the columns that people look for first */
    REQUESTS_CSV,
    REQUESTS_JSONL,
    REQUESTS_JSON,
};

/* run: "r3". An exit status. */
int requests_print(struct client *c, const char *run, enum requests_format format);
/* All of them as a list. An exit status. */
int requests_get(struct client *c, const char *run, json_t **ret);
