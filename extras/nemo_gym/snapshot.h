/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot of a server's statistics: the response to GET /stats as a list of functions. Earlier servers respond with
 * the table; later ones respond with an empty body, after they wrote files.
 *
 * Megabytes of text are parsed, and files read, on the offload's threads.
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
 * Reads the response with status 200, and takes its body; result NULL: the server is gone, and only its files are read.
 * Files older than asked_at (wall time) are refused. Copies all other arguments; done() is called later, once, with a
 * snapshot that is valid during that call.
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
    int64_t not_before; /* wall time: earlier files do not belong to the request */
};

/*
 * Reads the best file. *ret_path, which the caller frees, is its path. -ENOENT: there is no file, or none of that time;
 * -ENODATA: a .log has its heading and no rows; -EBADMSG: invalid content; and the errors of files. p describes each.
 */
int profile_files_read(const struct profile_source *source, struct function_list **ret, char **ret_path,
                       struct problem *p);
