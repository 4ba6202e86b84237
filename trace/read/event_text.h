/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The original text of one event, out of the trace file it was read from, by way of the checkpoints in its
 * columns; and the events of a whole trace in the order of the file.
 *
 * The trace file is not trusted to be the one that was read: a text that does not begin with an object or
 * whose file has another size is -ESTALE.
 */
#pragma once

#include "trace/columns/columns.h"

struct event_source;

/* Both must outlive it. source_fd is the trace as it was read (compressed or plain). */
int event_source_new(int source_fd, const struct columns *c, struct event_source **ret);
struct event_source *event_source_free(struct event_source *s);
/* The text of the JSON object that begins at `offset`, valid until the next call. Places that rise a little
 * from call to call are read without starting again. -ESTALE, -EFBIG, -EIO. */
int event_source_text(struct event_source *s, uint64_t offset, struct text *ret);

DEFINE_CLEANUP(struct event_source *, event_source_free)
