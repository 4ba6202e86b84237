/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What waits for a child, in an order that is fair to users: those of one user have one turn after the other, so that
 * those of a user who has many wait for the first of everybody else. Bounded for each user and for all.
 */
#pragma once

#include "base/problem.h"
#include <sys/queue.h>

/* The remedy where more children at a time help. */
#define TURNS_REMEDY_REPORTS "Try again later, or raise [limits] reports=."

/* Something that waits; a member of what does. */
struct turn {
    TAILQ_ENTRY(turn) next;
    const char *user; /* the owner's; "": nobody */
    size_t n_traces;  /* whose descriptors it holds */
    uint64_t number;
};
TAILQ_HEAD(turn_list, turn);

struct turn_limits {
    size_t all, user;   /* that wait */
    size_t traces;      /* of all that wait */
    const char *what;   /* for people: "reports" */
    const char *items;  /* what their descriptors or memory are of: "traces" */
    const char *remedy; /* of what is refused */
};

struct turns {
    struct turn_list waiting; /* in the order of their arrival */
    uint64_t last;            /* number of the last that was taken */
    const struct turn_limits *limits;
};

void turns_init(struct turns *t, const struct turn_limits *limits);
/* 0, or -EAGAIN with a problem: one more of that user on n_traces traces would exceed a limit. */
int turns_check(const struct turns *t, const char *user, size_t n_traces, struct problem *p);
/* user and n_traces are set. */
void turns_add(struct turns *t, struct turn *turn);
/* It waits no more, because it begins. */
void turns_take(struct turns *t, struct turn *turn);
/* It waits no more, and does not begin. */
void turns_drop(struct turns *t, struct turn *turn);
/* Whose turn it is: NULL for `before` gives the first, else the next one after it, for those that cannot begin yet. NULL: none. */
struct turn *turns_next(const struct turns *t, const struct turn *before);
