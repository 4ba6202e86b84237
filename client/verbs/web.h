/* SPDX-License-Identifier: Apache-2.0 */
/* The web page of profd, for the verbs that open it. */
#pragma once

#include "client/cli/client.h"

/* A code for one log-in, as POST /v1/web/codes returns it. role: NULL for the default. -ENOENT: this profd has no page. */
int web_ask_code(struct client *c, const char *role, json_t **ret, struct problem *p);

struct web_view {
    const char *path; /* "/traces/t12"; NULL: the first view */
    int port;         /* of a relay, even where none is needed; 0: as needed */
    bool may_open;    /* in a browser */
};
/* Prints the address of a view with the code, and opens it. Returns when the user has interrupted the relay, if it needs one.
 * An exit status. */
int web_show(struct client *c, const json_t *code, const struct web_view *v);
