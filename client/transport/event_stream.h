/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event stream of profd, which survives a restart of profd: it reconnects, and requests missed events by
 * the id of the last one.
 */
#pragma once

#include "base/sse.h"
#include "client/transport/connection.h"

struct event_stream;

/* Borrows the connection. fn is called for each event, by event_stream_wait(). */
struct event_stream *event_stream_new(const struct connection *d, const char *path,
                                      void (*fn)(const struct sse_event *event, void *arg), void *arg);
struct event_stream *event_stream_free(struct event_stream *s);
DEFINE_CLEANUP(struct event_stream *, event_stream_free)

/*
 * Waits for events, for extra_fd (-1: none) to be readable, or the deadline. Returns 1 when extra_fd is
 * readable, else 0; -EREMOTEIO or -EPROTO with the problem when profd refuses the stream.
 */
int event_stream_wait(struct event_stream *s, int extra_fd, int64_t deadline_ns, struct problem *p);

/* 0 while connected (or not tried yet), else the monotonic time since which profd does not answer. */
int64_t event_stream_lost_since(const struct event_stream *s);
