/* SPDX-License-Identifier: Apache-2.0 */
/* Files into the catalog, one after another, with a line for each: what `profctl ingest` does, and what
 * becomes of the report of `profctl run`. */
#pragma once

#include "client/verb.h"

struct ingest_options {
    struct option_list labels;
    const char *session; /* name or id, NULL */
    bool reference, again;
};

/* Starts a profd where none runs. Returns the exit status. */
int ingest_words(struct client *c, const struct ingest_options *o, int n_words, char **words);
