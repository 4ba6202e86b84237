/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of a trace's events where they are asked for by time. A file is written in a few runs, one for
 * each kind of event, and within a run times rise: a reading head for each of them goes through the file
 * once, where a single one would decode megabytes for every event.
 */
#pragma once

#include "trace/read/event_text.h"

#define HEADS_MAX 8

struct heads {
    int fd; /* the caller's; -1: there is no original */
    const struct columns *columns;
    struct {
        struct event_source *source;
        uint64_t place; /* of the last text */
        uint64_t last_used;
    } items[HEADS_MAX];
    uint64_t clock;
};

/* Valid until the next call; -ENOENT where the original is gone, or is not the file that was read. */
int heads_text(struct heads *h, uint64_t place, struct text *ret);
void heads_done(struct heads *h);
