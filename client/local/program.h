/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs that profctl starts, found next to it in a build tree or a relocated installation, else where
 * they were installed; and a profd as a child, until it reports on stdout that it is ready.
 */
#pragma once

#include "base/problem.h"
#include <spawn.h>

struct program {
    const char *name, *purpose; /* "reads trace files" */
    const char *relative[2];    /* to profctl's directory */
    const char *installed;
};
extern const struct program program_profd, program_ingest;

/* The path, to be freed; NULL with the problem. */
char *program_find(const struct program *program, struct problem *p);
/* Starts one with clean signals, in a process group of its own: the terminal's Ctrl-C is for profctl, which
 * ends the program in order. 0 or -errno. */
int program_spawn(const char *path, const posix_spawn_file_actions_t *actions, char *const argv[],
                  char *const environment[], pid_t *ret);

struct profd_start {
    const char *program;
    const char *purpose; /* "one for this call", for the error */
    char *const *argv;
    int stdin_fd;    /* borrowed */
    bool is_to_stay; /* in a session of its own, so that no terminal's end reaches it, and in / */
    unsigned timeout_s;
};

/* Starts profd and waits until it is ready; else the problem has the last lines of its stderr. With -ETIMEDOUT
 * the process still runs, and *ret is set. */
int profd_start_wait(const struct profd_start *start, pid_t *ret, struct problem *p);
