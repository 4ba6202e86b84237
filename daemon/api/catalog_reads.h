/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that read the whole catalog on a thread: lists that are searched or sorted, and comparisons of benchmark runs. One is read
 * at a time, so that they occupy one thread, and users take turns: whoever sends many waits for the first of everybody else.
 * How many wait is bounded for each user and in total, and so is the number of runs that they hold in memory.
 */
#pragma once

#include "base/offload.h"
#include "base/problem.h"
#include "daemon/report/turns.h"

/* That wait, of all users and of one. */
#define CATALOG_READS_MAX      64
#define CATALOG_READS_USER_MAX 16
#define CATALOG_READS_RUNS_MAX 500

/* A member of the request's own data. */
struct catalog_read {
    struct turn turn;
    char *user;
    void (*read)(void *arg); /* on a thread; not called for one that was cancelled while it waited */
    void (*done)(void *arg); /* on the loop, exactly once */
    void *arg;
};

struct catalog_reads {
    struct offload *offload;
    uint64_t queue;
    struct turns turns;
    struct catalog_read *current; /* NULL: none is read */
};

void catalog_reads_init(struct catalog_reads *c, struct offload *offload, const char *catalog);
/* 0, or -EAGAIN with the problem: one more of that user, with n_runs runs in memory, may not wait. */
int catalog_reads_check(const struct catalog_reads *c, const char *user, size_t n_runs, struct problem *p);
/* After catalog_reads_check(). read->read, done and arg are set; user is copied. */
void catalog_reads_add(struct catalog_reads *c, struct catalog_read *read, const char *user, size_t n_runs);
/* Nobody waits for it any more: done() follows, at once for one whose turn has not come. */
void catalog_reads_cancel(struct catalog_reads *c, struct catalog_read *read);
