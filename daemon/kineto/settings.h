/* SPDX-License-Identifier: Apache-2.0 */
/* [kineto] of profd.conf: where profd listens for Kineto. Pure. */
#pragma once

#include "base/runtime_paths.h"
#include "base/util.h"

#define KINETO_DIRS_MAX 16
/* The word in listen= and the name of the transport. */
#define KINETO_ABSTRACT "abstract"

struct kineto_settings {
    char *listen;      /* the text of listen=; NULL or empty: off */
    int64_t poll_ns;   /* how often processes poll */
    int64_t warmup_ns; /* of each recording; whole seconds */
};

struct kineto_listen {
    bool abstract;
    char *dirs[KINETO_DIRS_MAX];
    size_t n_dirs;
};

/*
 * "abstract", absolute directories, or both, separated by spaces. A directory is refused where Kineto could not use
 * the very same text: more than KINETO_DIR_MAX bytes, "//", ".", "..", a slash at the end. -EINVAL with the reason,
 * which the caller frees. ret may be NULL.
 */
int kineto_listen_parse(const char *text, struct kineto_listen *ret, char **ret_reason);
void kineto_listen_done(struct kineto_listen *l);
