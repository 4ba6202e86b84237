/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of a selection's slices, summed up by what they lie in: one node for each different stack of names
 * in a thread.
 */
#pragma once

#include "trace/export/selection.h"

#define STACK_NONE UINT32_MAX

struct stack_node {
    uint32_t parent; /* STACK_NONE for the outermost */
    uint32_t depth;
    int64_t root;  /* number of its thread among roots[] */
    int64_t name;  /* string */
    int64_t self;  /* nanoseconds in it and in none of its children */
    int64_t count; /* slices */
};

struct stacks {
    struct stack_node *nodes; /* a parent comes before its children */
    size_t n, cap;
    char **roots; /* labels of threads, of asynchronous tracks, ... */
    size_t n_roots, roots_cap;
    uint32_t deepest;
    uint32_t *table; /* hash table of nodes; STACK_NONE where none is */
    size_t table_size;
};

/* A zeroed struct is ready. */
int stacks_collect(struct stacks *st, const struct selection *s);
void stacks_done(struct stacks *st);
