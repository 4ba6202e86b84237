/* SPDX-License-Identifier: Apache-2.0 */
/* Starts other programs, which inherit only what they are given. 0 or -errno. */
#pragma once

#include "base/util.h"
#include <spawn.h>

/* Signals are as a program expects them, whatever they are here. flags: further ones of POSIX_SPAWN_. */
int spawn_clean(const char *program, const posix_spawn_file_actions_t *actions, char *const argv[],
                char *const environment[], short flags, pid_t *ret_pid);

/*
 * A child that has fds[i] as its descriptor i, and no others; -1 stands for none. Without an entry in
 * fds, its stdin is empty and its stderr that of this process. It is identified by its pidfd. The descriptors
 * stay the caller's, whose numbers may differ.
 */
int spawn_with(const char *program, int *fds, int n_fds, char *const argv[], char *const environment[],
               short flags, pid_t *ret_pid, int *ret_pid_fd);

/* The path of a command as a shell would find it, to be freed; NULL where there is none. */
char *program_in_path(const char *name);
