/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of workers on this host, read from /proc: which process listens on a port, its command line,
 * environment, working directory, container and children, and which of them has a file open.
 *
 * Everything here may block and is called on the offload's threads. Nothing is ever written to /proc, no
 * signal is ever sent.
 */
#pragma once

#include "base/problem.h"
#include "base/process_info.h"
#include "base/util.h"
#include "daemon/fleet/fleet.h"
#include <sys/stat.h>

/* What lets a profd that is a service read what is others'. */
#define FOREIGN_DROP_IN "the drop-in collect-foreign.conf (profd(8), \"Installed\")"

/*
 * An inspection of a fleet's processes, in two steps, each of which may block. The search for those that listen at the
 * workers' URLs needs nothing else of a worker, and runs while the workers are asked what they are.
 */
struct inspection;
struct inspection *inspection_new(const struct fleet *fleet);
void inspection_search(struct inspection *in);
/* After the search: whether the URL of the i-th worker leads to a process of this host. */
bool inspection_is_here(const struct inspection *in, size_t i);
struct inspection *inspection_free(struct inspection *in);

/* Fills local, pid, uid, setup and location of each worker of the fleet that listens on this host (and keeps what is
 * known). Takes a search, made when the fleet had the first of its workers; searches itself if it is NULL or outdated. */
void processes_inspect(struct fleet *fleet, const struct fleet_settings *settings,
                       struct inspection *take_searched);

/*
 * A path as the worker names it, turned into one that profd can open: itself where the worker shares profd's
 * root, by map_path, or below /proc/PID/root. Returns a new string, or NULL with the reason and the remedy in
 * p.
 */
char *process_resolve_path(const struct worker *w, const struct fleet_config *config, const char *path,
                           struct problem *p);
/* Whether the worker's user could write there: 1 yes, 0 no, -1 cannot be known. */
int process_can_write(const struct worker *w, const char *local_path);
/* The user of a process and what it may do: no capabilities where those are of another user namespace. */
int process_user_read(pid_t pid, struct process_status *ret);
/*
 * Whether the user of a process, as process_user_read() had it, chose its command line and environment: 1; 0 where another
 * may have, who started a program that grants rights (set-uid, set-gid, capabilities of its file); -1 where that is not
 * known. Blocks.
 */
int process_is_of_user(pid_t pid, const struct process_status *user);
/* As process_can_write(). */
int process_user_can_write(const struct process_status *user, const char *local_path);

/*
 * Paths across the borders of containers, for the rest of the inspection. Other modules of the daemon use
 * process_resolve_path().
 */

/* A file as the process sees it. */
struct process_file {
    char *data; /* NULL: it is not there, or not read */
    size_t size;
    char *refusal; /* why it is not read, although it may be there: a clause; NULL: none */
};

/* Reads a regular file under the name that the process gives it (absolute), as far as its user may read it
 * and nobody else could have put it there (process_walk.h). */
int process_read_file(pid_t pid, const char *path, size_t max, struct process_file *ret);
void process_file_done(struct process_file *f);

/* A directory of profd's own view must be one that it can list; one that is missing is made by the engine. */
int process_check_dir(const struct worker *w, const char *local, struct problem *p);

/* Whether the worker's user surely may not write to a directory of profd's own view: then what lies there is
 * others', and profd lends nobody its rights to it. */
bool process_is_kept_out(const struct worker *w, const struct process_status *user, const char *local_dir);

/* What a person can do where a worker's directory is not known, and where profd may not look. */
void process_remedy_unknown(const struct worker *w, struct problem *p);
void process_remedy_denied(const struct worker *w, struct problem *p);

/*
 * PyTorch in a process (process_torch.c).
 */

/* 1: the process has PyTorch, 0: it has not; negative where its maps cannot be read. ret_version is NULL where the
 * version is not known; the caller frees it. May block. */
int process_torch(pid_t pid, char **ret_version);
char *process_torch_version(pid_t pid);
/* The directory of the package in the text of /proc/PID/maps; NULL: none. Pure, as the next. */
char *torch_dir_of_maps(const char *maps);
/* "2.10.0+cu128" of the text of torch/version.py; NULL: none. */
char *torch_version_parse(const char *text);

/*
 * The way to a file as a worker's process goes it: one component after the other, beneath its root, with
 * links as it follows them.
 *
 * profd may go where the process may not, and lends it nothing: a directory that its user may not search ends
 * the way. So does a directory that everybody may write to, because any user may have created its files: they
 * prove nothing about the worker.
 */

/* Whether the user may do all of what is asked (bits of one class: 4 read, 2 write, 1 search) with what lies
 * at path: 1, 0, or -1 where that is not known. */
int process_user_may(const struct process_status *user, const char *path, const struct stat *st,
                     unsigned bits);

/* An O_PATH descriptor of what lies at the end of the absolute path. -EACCES and -EPERM with the reason,
 * which the caller frees. */
int process_walk(int root_fd, const char *path, const struct process_status *user, char **ret_reason);

/*
 * Where one worker's traces appear, derived from its process and its settings. May block.
 */

struct launch_cache;

/*
 * Fills setup and place of a worker whose pid and uid are set, and makes local_dir of the directory that is
 * known. A directory that is known already is kept. config may be NULL; remark ("" for none) is appended to
 * found_by: it describes how the process was found.
 */
void process_trace_dir(struct worker *w, const struct fleet_settings *settings,
                       const struct fleet_config *config, struct launch_cache *cache, const char *remark);
/* What was read of the processes that were looked at last, for one inspection. */
struct launch_cache *launch_cache_new(void);
struct launch_cache *launch_cache_free(struct launch_cache *c);
/* The user of a process, or why it is not known. */
int launch_cache_user(struct launch_cache *c, pid_t pid, uid_t *ret);
/* As process_is_of_user(). */
int launch_cache_is_of_user(struct launch_cache *c, pid_t pid);
/* The same for a worker whose process is not known, for the given reason, which is emptied. own_host: its URL
 * is one of this host. */
void process_trace_dir_unseen(struct worker *w, const struct fleet_settings *settings,
                              const struct fleet_config *config, bool own_host, struct problem *reason);

/* Sets same_as of each process that registered by itself, and is, or is an ancestor or a descendant of, the process of
 * another worker of the fleet. May block. */
void processes_match(struct fleet *fleet);

/* Whether the capabilities of a process count for profd's users; false where that is not known. */
bool process_same_user_namespace(pid_t pid);
/* The process's path under profd's own names, by the mount tables of both; NULL: none. The caller frees it.
 */
char *process_translate_by_mounts(pid_t pid, const char *path);
