/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Returns the original text of one event from the trace file, with the help of the checkpoints in its
 * columns, and lists the events of a complete trace in the order of the file.
 *
 * The trace file may have changed since it was read: a text that does not begin with an object, or a file
 * of another size, is -ESTALE.
 */
#pragma once

#include "trace/columns/columns.h"

struct event_source;

/* Both arguments must outlive the object. source_fd is the trace as it was read (compressed or plain). */
int event_source_new(int source_fd, const struct columns *c, struct event_source **ret);
struct event_source *event_source_free(struct event_source *s);
/* Returns the text of the JSON object that begins at `offset`, valid until the next call. Offsets that
 * increase slightly from call to call are read without restarting. -ESTALE, -EFBIG, -EIO. */
int event_source_text(struct event_source *s, uint64_t offset, struct text *ret);

DEFINE_CLEANUP(struct event_source *, event_source_free)
