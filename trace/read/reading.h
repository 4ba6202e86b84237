/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes a text that arrives in pieces to the scanner, which takes complete items: the unused rest of a
 * piece is copied in front of the next one, into a margin that every piece has. A rest that does not fit
 * into the margin is gathered in a buffer that grows up to the size of an item.
 */
#pragma once

#include "trace/read/reader.h"
#include "trace/read/scan.h"
#include "trace/read/sorted_run.h"
#include <errno.h>

/* Writable bytes before every piece; SCAN_PAD readable bytes follow it. */
#define FEED_MARGIN (64 << 10)

struct feed;

/* offset: of the first byte of its text in the stream. */
int feed_new(struct intake *in, enum scan_begin begin, uint64_t offset, struct feed **ret);
struct feed *feed_free(struct feed *f);
/* Takes the next piece, which is no longer used after the return. -ENOMEM. */
int feed_piece(struct feed *f, char *p, size_t size, bool last);
/* Returns whether the text so far ended between two events: the next one may begin with the next piece. */
bool feed_between_events(const struct feed *f);
enum scan_state feed_state(const struct feed *f);
/* Number of events so far; any thread may call it. */
uint64_t feed_events(const struct feed *f);

DEFINE_CLEANUP(struct feed *, feed_free)

/*
 * Packs the full batches of an intake into runs and returns empty batches, either in a thread of its own,
 * in parallel with the scanner, or in the thread of the scanner.
 *
 * Few batches are in flight at a time: a scanner that is faster than the packing waits. Attached to one
 * intake, which must outlive it. Owns the runs.
 */

struct packer;

int packer_new(struct intake *in, struct spill *spill, bool threaded, struct packer **ret);
struct packer *packer_free(struct packer *p);
/* Packs the remaining events of the intake and waits until all runs are done. Returns 0 or the first error
 * of intake and packing; nothing may be added to the intake afterwards. */
int packer_finish(struct packer *p);
/* The runs in order of import; valid after the packer has finished. */
struct event_run **packer_runs(struct packer *p, size_t *ret_n);

DEFINE_CLEANUP(struct packer *, packer_free)

/*
 * State that the parts of one reading share, within this module: the text becomes runs either in one stream
 * (streamed.c) or, from a plain file, in several parts at once (split.c); classification.c determines the
 * result.
 */

/* Bytes of the source that are read at a time. */
#define SOURCE_STEP (1 << 20)
/* Bytes at each end of a text that are searched for metadata. */
#define ENDS_SIZE (1 << 20)

/* A consecutive part of the text, by one thread at a time. */
struct reading_part {
    struct intake *intake;
    struct packer *packer;
    struct feed *feed;
};

struct source_tap;

struct trace_reading {
    const struct read_options *options;
    struct read_summary *sum;
    uint64_t memory_max;
    struct spill *spill;
    struct reading_part *parts; /* in order of the text */
    size_t n_parts;
    struct source_tap *tap; /* of a reading in several parts */
    struct checkpoint_list checkpoints;
    char *head, *tail; /* ENDS_SIZE each */
    size_t head_size, tail_size;
};

/* Reads a format that must be completely in memory: 0, -EBADMSG with a reason if it holds no events,
 * -ENOMEM. */
typedef int buffer_reader(const void *data, size_t size, struct intake *intake, char *ret_reason,
                          size_t reason_size);

/* NULL for a format that is scanned in pieces, or not supported. */
buffer_reader *reading_buffer_reader(const struct trace_reading *r, enum trace_format format);
/* Creates all parts. The first one begins at the beginning; the caller creates the feeds of the others. */
int reading_new_parts(struct trace_reading *r, size_t n, bool threaded);
/* Discards the last parts. */
void reading_drop_parts(struct trace_reading *r, size_t n_left);
uint64_t reading_events(const struct trace_reading *r);
/* Sets the reason, unless one is set, and returns err. */
int reading_fail(struct trace_reading *r, int err, const char *format, ...) _printf_(3, 4);
/* Reads at most size bytes; fewer only at the end of the file. */
ssize_t reading_pread(struct trace_reading *r, void *data, size_t size, uint64_t at);
/* The error where a file that is read by several threads has fewer bytes than it had; n: what reading_pread() returned, at
 * most 0. They would have read different contents of it. */
static inline int reading_end_error(ssize_t n)
{
    return n < 0 ? (int)n : -ESTALE;
}
/* -ECANCELED if the caller has cancelled the reading. */
int reading_progress(struct trace_reading *r, uint64_t bytes_done, uint64_t events);

/*
 * Reads a source of any coding and format in one stream: the calling thread reads and decompresses, a
 * second thread scans the text, the packer's thread packs.
 */

/* Merges the parts of the reading into one. Sets the fields of the summary about the stream, and the ends
 * of the text. */
int streamed_read(struct trace_reading *r);

/*
 * Reads a plain file of trace events in several parts at once, each in a thread of its own.
 *
 * A part begins at a likely beginning of an event. Whether the guess is right is known after the previous
 * part has been read: if its events do not end exactly there, the part is discarded and the previous one
 * continues through its text. The result therefore equals that of one thread for any text.
 */

/* Smaller parts do not justify a thread. */
#define SPLIT_PART_MIN (1 << 20)
/* Maximum size of the batches and buffers of a part. */
#define SPLIT_PART_MEMORY (32 << 20)
#define SPLIT_PARTS_MAX   32

/* Returns the number of parts for a file of this size, with this number of threads and this memory; 1: not
 * split. */
size_t split_parts(uint64_t size, unsigned threads, uint64_t memory);
/* Like streamed_read(), in at most n parts. */
int split_read(struct trace_reading *r, size_t n);

/*
 * Passes the source to the tap in a thread of its own, since hashing takes longer than scanning: it goes on while the
 * columns are merged. Reads the source once more, because a tap takes all bytes in order.
 */

/* The reading must outlive the tap. */
int tap_start(struct trace_reading *r, struct source_tap **ret);
/* Returns the error so far, 0 for NULL; any thread may call it. */
int tap_error(const struct source_tap *t);
/* Waits until the tap has received everything. Returns 0 or the first error. */
int tap_wait(struct source_tap *t);
/* Stops it where it is. */
struct source_tap *tap_free(struct source_tap *t);

/*
 * The result of a reading: its state and the reason, in words for people, and the facts about the complete
 * trace from its two ends. Problems of the complete trace are counted as defects here.
 */

/* Called after the text has been read: sets state, format, reason, remedy. */
void reading_classify(struct trace_reading *r);
/* Returns whether the trace has columns to write. */
bool classification_has_columns(enum read_state state);
