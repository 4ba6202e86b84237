/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of bearer tokens: one line for each, "NAME ROLE HASH", '#' begins a comment. Pure but for
 * tokens_load().
 *
 * The hash is the SHA-256 of the token, in hexadecimal. A token is 256 random bits: there is no dictionary to
 * try and nothing to be gained by a slow hash with salt, which would only let clients keep the loop busy.
 * Whoever reads the file learns no token from it.
 */
#pragma once

#include "base/problem.h"
#include "proto/names.h"

#define TOKENS_MAX       1000
#define TOKENS_FILE_MAX  (256 << 10)
#define TOKEN_NAME_MAX   64
#define TOKEN_TEXT_MAX   512 /* of what clients send; longer is none */
#define TOKEN_HASH_BYTES 32

struct token {
    char *name;
    enum right right;
    unsigned char hash[TOKEN_HASH_BYTES];
};

/* A zeroed struct has none. */
struct tokens {
    struct token *items;
    size_t n, cap;
};

/* -EINVAL with the first wrong line, of which nothing is repeated: it may hold a token. */
int tokens_parse(const char *file_name, const char *data, size_t size, struct tokens *ret, struct problem *p);
/* Refuses a file that others may write, or that anybody may read. */
int tokens_load(const char *path, struct tokens *ret, struct problem *p);
void tokens_done(struct tokens *t);

/* Takes as long whether and where it is found. NULL where it is none. */
const struct token *tokens_find(const struct tokens *t, const char *text);

/* The token of "Bearer TOKEN"; NULL where the header (may be NULL) is something else. */
const char *tokens_of_header(const char *authorization);
