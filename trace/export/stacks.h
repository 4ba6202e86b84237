/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays back the selected slices, track by track, in order of time: within a track each begins after the slices around
 * it and ends before they do, whatever the columns contain. And sums up their time by stacks: one node for each
 * different stack of names in a thread.
 */
#pragma once

#include "base/hash_table.h"
#include "trace/export/selection.h"

struct playing {
    uint64_t row;
    int64_t begin, end;
    bool unfinished; /* end is that of the trace */
    int64_t inside;  /* time of the selected slices directly in it; known when it ends */
    int64_t depth;   /* in the trace, including slices that are not selected */
    uint32_t node;   /* the listener's */
};

struct playback {
    const struct selection *selection;
    bool cut; /* slices are cut to the time that is selected */
    /* Of tracks with a selected slice; either may be NULL. */
    int (*track_begin)(void *arg, uint64_t track);
    int (*track_end)(void *arg, uint64_t track);
    /* around: the selected slice it lies directly in, or NULL. */
    int (*begin)(void *arg, struct playing *slice, const struct playing *around);
    int (*end)(void *arg, const struct playing *slice);
    void *arg;
};

/* 0, -ENOMEM, the error of a listener, or -EBADMSG if tracks share slices. */
int playback_run(const struct playback *p);

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
    struct hash_table numbers; /* private: of nodes */
};

/* A zeroed struct is ready. */
int stacks_collect(struct stacks *st, const struct selection *s);
void stacks_done(struct stacks *st);
