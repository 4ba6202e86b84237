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

/* Which profd is meant, as options give it; NULL: not. */
struct connection_options {
    const char *socket, *host, *bus, *context;
    struct credential_options credentials;
};

/* {"current": NAME, "contexts": {NAME: {"host", "socket", "token_file", "cacert", "cert", "key",
 * "plain_http"}}} of the text of the file, every member checked; -EINVAL with the problem. The text is named
 * `path` in it. */
int contexts_parse(const char *text, size_t size, const char *path, json_t **ret, struct problem *p);
/* Of the file; no contexts where there is none. */
int contexts_read(json_t **ret, struct problem *p);
/* Replaces the file. */
int contexts_write(const json_t *contexts, struct problem *p);
/* One of them; NULL where there is none of that name. */
const json_t *contexts_find(const json_t *contexts, const char *name);
/* A problem that says which there are. Returns -ENOENT. */
int contexts_unknown(const json_t *contexts, const char *name, struct problem *p);
/* Letters, digits, '.', '_' and '-', at most 64, and not "default". */
bool context_name_is_valid(const char *name);

/* Where a token is kept that profctl was given. The caller frees it. NULL where there is no home. */
char *context_token_path(const char *name);
/* Where it lies until its context is written. */
char *context_new_token_path(const char *name);
int context_keep_token(const char *name, const char *token, struct problem *p);
/* Replaces the file of contexts, and the token of this one by that which was kept for it. */
int contexts_write_with_token(const json_t *contexts, const char *name, struct problem *p);
void context_forget_new_token(const char *name);
void context_forget_token(const char *name);

/*
 * Completes a connection that names no profd: by --context, else $PROFD_CONTEXT, else, unless $PROFD_SOCKET
 * is set, the current context. *ret_name is the context's name, NULL where none is meant; strings are those
 * of *ret_contexts, which the caller releases after the connection.
 */
int connection_options_complete(struct connection_options *at, json_t **ret_contexts, const char **ret_name,
                                struct problem *p);
