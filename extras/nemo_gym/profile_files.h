/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that a NeMo Gym server writes its statistics into, found below its directory of results and read:
 *
 *   DIR/Class___name/name.callgrind      and, where that is absent, name.log
 *   DIR/Class___name.log                 of earlier versions, when the server ends
 *
 * Blocks: for the offload's threads. Nothing is followed out of the directory, nothing but a regular file is
 * opened, and only one of the worker's user, where that is known.
 */
#pragma once

#include "base/problem.h"
#include "extras/nemo_gym/function_list.h"
#include <sys/types.h>

#define PROFILE_FILE_MAX (32 << 20)
#define UID_UNKNOWN      ((uid_t)-1)

struct profile_place {
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
int profile_files_read(const struct profile_place *place, struct function_list **ret, char **ret_path,
                       struct problem *p);
