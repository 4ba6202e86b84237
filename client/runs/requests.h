/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of a benchmark run with their measurements, on stdout. */
#pragma once

#include "client/transport/connection.h"

/* run: "r3"; as_lines: a JSON object a line, instead of the format that the client asks for. Text, TSV and
 * --columns have the most important columns. An exit status. */
int requests_print(struct client *c, const char *run, bool as_lines);
/* All of them as a list. An exit status. */
int requests_get(struct client *c, const char *run, json_t **ret);
