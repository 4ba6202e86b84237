/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs profd-ingest (proto/ingest.h): its descriptors, arguments, answer and end. profd and profctl share it; each
 * waits for descriptors in a loop of its own.
 *
 * A zeroed struct is none; ingest_child_init() comes first. Children are waited for by pidfd: no signal handler,
 * no interference with other children of the process.
 */
#pragma once

#include "base/json.h"
#include "proto/ingest.h"
#include <signal.h>
#include <sys/types.h>

struct ingest_child {
    /* Given to the child, by the number that each gets there; -1 none. They are the struct's, under numbers that
     * may change. */
    int fds[INGEST_FD_GROUP + 1];
    int64_t size_max;
    int64_t cpu_s;        /* processor time, of all threads together */
    int64_t memory_max;   /* of reading into columns; 0: profd-ingest's own */
    int64_t columns_room; /* bytes of the disk */
    int64_t part[3];      /* of a merged file: number, first and last process id; 0: the complete file */
    bool with_progress;   /* opens progress_fd */
    bool background;      /* at the lowest priority */
    bool own_group;       /* Ctrl-C of the terminal does not reach it */

    int pid_fd, answer_fd, progress_fd; /* -1 while not running; answer and progress do not block */
    bool answered;                      /* the answer is complete */
    char *answer;
    size_t answer_size;
};

void ingest_child_init(struct ingest_child *c);
/* Opens the pipes and starts it. In either case closes all fds but source and destination, for another start. 0
 * or -errno. */
int ingest_child_start(struct ingest_child *c, const char *program);
/* Takes what the pipe holds. True when nothing more comes: the answer is complete, or too large. */
bool ingest_child_take_answer(struct ingest_child *c);
void ingest_child_kill(const struct ingest_child *c);
/* Waits for its end, and takes the rest of the answer. */
siginfo_t ingest_child_reap(struct ingest_child *c);
/* Releases what a start made, for another one. */
void ingest_child_clear(struct ingest_child *c);
void ingest_child_done(struct ingest_child *c);

/* "profd-ingest was killed by SIGSEGV"; NULL of a good end. The caller frees it. */
char *ingest_child_failure(const siginfo_t *end);
/* A limit ended it: the kernel kills where memory or processor time is used up, profd at a deadline. */
bool ingest_child_hit_limit(const siginfo_t *end);
/* The answer, an object; NULL with a reason that the caller frees. */
json_t *ingest_child_parse(const struct ingest_child *c, char **ret_reason);
