/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives a text that comes in pieces to the scanner, which takes whole items: what is left of a piece is put
 * in front of the next one, in a margin that every piece has before it. What does not fit into the margin is
 * gathered in a buffer that grows up to the size of an item.
 */
#pragma once

#include "trace/read/packer.h"
#include "trace/read/reader.h"
#include "trace/read/scan.h"

/* Writable bytes before every piece; after it are SCAN_PAD readable ones. */
#define FEED_MARGIN (64 << 10)

struct feed;

enum feed_begin {
    FEED_AT_BEGINNING,
    FEED_IN_EVENTS,      /* at an event */
    FEED_IN_BARE_EVENTS, /* at one of an array without an object around it */
};

/* offset: of the first byte of its text in the stream. */
int feed_new(struct intake *in, enum feed_begin begin, uint64_t offset, struct feed **ret);
struct feed *feed_free(struct feed *f);
/* The next piece, which is done with when this returns. -ENOMEM. */
int feed_piece(struct feed *f, char *p, size_t size, bool last);
/* Whether the text so far ended between two events: the next one may begin with the next piece. */
bool feed_between_events(const struct feed *f);
enum scan_state feed_state(const struct feed *f);
/* Events so far; may be asked by any thread. */
uint64_t feed_events(const struct feed *f);

DEFINE_CLEANUP(struct feed *, feed_free)

/*
 * What the parts of one reading share, within this module: the text goes on its way to runs either in one
 * stream (streamed.c) or, from a plain file, in several parts at once (split.c); classification.c says what became
 * of it.
 */

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
    struct spill *spill;
    struct part *parts; /* in order of the text */
    size_t n_parts;
    struct checkpoint_list checkpoints;
    char *head, *tail; /* ENDS_SIZE each */
    size_t head_size, tail_size;
};

/* Reads a format that must be in memory as a whole: 0, -EBADMSG with a reason where it holds no events,
 * -ENOMEM. */
typedef int buffer_reader(const void *data, size_t size, struct intake *intake, char *ret_reason,
                          size_t reason_size);

/* NULL for a format that is scanned in pieces, or not read at all. */
buffer_reader *reading_buffer_reader(const struct reading *r, enum trace_format format);
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

/*
 * Reads a source in one stream, of any coding and format: the calling thread reads and decompresses, a second
 * one scans what comes out, the packer's packs.
 */

/* The parts of the reading are one. Fills in what the summary says about the stream, and the ends of the
 * text. */
int streamed_read(struct reading *r);

/*
 * Reads a plain file of trace events in several parts at once, each by a thread of its own.
 *
 * A part begins where an event seems to. Whether it does is known when the part before it has been read: if
 * its events do not end exactly there, the guess was wrong, the part is thrown away and the one before goes
 * on through its text. So the result is that of one thread, whatever the text looks like.
 */

/* Smaller parts are not worth a thread. */
#define SPLIT_PART_MIN (1 << 20)
/* Batches and buffers of a part, at most. */
#define SPLIT_PART_MEMORY (32 << 20)
#define SPLIT_PARTS_MAX   32

/* How many parts a file of this size should be read in by that many threads, with so much memory; 1: not
 * split. */
size_t split_parts(uint64_t size, unsigned threads, uint64_t memory);
/* As streamed_read(), in n parts at most. */
int split_read(struct reading *r, size_t n);

/*
 * What became of a reading: its state and why, in words for people, and the facts about the whole trace that
 * stand at its ends. What is wrong with all of it is counted as a defect here.
 */

/* Once the text has been read: fills in state, format, reason, remedy. */
void reading_classify(struct reading *r);
/* Whether there are columns to write. */
bool classification_has_columns(enum read_state state);
