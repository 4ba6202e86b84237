/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of one trace or several in Chrome's format: their original text if the original exists and agrees with the
 * columns, else made from the columns.
 *
 * Arrows, names of threads and processes, and ends of asynchronous slices are always made from the columns. A
 * pair of B and E becomes one X with the text of the B.
 */
#pragma once

#include "trace/export/export.h"
#include "trace/export/selection.h"

struct chrome_out {
    FILE *out;
    bool any;        /* event */
    uint64_t arrows; /* number of arrows so far, for their ids */
};

/* A trace in a merged file. */
struct chrome_merged {
    const char *label; /* prefix of the names of its processes */
    int64_t add_ns;
    const int64_t *pids; /* of each process; 0: no events */
};

/* Facts about a trace as members of its head; before: the text before the first. */
void chrome_put_facts(const struct columns *c, const char *before, FILE *out);
/* merged: NULL for a trace alone. */
int chrome_put_trace(struct chrome_out *o, const struct export_trace *t, const struct selection *s,
                     const struct chrome_merged *merged);

struct chrome_writer {
    struct chrome_out *o;
    FILE *out;
    const struct columns *c;
    const struct selection *selection;
    const struct chrome_merged *merged; /* NULL: as in the trace */
    struct slice_args args;
    struct arrows arrows;
};

/* Between two events. */
void chrome_next(struct chrome_writer *w);
/* The time of an event, moved to the merged clock, as a value. */
void chrome_put_ns(const struct chrome_writer *w, int64_t ns);
/* The process of a track, as a value. */
void chrome_put_pid(const struct chrome_writer *w, int64_t process);

/* Names, labels and order of all processes and threads. */
void chrome_put_names(struct chrome_writer *w);
void chrome_put_slice(struct chrome_writer *w, uint64_t row);
/* The arrows that begin or end at a slice. */
void chrome_put_arrows(struct chrome_writer *w, uint64_t row);
void chrome_put_counter(struct chrome_writer *w, uint64_t row);
