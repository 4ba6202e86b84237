/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Server-sent events out of a byte stream that arrives in pieces. Pure: no I/O.
 *
 * A line longer than SSE_LINE_MAX or an event with more data than SSE_DATA_MAX ends the stream with
 * -EMSGSIZE.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SSE_LINE_MAX (64u << 10)
#define SSE_DATA_MAX (1u << 20)

struct sse_event {
    const char *id;   /* of this event or the last before it; "" where none came */
    const char *kind; /* "message" if the event has none */
    const char *data;
};

struct sse {
    char *line, *data, *kind, *id;
    size_t line_size, line_room, data_size, data_room;
    size_t max; /* of a line, and of an event's data; 0: SSE_LINE_MAX, SSE_DATA_MAX */
    bool after_cr, began;
};

void sse_done(struct sse *s);
/* Calls fn for each event that these bytes complete; its texts live until it returns. */
int sse_feed(struct sse *s, const char *bytes, size_t size,
             void (*fn)(const struct sse_event *event, void *arg), void *arg);
/* The data of the next event, without a copy, where these bytes begin with the complete event and it is a single line of
 * data; they advance to its end. NULL: they are for sse_feed(). */
const char *sse_take(struct sse *s, const char **bytes, size_t *size, size_t *ret_size);
/* A new connection: what was half received is dropped, the last id is kept. */
void sse_restart(struct sse *s);
