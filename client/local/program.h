/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The programs that profctl starts, found beside it in a build tree or an installation that was moved, else
 * where they were installed.
 */
#pragma once

#include "base/problem.h"
#include <spawn.h>

enum program { PROGRAM_PROFD, PROGRAM_INGEST, PROGRAM_ONNX_WORKER, _PROGRAM_MAX };

/*
 * Starts one with clean signals, and in a group of its own: the terminal's Ctrl-C is for profctl, which ends
 * it in order. 0 or -errno.
 */
int program_spawn(const char *path, const posix_spawn_file_actions_t *actions, char *const argv[],
                  char *const environment[], pid_t *ret);
/* The same in a session of its own, which no terminal's end reaches. */
int program_spawn_apart(const char *path, const posix_spawn_file_actions_t *actions, char *const argv[],
                        char *const environment[], pid_t *ret);
/* The path, to be freed; NULL with the problem. */
char *program_find(enum program program, struct problem *p);
/* A command as a shell would find it; the path is to be freed, NULL where there is none. */
char *program_in_path(const char *name);
