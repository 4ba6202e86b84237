/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a profd if none answers and the user named none, on the user's own catalog: for the duration of
 * one call, or as the per-user instance that stays.
 *
 * The transient one, `profd --transient`, has a socket of its own next to that of the per-user instance. It
 * ends when profctl does, however profctl ends: its stdin is a pipe that only profctl holds.
 *
 * The per-user instance is for verbs that must be finished after profctl has ended, such as a recording that
 * has to be stopped. It is a plain child, so it belongs to profctl's cgroup and ends with it (a Slurm job, a
 * container); without work it ends by itself. It never replaces the system's profd: on a host that has one as
 * a service, the error prints how to start that.
 *
 * One catalog has one profd: whoever starts one holds a lock on a file in the directory of its socket.
 */
#pragma once

#include "client/cli/client.h"

/* For a verb that needs only the catalog: starts a transient profd if none answers and none was named, and
 * connects to it. Returns an exit status; EXIT_DONE also if no profd is installed: the next call then fails. */
int client_need_profd(struct client *c);
/* For a verb that needs the per-user instance: starts it under the same conditions, after ending a transient
 * one. Returns an exit status, as above. */
int client_need_user_profd(struct client *c);
/* The same for a verb about processes that register with it: prints what they need in their environment. */
int client_need_kineto_profd(struct client *c);
/* Ends a transient profd, so that others can start one while this verb continues without. */
void client_release_profd(struct client *c);

/* The newest session, or with_traces the newest that has traces; its id into ret (at least REF_TEXT_MAX bytes). Prints
 * on stderr which one it is. Returns an exit status. */
int client_newest_session(struct client *c, bool with_traces, char *ret);
/* Without words, makes the newest session that has traces the only one: its id is in *ret_newest, which the caller
 * frees. Returns an exit status. */
int client_words_or_newest(struct client *c, int *n_words, char ***words, char **ret_newest);
