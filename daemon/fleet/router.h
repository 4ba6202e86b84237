/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How each kind of router lists its workers: one file for each dialect, and one table of all dialects.
 *
 * Pure over the bytes of an answer. ask_router.h does the asking.
 */
#pragma once

#include "base/util.h"
#include "daemon/fleet/worker.h"

#define ROUTER_WHY_MAX 200

/* What a list of workers is read with. */
struct router_bounds {
    size_t workers_max;
    int system_port; /* of the system status servers of a Dynamo frontend's workers; 0: not known */
};

struct router_dialect {
    const char *name; /* what --dialect takes */
    const char *path; /* of the list of workers */
    /* Whether an answer is surely this router's: decides what `auto` calls it. NULL: if it has entries. */
    bool (*recognise)(const json_t *root);
    const char *list_key; /* the member of an answer that is the array of entries; or */
    /* The entries within an answer, for workers_from_json(); returns NULL where it has none. */
    const json_t *(*entries)(const json_t *root);
    /* Reads a list in which not each entry is a worker with a URL, in place of list_key and entries; as
     * router_parse(), which has its root. NULL: the entries are workers. */
    int (*read)(const json_t *root, const struct router_bounds *b, struct fleet *f,
                char why[static ROUTER_WHY_MAX]);
    /* it answers after it has asked its workers: where that takes too long, another path may do */
    bool asks_workers;
};

/* Dialects of optional modules (extras/), NULL at the end. */
extern const struct router_dialect *const extra_routers[];
/* The i-th dialect in the order in which `auto` tries them, NULL after the last. */
const struct router_dialect *router_dialect_at(size_t i);
const struct router_dialect *router_dialect_find(const char *name);
/* All names with commas, for people. The caller frees it. */
char *router_dialect_names(void);

/*
 * Reads the answer that a router gave at path: by the dialect only (of which nothing but a list of workers is
 * demanded), or where it is NULL by the first that recognises it. Fills the fleet's workers and dialect.
 * -EPROTO (with a few words in why) where it is no list of workers, -E2BIG where it is longer than workers_max,
 * -EDESTADDRREQ where it lists hosts and b->system_port is not known, -EADDRNOTAVAIL where it names no host of any
 * worker.
 */
int router_parse(const struct router_dialect *d, const char *path, const char *data, size_t size,
                 const struct router_bounds *b, struct fleet *f, char why[static ROUTER_WHY_MAX]);

/*
 * What the files of the dialects share with the table. Not for others, who use router.h.
 */

/* All dialects of the core, the most telling first; those that share a path stand together, so that it is asked once. */
#define CORE_ROUTERS(X)      X(smg) X(sglang) X(vllm) X(generic) X(list) X(dynamo_rl) X(dynamo) X(lmdeploy)
#define DECLARE_ROUTER(name) extern const struct router_dialect router_##name;
CORE_ROUTERS(DECLARE_ROUTER)

/* The member of an answer, where that is an array; else NULL. */
const json_t *router_list_of(const json_t *root, const char *key);

/*
 * Entries of a router's list, in all the ways that routers write them, into workers of a fleet.
 *
 * Pure. An entry that is no worker, or whose URL cannot be called, becomes a note of the fleet; nothing is
 * dropped in silence.
 */

/*
 * entries is an array of URLs, an array of objects with "url", or an object keyed by URL. -E2BIG where there
 * are more than max, -EPROTO for anything else.
 */
int workers_from_json(struct fleet *f, const json_t *entries, size_t max);
/* One worker by its URL as a person or a router wrote it. -EINVAL with a few words in *reason. */
int fleet_add_url(struct fleet *f, const char *url, struct worker **ret, const char **reason);

/*
 * What becomes of a list of workers before they are called: URLs that only make sense on the router's host
 * are rewritten, entries of one server merged, those that HTTP cannot reach marked. Pure.
 */

/* router_is_here: the router runs on this host, so its loopback is ours. Order stays as listed. */
void listing_settle(struct fleet *f, bool router_is_here);
