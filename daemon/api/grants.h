/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets that profd itself hands out, in memory only: codes that a page logs in with, tokens of pages, and tickets
 * for downloads. Each is 256 random bits, of which profd keeps the SHA-256; each ends at a time, and a restart ends all.
 *
 * One struct grants is a table of one kind. It is bounded: a user who has user_max of them loses the oldest to a new one,
 * and nobody gets more than max in total. Looking one up takes equally long wherever it is found, or not. Time is given;
 * nothing else here decides what a grant is good for (access_pages.c).
 */
#pragma once

#include "base/problem.h"
#include "daemon/api/access_rules.h"

/* The prefix of a token, 64 digits, NUL. */
#define GRANT_SECRET_SIZE (sizeof(TOKEN_PREFIX) + (size_t)2 * TOKEN_RANDOM_BYTES)

struct grant {
    unsigned char hash[TOKEN_HASH_BYTES];
    uint64_t number; /* of its table, never used again */
    uint64_t login;  /* the number of the login that asked for it; 0: none */
    int64_t ends_ns; /* monotonic */
    enum right right;
    char *user;
    char *
        token; /* name and hash of the token of the file that vouches for it; NULL: a client of the Unix socket */
    unsigned char token_hash[TOKEN_HASH_BYTES];
    char *target; /* of a ticket: the path and query that it opens */
};
void grant_done(struct grant *g);

/* Zeroed but for its bounds. */
struct grants {
    size_t max, user_max;
    struct grant *items;
    size_t n, cap;
    uint64_t last_number;
};
void grants_done(struct grants *t);

/* Copies the texts of `of`; its hash and number are set here. The secret begins with prefix. -EAGAIN: there are too many. */
int grants_add(struct grants *t, const struct grant *of, const char *prefix, int64_t now_ns,
               char ret_secret[static GRANT_SECRET_SIZE], struct problem *p);
/* NULL: none that holds now. The pointer is valid until the table changes. */
const struct grant *grants_find(const struct grants *t, const char *secret, int64_t now_ns);
/* Removes it, and moves it to *ret; -ENOENT as above. */
int grants_take(struct grants *t, const char *secret, int64_t now_ns, struct grant *ret);
/* Removes those that the function names. */
void grants_remove_if(struct grants *t, bool (*is_gone)(const struct grant *g, const void *arg),
                      const void *arg);
