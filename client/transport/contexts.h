/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: named connections to profd on other machines, kept in $XDG_CONFIG_HOME/profd/contexts.json (mode
 * 0600).
 *
 * A context holds the URL or the socket of a profd, and paths of files: of its token, of certificates. Tokens
 * themselves are never in that file; one that profctl was given is kept in the directory `tokens` next to it,
 * in a file of its own that only its owner can read. "default" is no context: it means the profd of this
 * machine.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include "client/transport/endpoint.h"

#define CONTEXT_DEFAULT "default"

/* The profd that options name; NULL: not given. */
struct connection_options {
    const char *socket, *host, *bus, *context;
    struct credential_options credentials;
};

/* Texts of a context: the member of the file, the heading for people, and the option. */
#define N_CONTEXT_MEMBERS 6
extern const struct context_member {
    const char *key, *heading;
    size_t offset; /* in struct connection_options */
} context_members[N_CONTEXT_MEMBERS];

/* {"current": NAME, "contexts": {NAME: {"host", "socket", "token_file", "cacert", "cert", "key",
 * "plain_http"}}} of the text of the file, every member checked; -EINVAL with the problem. The text is named
 * `path` in it. */
int contexts_parse(const char *text, size_t size, const char *path, json_t **ret, struct problem *p);
/* The contexts of the file; an empty list if the file is missing. */
int contexts_read(json_t **ret, struct problem *p);
/* Replaces the file. */
int contexts_write(const json_t *contexts, struct problem *p);
/* The context of that name; NULL: unknown. */
const json_t *contexts_find(const json_t *contexts, const char *name);
/* Sets the problem of an unknown name. Returns -ENOENT. */
int contexts_unknown(const json_t *contexts, const char *name, struct problem *p);
/* Letters, digits, '.', '_' and '-', at most 64, and not "default". */
bool context_name_is_valid(const char *name);

/* The file of a token that profctl stores; with the suffix CONTEXT_TOKEN_NEW, until its context is written. The
 * caller frees it. NULL without a home directory. */
#define CONTEXT_TOKEN_NEW "new"
char *context_token_path(const char *name, const char *suffix);
void context_forget_token(const char *name, const char *suffix);
/* Stores a new token. */
int context_keep_token(const char *name, const char *token, struct problem *p);
/* Replaces the file of contexts, and the token of this one by the new one. */
int contexts_write_with_token(const json_t *contexts, const char *name, struct problem *p);

/*
 * Completes options that name no profd: by --context, else $PROFD_CONTEXT, else, unless $PROFD_SOCKET is set,
 * the current context. *ret_name is the context's name, NULL: none; strings are borrowed from *ret_contexts,
 * which the caller releases after the connection.
 */
int connection_options_complete(struct connection_options *at, json_t **ret_contexts, const char **ret_name,
                                struct problem *p);
