/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event stream of profd, which outlives profd: when the connection ends, it is made again, and what was
 * missed is asked for by the last event's id.
 */
#pragma once

#include "client/request.h"
#include "client/sse.h"

struct stream;

/* Borrows the door. fn gets each event, from within stream_wait(). */
struct stream *stream_new(const struct door *d, const char *path,
                          void (*fn)(const struct sse_event *event, void *arg), void *arg);
struct stream *stream_free(struct stream *s);
DEFINE_CLEANUP(struct stream *, stream_free)

/*
 * Waits for events, for extra_fd (-1: none) to be readable, or the deadline. Returns 1 when extra_fd is
 * readable, else 0; -EREMOTEIO or -EPROTO with the problem when profd refuses the stream.
 */
int stream_wait(struct stream *s, int extra_fd, int64_t deadline_ns, struct problem *p);

/* 0 while connected (or never tried), else since when profd does not answer, monotonic. */
int64_t stream_lost_since(const struct stream *s);
