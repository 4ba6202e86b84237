/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How each kind of router tells who its workers are: one file for each dialect, one table of them all.
 *
 * Pure over the bytes of an answer. ask_router.h does the asking.
 */
#pragma once

#include "daemon/fleet/worker.h"

#define ROUTER_WHY_MAX 200

struct router_dialect {
    const char *name; /* what --dialect takes */
    const char *path; /* of the list of workers */
    /* Whether an answer is surely this router's: decides what `auto` calls it. */
    bool (*recognise)(const json_t *root);
    /* The entries within an answer, for workers_from_json(); NULL where it has none. */
    const json_t *(*entries)(const json_t *root);
    const char
        *url_suffix; /* a path that may stand behind a worker's address, and is none of it; NULL: none */
};

/* The i-th in the order in which `auto` tries them, NULL behind the last. */
const struct router_dialect *router_dialect_at(size_t i);
const struct router_dialect *router_dialect_find(const char *name);
/* All names with commas, for people. The caller frees it. */
char *router_dialect_names(void);

/*
 * Reads the answer that a router gave at path: by the dialect only (of which nothing but a list of workers is
 * demanded), or where it is NULL by the first that recognises it. Fills the fleet's workers and dialect.
 * -EPROTO (with a few words in why) where it is no list of workers, -E2BIG where it is longer than max.
 */
int router_parse(const struct router_dialect *d, const char *path, const char *data, size_t size, size_t max,
                 struct fleet *f, char why[static ROUTER_WHY_MAX]);
