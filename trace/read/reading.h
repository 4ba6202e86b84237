/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of one reading share, within this room: the text goes on its way to runs either in one
 * stream (streamed.h) or, from a plain file, in several parts at once (split.h); verdict.h says what became
 * of it.
 */
#pragma once

#include "trace/read/feed.h"
#include "trace/read/packer.h"
#include "trace/read/reader.h"

/* How much of the source is read at a time. */
#define SOURCE_STEP (1 << 20)
/* What the two ends of a text are looked at for, each. */
#define ENDS_SIZE (1 << 20)

/* A consecutive part of the text, by one thread at a time. */
struct part {
    struct intake *intake;
    struct packer *packer;
    struct feed *feed;
};

struct reading {
    const struct read_options *options;
    struct read_summary *sum;
    uint64_t memory_max;
    struct spool *spool;
    struct part *parts; /* in order of the text */
    size_t n_parts;
    struct checkpoint_list checkpoints;
    char *head, *tail; /* ENDS_SIZE each */
    size_t head_size, tail_size;
};

/* Reads a format that must be in memory as a whole: 0, -EBADMSG with a reason where it holds no events,
 * -ENOMEM. */
typedef int whole_reader(const void *data, size_t size, struct intake *intake, char *ret_reason,
                         size_t reason_size);

/* NULL for a format that is scanned in pieces, or not read at all. */
whole_reader *reading_whole_reader(const struct reading *r, enum trace_format format);
/* Makes all parts, of which the first begins at the beginning; the others' feeds are left to the caller. */
int reading_new_parts(struct reading *r, size_t n, bool threaded);
/* Forgets the last ones. */
void reading_drop_parts(struct reading *r, size_t n_left);
uint64_t reading_events(const struct reading *r);
/* Sets the reason, unless there is one, and returns err. */
int reading_fail(struct reading *r, int err, const char *format, ...) _printf_(3, 4);
/* Reads at most size bytes; fewer only at the end of the file. */
ssize_t reading_pread(struct reading *r, void *data, size_t size, uint64_t at);
/* -ECANCELED where the caller does not want any more. */
int reading_progress(struct reading *r, uint64_t bytes_done, uint64_t events);
