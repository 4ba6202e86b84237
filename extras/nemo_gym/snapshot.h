/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One look at a server's statistics: the answer that its GET /stats gave, as a list of functions. Earlier
 * servers answer with the table; later ones with nothing, and have written files before they do.
 *
 * Texts of megabytes are parsed, and files read, on the offload's threads.
 */
#pragma once

#include "base/offload.h"
#include "base/problem.h"
#include "daemon/fleet/call.h"
#include "daemon/fleet/worker.h"
#include "extras/nemo_gym/function_list.h"

#define SNAPSHOT_PATH      "/stats"
#define SNAPSHOT_BYTES_MAX (32 << 20)

struct snapshot {
    struct function_list *list; /* NULL: see problem. The receiver may take it */
    char *source;               /* "/stats", or the file's path; NULL with a problem */
    const struct problem *problem;
};

/*
 * Reads what a 200 answered, and takes its body. Where result is NULL (the server is gone), its files are all
 * there is. What is older than asked_at, wall time, is not taken. Copies what else it needs; done() comes
 * later, once, with a snapshot that is its own for that time.
 */
void snapshot_read(struct offload *offload, const struct worker *w, const struct call_result *result,
                   int64_t asked_at, void (*done)(struct snapshot *s, void *arg), void *arg);

/* -- profile_files.c ----------------------------------------------------------------------------------- */

/*
 * The files that a NeMo Gym server writes its statistics into, below its directory of results:
 *
 *   DIR/Class___name/name.callgrind      and, where that is absent, name.log
 *   DIR/Class___name.log                 of earlier versions, when the server ends
 *
 * Blocks: for the offload's threads. No link is followed out of the directory, and only regular files are opened, of
 * the worker's user where that is known.
 */
#define PROFILE_FILE_MAX (32 << 20)
#define UID_UNKNOWN      ((uid_t)-1)

struct profile_source {
    const char *dir;    /* as profd can open it */
    const char *server; /* its name; NULL unknown: then there must be one server only */
    uid_t uid;          /* who must own the files; 0 and UID_UNKNOWN: anybody */
    int64_t not_before; /* wall time: what was written earlier is no answer to what was asked */
};

/*
 * Reads the best file that there is. *ret_path, which the caller frees, is its path. Fails with -ENOENT where
 * there is none or none of that time, -ENODATA where a .log has its heading and no rows, -EBADMSG for what
 * cannot be read, and the errors of files; p describes each.
 */
int profile_files_read(const struct profile_source *source, struct function_list **ret, char **ret_path,
                       struct problem *p);
