/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a trace into the formats of other programs, and merges several traces into one.
 *
 * Works from the columns; if the original exists, Chrome's format gets the text of its events. The output
 * goes to a FILE of the caller's, which may be a pipe. Opens nothing and sorts only if necessary; memory is
 * bounded by the number of slices (at most 16 bytes each), stacks or names.
 */
#pragma once

#include "trace/columns/columns.h"

/* An additional slice, as a result of an analysis. */
struct export_mark {
    int64_t ts, dur;
    struct text name;
    const char *track; /* marks of one track do not overlap */
};

/* Where a trace is from, for formats that keep many traces together. Texts that are not known are NULL. */
struct export_identity {
    const char *catalog, *session, *trace, *host, *worker, *instance;
    int64_t rank, trace_id; /* COLUMN_NULL: not known */
};

struct export_trace {
    const struct columns *columns;
    int source_fd;      /* the original, -1 if it is gone */
    const char *label;  /* merged: the prefix of its processes' names ("rank 3") */
    const char *origin; /* merged: a JSON object with its attribution, for readers of the file; or NULL */
    int64_t shift_ns;   /* merged: the shift of its timestamps, so that all are of one clock */
    const struct export_identity *identity; /* parquet; or NULL */
    /* Chrome's format alone: shown as a process of their own, called marks_name. */
    const struct export_mark *marks;
    size_t n_marks;
    const char *marks_name;
};

struct export_options {
    /* Slices that overlap [from, to): by the stamps of the trace, or of the merged clock, or counted from the
     * first slice. They are cut to it where time is summed up, and complete elsewhere. */
    int64_t from, to;
    bool relative;
    const char *only; /* only slices of these categories, separated by commas; NULL: all */
};
#define EXPORT_ALL ((struct export_options){.from = INT64_MIN, .to = INT64_MAX})

struct selection;

struct export_format {
    const char *name;
    const char *suffix; /* of a file's name, with its dot */
    const char *what;   /* for people */
    int (*write)(const struct export_trace *t, const struct selection *s, FILE *out);
    /* Of a format for several traces in one file, instead: a selection for each. */
    int (*write_all)(const struct export_trace *traces, const struct selection *s, size_t n, FILE *out);
};

extern const struct export_format export_formats[];
extern const size_t export_formats_count;
/* NULL for an unknown name. */
const struct export_format *export_format_find(const char *name);

/* Number of selected slices; -ENOMEM. */
int64_t export_count(const struct export_trace *t, const struct export_options *options);
/* Both: -ENOMEM, the error of writing, -EBADMSG if a part of the columns is damaged; the output is then
 * incomplete. */
int export_trace(const struct export_format *format, const struct export_trace *t,
                 const struct export_options *options, FILE *out);
/* The same for n traces, more than one only in a format with write_all. */
int export_traces(const struct export_format *format, const struct export_trace *traces, size_t n,
                  const struct export_options *options, FILE *out);
/* Writes one file in Chrome's format: every trace's processes under numbers of their own, in the order of
 * the traces, on one clock. -ERANGE if no clock can hold them all. */
int export_merge(const struct export_trace *traces, size_t n, const struct export_options *options,
                 FILE *out);

/* -- Only for the formats ------------------------------------------------------------------------------- */

int export_chrome(const struct export_trace *t, const struct selection *s, FILE *out);
int export_perfetto(const struct export_trace *t, const struct selection *s, FILE *out);
int export_speedscope(const struct export_trace *t, const struct selection *s, FILE *out);
int export_collapsed(const struct export_trace *t, const struct selection *s, FILE *out);
int export_pprof(const struct export_trace *t, const struct selection *s, FILE *out);
int export_csv(const struct export_trace *t, const struct selection *s, FILE *out);
int export_parquet(const struct export_trace *traces, const struct selection *s, size_t n, FILE *out);

/* The error of a writer, or of its FILE, or that of damaged columns. */
int export_outcome(int error, const struct export_trace *traces, size_t n, FILE *out);
