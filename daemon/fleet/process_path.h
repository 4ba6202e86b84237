/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths across the borders of containers, for the rest of the inspection: the daemon's own door to them is
 * process_resolve_path() in process.h.
 */
#pragma once

#include "base/problem.h"
#include "daemon/fleet/worker.h"

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
bool process_is_kept_out(const struct worker *w, const char *local_dir);

/* What a person can do where a worker's directory is not known, and where profd may not look. */
void process_remedy_unknown(const struct worker *w, struct problem *p);
void process_remedy_denied(const struct worker *w, struct problem *p);
