/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to an archive (archive/archive.h) on profd's event loop: libcurl's transfers on libevent, names resolved by
 * profd's own resolver, hashing and everything in a directory on the threads of base/offload.h.
 *
 * Requests wait in order of arrival until fewer than transfers_max are in flight; with a rate it is one, so that the
 * rate holds for the archive. A request that was started ends in done(), once, never before archive_start() returns; the
 * result is borrowed for the time of done(). One that archive_cancel() ended has no done().
 *
 * Content is read from and written to the page cache on the loop, in pieces of at most 256 KiB: descriptors of a request are
 * of files on a local disk.
 */
#pragma once

#include "archive/archive.h"
#include "base/offload.h"
#include <event2/event.h>

#define ARCHIVE_TRANSFERS_MAX 16

struct archive_loop;
struct archive_job;

/* Borrows the offload; owns the archive from then on. */
int archive_loop_new(struct event_base *base, struct offload *offload, struct archive *archive,
                     unsigned transfers_max, struct archive_loop **ret);
/* Cancels what is in flight. After offload_drain(). NULL is fine. */
struct archive_loop *archive_loop_free(struct archive_loop *l);
/* Nothing is in flight, cancelled requests included: it can be freed while the offload works for others. */
bool archive_loop_is_idle(const struct archive_loop *l);
struct archive *archive_loop_archive(const struct archive_loop *l);

/* Copies the request with its texts, and duplicates its descriptor: a thread may go on with a request that was cancelled. */
struct archive_job *archive_start(struct archive_loop *l, const struct archive_request *q,
                                  void (*done)(struct archive_result *result, void *arg), void *arg);
/* Not within its own done(). */
void archive_cancel(struct archive_job *job);
