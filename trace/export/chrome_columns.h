/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events in Chrome's format out of the columns alone: whatever is not in a trace's text, and all of them
 * where the text is gone.
 */
#pragma once

#include "trace/export/args.h"
#include "trace/export/arrows.h"
#include "trace/export/chrome.h"

struct chrome_writer {
    struct chrome_out *o;
    FILE *out;
    const struct columns *c;
    const struct selection *selection;
    const struct chrome_place *place; /* NULL: as in the trace */
    struct args args;
    struct arrows arrows;
};

/* Between two events. */
void chrome_next(struct chrome_writer *w);
/* The time of an event, moved to its place, as a value. */
void chrome_put_ns(const struct chrome_writer *w, int64_t ns);
/* The process of a track, as a value. */
void chrome_put_pid(const struct chrome_writer *w, int64_t process);

/* Names, labels and order of all processes and threads. -ENOMEM. */
int chrome_put_names(struct chrome_writer *w);
void chrome_put_slice(struct chrome_writer *w, uint64_t row);
/* The arrows that begin or end at a slice. */
void chrome_put_arrows(struct chrome_writer *w, uint64_t row);
void chrome_put_counter(struct chrome_writer *w, uint64_t row);
