/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UUIDs in place of ids: wherever a verb takes s7, t12 or r3, it takes the UUID of the session, trace or run, or enough of its
 * beginning. profd looks them up. A word that is an id, or a file that exists, is never taken for a UUID.
 */
#pragma once

#include "client/cli/client.h"

/* Whether a word has to be looked up. */
bool ref_is_uuid(const char *word);
/* Its id ("t12") into ret (at least REF_TEXT_MAX bytes). Returns an exit status, after the problem was printed. */
int ref_look_up(struct client *c, const char *word, char *ret);

struct refs_found {
    char **texts; /* NULL, or the id that stands in words */
    size_t n;
};

/* Replaces each word that has to be looked up by its id; refs_done() after the last use of the words. */
int refs_look_up(struct client *c, int n_words, char **words, struct refs_found *ret);
void refs_done(struct refs_found *r);
