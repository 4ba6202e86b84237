/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to profd, over its Unix socket, a URL or D-Bus: one request at a time, and its response.
 *
 * Calls block. On a terminal a long call shows what it is doing; a pending SIGINT or SIGTERM that the caller
 * has blocked ends it with -EINTR. An error response becomes a struct problem, with profd's remarks in its
 * remedy.
 */
#pragma once

#include "client/cli/client.h"
#include "client/transport/endpoint.h"

/* Large enough for 10,000 workers; a larger response is not profd's. */
#define ANSWER_BYTES_MAX (128u << 20)

struct connection;

/* socket and host as given by options, NULL: not given; credentials are for a host, NULL: none; talk is
 * the screen on which long calls are shown, may be NULL. */
int connection_new(const char *socket, const char *host, const struct credential_options *credentials,
                   struct screen *talk, struct connection **ret, struct problem *p);
/* which: "system" or "session". */
int connection_new_on_bus(const char *which, struct screen *talk, struct connection **ret, struct problem *p);
struct connection *connection_free(struct connection *d);
DEFINE_CLEANUP(struct connection *, connection_free)

/* The context that names the connection, for messages. */
void connection_set_context(struct connection *d, const char *name);
/* For messages: a path or a URL, with the context. */
const char *connection_name(const struct connection *d);
/* Over a socket or a bus, so that profd's files are files of this machine. */
bool connection_is_local(const struct connection *d);

/* doing: "finding the workers", or NULL for what takes no time. ret may be NULL. */
int connection_call(struct connection *d, const char *method, const char *path, const json_t *body,
                    const char *doing, json_t **ret, struct problem *p);

/* HTTP status of the last response; 0 without one. */
long connection_status(const struct connection *d);

/* Passes a response body to write(), which returns 0 or a negative errno value that ends the transfer. */
int connection_download(struct connection *d, const char *path,
                        int (*write)(const void *data, size_t size, void *arg), void *arg, struct problem *p);

/* The same of [offset, offset + size) of a file, from any thread: one call waits for the other. -EPROTO where the response
 * is no part; a bus has none. */
int connection_download_range(struct connection *d, const char *path, int64_t offset, int64_t size,
                              int (*write)(const void *data, size_t size, void *arg), void *arg,
                              struct problem *p);

/* Path of the next page of the last response (RFC 8288), NULL: none; the caller frees it. On a bus only the
 * JSON names it. */
char *connection_next_page(const struct connection *d);

/* Whether, by the last response, profd read it from its archive (Link, rel="via"). */
bool connection_came_from_archive(const struct connection *d);

/* Whether it offers event streams; a bus does not. */
bool connection_has_events(const struct connection *d);
bool connection_is_on_bus(const struct connection *d);
/* The path of the Unix socket; NULL: it is none. */
const char *connection_socket(const struct connection *d);
/* The URL of profd, without a slash at its end; NULL on a bus. "http://localhost" with a socket. */
const char *connection_url(const struct connection *d);
/* Prepares a curl handle of the caller's for a path. */
void connection_prepare(const struct connection *d, CURL *curl, const char *path);
/* An error response, problem+json or other, as a problem. Pure. */
int problem_from_answer(long http_status, const char *data, size_t size, struct problem *p);

/* Appends key=value, escaped, to a path: '?' first, '&' then. NULL values are left out. */
void url_add(char **path, const char *key, const char *value);
void url_add_int(char **path, const char *key, int64_t value);
/* The same of each member of an object: texts, integers, true, and lists of texts, which repeat the key. */
void url_add_members(char **path, const json_t *members);

/* "/v1/sessions/s7" of "s7". The caller frees it. */
char *ref_path(const char *ref);

/* Calls that print their error. They return an exit status; *ret is set with EXIT_DONE. */
int client_call(struct client *c, const char *method, const char *path, const json_t *body, const char *doing,
                json_t **ret);
int client_get(struct client *c, const char *path, const char *doing, json_t **ret);
/* The resource of an id: a session, a trace or a benchmark run. */
int client_get_ref(struct client *c, const char *ref, json_t **ret);
