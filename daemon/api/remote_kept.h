/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of archived traces of other hosts, for clients that read a trace in ranges: the archive is checked as a complete
 * object, so that a range alone cannot be asked of it. A copy has no name; it is kept while somebody reads it, and at most
 * REMOTE_KEPT_NS longer. Copies are known by the SHA-256 of their content, which was checked. Owns its descriptors.
 */
#pragma once

#include "base/clock.h"
#include <event2/event.h>
#include <sys/queue.h>

#define REMOTE_KEPT_NS        (60 * NS_PER_S) /* after its last use */
#define REMOTE_KEPT_MAX       8
#define REMOTE_KEPT_BYTES_MAX (INT64_C(16) << 30)

struct kept_copy;
TAILQ_HEAD(kept_copies, kept_copy);

struct remote_kept {
    struct kept_copies list; /* the least recently used first */
    struct event *timer;
};

void remote_kept_init(struct remote_kept *all, struct event_base *base);
void remote_kept_done(struct remote_kept *all);
/* Drops all: their room is wanted. */
void remote_kept_clear(struct remote_kept *all);
/* Keeps a duplicate of fd. Larger than REMOTE_KEPT_BYTES_MAX: not at all. */
void remote_kept_add(struct remote_kept *all, const char *sha256, int fd, int64_t size);
/* A duplicate for the caller; -ENOENT: there is none. */
int remote_kept_open(struct remote_kept *all, const char *sha256, int64_t size);
