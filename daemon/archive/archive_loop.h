/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to an archive (archive/archive.h) on profd's event loop: libcurl's transfers on libevent, names resolved by
 * profd's own resolver, hashing and everything in a directory on the threads of base/offload.h.
 *
 * Requests wait in order of arrival until fewer than ARCHIVE_TRANSFERS_MAX are in flight; with a rate it is one, so that the
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

#define ARCHIVE_TRANSFERS_MAX 4

struct archive_loop;
struct archive_job;

/* Borrows the offload; owns the archive from then on. */
int archive_loop_new(struct event_base *base, struct offload *offload, struct archive *archive,
                     struct archive_loop **ret);
/* Cancels what is in flight. After offload_drain(). NULL is fine. */
struct archive_loop *archive_loop_free(struct archive_loop *l);

/* Copies the request, not what it points to, which must live until done(), or after a cancellation, until its file
 * descriptor is no longer read: offload_drain(). */
struct archive_job *archive_start(struct archive_loop *l, const struct archive_request *q,
                                  void (*done)(struct archive_result *result, void *arg), void *arg);
/* Not within its own done(). */
void archive_cancel(struct archive_job *job);
