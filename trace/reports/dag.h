/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The longest path of a graph without circles, by the weights of its edges. Pure.
 */
#pragma once

#include "base/util.h"

struct dag_edge {
    uint32_t from, to;
    uint32_t note; /* the caller's */
    int64_t weight;
};

struct dag {
    struct dag_edge *edges;
    size_t n_edges, cap;
    uint32_t n_nodes;
};

/* A weight below 0 counts as 0. -ENOMEM. */
int dag_add(struct dag *g, uint32_t from, uint32_t to, int64_t weight, uint32_t note);
/* The edges of the longest path from its beginning, as numbers into edges[]; the caller frees. Of several as
 * long as each other any one. -ELOOP where the graph has a circle, -ENOMEM. */
int dag_longest_path(const struct dag *g, uint32_t **ret_edges, size_t *ret_n);
void dag_done(struct dag *g);
