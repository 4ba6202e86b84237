/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding workers without a router: a file of targets, a cluster's API, DNS, a list of nodes. One table
 * (proto/sources.h), one file each.
 *
 * A source is pure over the bytes of answers, except for look(), which runs on a thread of the offload. ask_source.h
 * sends the requests. What it finds is a list of URLs, with roles and identities where the source has them; discovery
 * identifies the workers afterwards, as those of a router.
 *
 * Credentials: a source has its own, which go to the URL that stands next to them in profd.conf and nowhere else, and
 * never to a worker; the credentials of the fleet go to its workers, and never to a source. A source that a request
 * names (`asked`) gets no credential of profd.conf for a URL of the requester's choice, and opens no file.
 */
#pragma once

#include "base/problem.h"
#include "daemon/fleet/worker.h"
#include "proto/sources.h"

#define SOURCE_WHY_MAX 300
/* Bytes of one answer, of all pages of one source, and their number: Kubernetes gives 500 pods on a page, with up to
 * 20 KiB each. */
#define SOURCE_ANSWER_MAX (16 << 20)
#define SOURCE_BYTES_MAX  (64 << 20)
#define SOURCE_PAGES_MAX  200
/* Bytes of a value: a URL, a name, a list of nodes; contents of a file that profctl has read are the longest. */
#define SOURCE_VALUE_MAX (1 << 20)

struct source_config;

/* One HTTP call. */
struct source_request {
    char *url; /* owned */
    /* Borrowed from the configuration or static; NULL: none. Both are read anew for each call. */
    const char *token_file, *ca_file;
    const char *keys; /* prefix of these keys in profd.conf, for errors: "kubernetes_" */
    /* NULL: the token is a bearer token; else the header that has it, "X-Consul-Token" */
    const char *token_header;
    bool ca_alone; /* trusts ca_file and no authority of the system; without a ca_file, those of the system */
};
void source_request_done(struct source_request *r);

struct fleet_source {
    const char *key;
    /* Pure: whether the value is well-formed. -EINVAL with *reason (static), which follows "must be " or, where it
     * begins with a space, the value itself. */
    int (*check)(const struct source_config *c, const char **reason);
    /* The same of port= for a source that takes other ports than the number or the name of one; NULL: it does not. */
    int (*check_port)(const char *port, const char **reason);
    /* By HTTP: the request of the next page (next NULL: of the first). -EOPNOTSUPP: this value is for look().
     * -EINVAL with words in why. Pure. NULL: the source has none. */
    int (*request)(const struct source_config *c, const char *next, struct source_request *ret,
                   char why[static SOURCE_WHY_MAX]);
    /* The workers of one answer with status 200, added to the fleet; sets *ret_next where there are more pages.
     * -EPROTO with a few words in why, -E2BIG where the fleet has more than max workers. Pure. */
    int (*parse)(const struct source_config *c, const char *data, size_t size, size_t max, struct fleet *f,
                 char **ret_next, char why[static SOURCE_WHY_MAX]);
    /* What may block, on a thread of the offload: files, DNS; or a pure computation. Errors as parse(), and those of
     * the system with words in why. */
    int (*look)(const struct source_config *c, size_t max, struct fleet *f, char why[static SOURCE_WHY_MAX]);
    /* After the last page: what only the complete list shows. Pure. NULL: nothing. */
    void (*complete)(const struct source_config *c, struct fleet *f);
    /* Sets the problem where the source knows what a refusal (another status than 200, with its body) means; else false.
     * Pure. NULL: none. */
    bool (*explain)(const struct source_config *c, int status, const char *body, size_t size,
                    struct problem *p);
    /* What to do about an error (err < 0) or an answer with another status than 200; static. NULL, or returns NULL:
     * the general advice. */
    const char *(*remedy)(const struct source_config *c, int err, int status);
    /* After a failure the last list of a configured fleet stays, with a note. Not for sources whose addresses are soon
     * somebody else's. */
    bool keeps_last;
};

/*
 * Keys of [fleet NAME] that only profd.conf has. X(member, kind, the sources that use it, arg); kind is path, url or address.
 * Credentials of a source whose value is no URL go to its key of kind url: a request that names such a source gets both
 * from profd.conf, or neither.
 */
/* clang-format off */
#define SOURCE_KEYS(X, arg) \
    X(targets_token_file, path, "targets", arg) \
    X(targets_ca_file, path, "targets", arg) \
    X(kubernetes_url, url, "kubernetes pods", arg) \
    X(kubernetes_token_file, path, "kubernetes pods", arg) \
    X(kubernetes_ca_file, path, "kubernetes pods", arg) \
    X(resolver, address, "dns srv", arg) \
    X(ray_token_file, path, "ray", arg) \
    X(ray_ca_file, path, "ray", arg) \
    X(consul_token_file, path, "consul", arg) \
    X(consul_ca_file, path, "consul", arg)
/* clang-format on */

#define SOURCE_MEMBER_FIELD(member, option, value, help, of, arg) char *member;
#define SOURCE_KEY_FIELD(member, kind, of, arg)                   char *member;

struct source_config {
    const struct fleet_source *source; /* NULL: none */
    char *value;
    bool asked; /* by a request, not by profd.conf */
    SOURCE_MEMBERS(SOURCE_MEMBER_FIELD, ) SOURCE_KEYS(SOURCE_KEY_FIELD, ) /* NULL: not set */
};

#define SOURCE_DECLARE(key, value, help, arg) extern const struct fleet_source source_##key;
FLEET_SOURCES(SOURCE_DECLARE, )

/* In the order of the table, NULL after the last. */
const struct fleet_source *source_at(size_t i);
const struct fleet_source *source_find(const char *key);

/* The members of struct source_config besides the value. */
struct source_setting {
    const char *name;
    const char *of;       /* keys of the sources that use it, separated by spaces */
    const char *expected; /* follows "must be" */
    size_t offset;
    bool asked;  /* requests have it, too */
    bool is_url; /* to which the source's credentials go */
};
extern const struct source_setting source_settings[]; /* a NULL name at the end */

void source_config_done(struct source_config *c);
void source_config_copy(const struct source_config *c, struct source_config *ret);
/* "targets=/etc/profd/targets.json", shortened. The caller frees it. */
char *source_config_text(const struct source_config *c);
/* Takes a source. -EINVAL with the reason (the caller frees it) where another one is set already. */
int source_config_set(struct source_config *c, const struct fleet_source *source, const char *value,
                      char **ret_reason);
/* The value, and that each setting belongs to the source. -EINVAL with the reason (the caller frees it), which names the
 * key. To be called when all is set. */
int source_config_check(const struct source_config *c, char **ret_reason);
/* The key of kind url that a source has ("kubernetes_url"); NULL: none. */
const struct source_setting *source_url_setting(const struct fleet_source *source);
const char *source_config_get(const struct source_config *c, const struct source_setting *s);
/* Takes over what only profd.conf has: that key and the credentials that go to it. */
void source_config_lend(struct source_config *c, const struct source_config *from);
/* Whether a request's source is that of profd.conf: same key, value, port and label. */
bool source_config_equal(const struct source_config *a, const struct source_config *b);

/* -- For the sources ---------------------------------------------------------------------------------- */

/* http:// or https://, a host, a path and perhaps a query; no user names. -EINVAL with the reason (static). */
int source_url_check(const char *url, const char **reason);
/* Whether a value begins as a URL does. */
bool source_is_url(const char *value);
/* Adds a worker, up to max: scheme (NULL: http) and HOST:PORT, or a URL. An address that cannot be called becomes a note
 * of the fleet. *ret is NULL then. -E2BIG: there are max already. */
int source_add_worker(struct fleet *f, size_t max, const char *scheme, const char *address,
                      struct worker **ret);
/* Sets the role that a label names, where profd knows that word: "prefill", "decode", "prefill-decode", ... */
void source_take_role(struct worker *w, const char *word);
