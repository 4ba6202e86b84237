/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of JSON to profd (proto/load.h), from the loop and without waiting for it. What a reader that is slow
 * has not taken is kept: few bytes, for requests are told when there is room (emit_has_room()).
 */
#pragma once

#include "base/json.h"
#include "daemon/load/record.h"
#include <event2/event.h>

struct emit;

/* on_room: there is room again, or nobody reads any more (emit_is_broken()). */
int emit_new(struct event_base *base, int fd, void (*on_room)(void *arg), void *arg, struct emit **ret);
struct emit *emit_free(struct emit *e);
void emit_line(struct emit *e, json_t *line); /* takes the reference */
void emit_note(struct emit *e, const char *text, const char *remedy);
void emit_request(struct emit *e, const struct request_record *r, const char *target_url);
bool emit_has_room(const struct emit *e);
bool emit_is_broken(const struct emit *e);
/* Waits until all is written, or deadline_ns. */
void emit_flush(struct emit *e, int64_t deadline_ns);
