/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls within calls, those of one name in one place as one node, over all threads and ranks: what a tree or
 * a flame graph shows.
 */
#pragma once

#include "trace/reports/analysis.h"

#define CALL_NODE_NONE UINT32_MAX

struct call_node {
    struct text name;
    enum host_kind kind;
    uint32_t parent, depth;
    uint64_t calls, work; /* work: with that of what is within */
    int64_t host, self, device, self_device;
};

struct call_tree {
    struct call_node *nodes; /* what is within a node follows it, what costs most first */
    size_t n;
};

/* of: analysis_ops or analysis_frames. -ENOMEM. */
int call_tree_read(struct analysis *a,
                   int (*of)(struct analysis *a, size_t rank, const struct host_calls **ret),
                   struct call_tree *ret);
void call_tree_done(struct call_tree *tree);
