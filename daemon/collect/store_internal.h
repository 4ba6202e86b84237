/* SPDX-License-Identifier: Apache-2.0 */
/* What store.c and remove.c share. */
#pragma once

#include "daemon/collect/store.h"

struct store {
    const struct store_settings *settings;
    struct catalog *catalog;
    struct offload *offload;
    uint64_t n_incoming;
    int64_t incoming_bytes; /* of the files that are on their way in */
    unsigned n_removals;    /* large ones that are under way */
    bool closing;
};

/* The row and its event, not committed. */
int remove_row(struct store *s, const struct trace_record *t, const char *actor);
