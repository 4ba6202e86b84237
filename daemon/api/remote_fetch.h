/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An answer of another host as a file without a name here: columns of a trace, or an export. Asks whether the host answers
 * first (remote_host.h), and gives up when it stops to answer while it sends. Owns nothing of the file.
 */
#pragma once

#include "daemon/api/handler.h"

struct remote_fetch;

struct remote_fetch_job {
    const char *host_uuid, *host; /* copied; host: its name, for texts */
    const char *path;             /* copied */
    int fd;                       /* empty; borrowed until done(), or the cancelling */
    int64_t size_max;
    int64_t timeout_ns;
};

/* done() runs later, once, unless it is cancelled: with the size, or -1 with the problem, which is PROBLEM_UNREACHABLE where the
 * host does not answer. */
struct remote_fetch *remote_fetch_start(struct api *api, const struct remote_fetch_job *job,
                                        void (*done)(int64_t size, const struct problem *p, void *arg),
                                        void *arg);
/* NULL is nothing. */
void remote_fetch_cancel(struct remote_fetch *f);
