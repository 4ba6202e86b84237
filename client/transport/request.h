/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call to profd and its answer, over its Unix socket, a URL or D-Bus.
 *
 * A door is where profd is, and the connection that is kept to it. Calls block; a long one says on a terminal
 * what it is doing, and a SIGINT or SIGTERM that the caller has blocked and that is pending ends it with
 * -EINTR. A problem that profd answers arrives as struct problem, with what it remarked folded into the
 * remedy.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include "client/cli/screen.h"
#include "client/transport/credentials.h"
#include <curl/curl.h>

/* An answer may list 10,000 workers; more than this is not profd. */
#define ANSWER_BYTES_MAX (128u << 20)

struct door;

/* socket and host as given by options, NULL where not; credentials are for a host, NULL: none; talk is where
 * a long call is shown, may be NULL. */
int door_new(const char *socket, const char *host, const struct credential_options *credentials,
             struct screen *talk, struct door **ret, struct problem *p);
/* On that bus, "system" or "session". */
int door_new_on_bus(const char *which, struct screen *talk, struct door **ret, struct problem *p);
struct door *door_free(struct door *d);
DEFINE_CLEANUP(struct door *, door_free)

/* The context that it was named by, for texts. */
void door_set_context(struct door *d, const char *name);
/* Where it leads: a path or a URL, with its context. */
const char *door_name(const struct door *d);
/* Through a socket or a bus, so that profd's files are files of this machine. */
bool door_is_local(const struct door *d);

/* doing: "finding the workers", or NULL for what takes no time. ret may be NULL. */
int door_call(struct door *d, const char *method, const char *path, const json_t *body, const char *doing,
              json_t **ret, struct problem *p);

/* HTTP status of the last answer; 0 where there was none. */
long door_status(const struct door *d);

/* Streams a body into write(), which returns 0 or a negative errno value that ends it. */
int door_download(struct door *d, const char *path, int (*write)(const void *data, size_t size, void *arg),
                  void *arg, struct problem *p);

/* Where the last answer said that its next page is (RFC 8288), NULL: nowhere. The caller frees it. A bus has
 * no pages but in JSON. */
char *door_next_page(const struct door *d);

/* Whether it has streams of events; a bus has none. */
bool door_has_events(const struct door *d);
/* Sets a handle of the caller's up for a path; for those who drive curl themselves. */
void door_prepare(const struct door *d, CURL *curl, const char *path);
/* problem+json, or whatever else came with that status, as a problem. Pure. */
int problem_from_answer(long http_status, const char *data, size_t size, struct problem *p);

/* Appends key=value, escaped, to a path: '?' first, '&' then. NULL values are left out. */
void url_add(char **path, const char *key, const char *value);
void url_add_int(char **path, const char *key, int64_t value);
