/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a trace into a columnar file: the entire module in one call.
 *
 * Recognises the format by content, decompresses in one thread, scans in another, packs in a third; plain
 * files are split over the cores. Opens no files: reads the source by pread from its beginning, writes the
 * columns, and spills into a file that the caller provides. The readable part of a damaged trace is written
 * together with its defects.
 */
#pragma once

#include "trace/read/decompress.h"
#include "trace/read/format.h"
#include "trace/read/merge.h"

#define READ_MEMORY_DEFAULT (UINT64_C(1536) << 20)

struct read_options {
    int source_fd;
    int columns_fd;      /* an empty file, readable and writable */
    int spill_fd;        /* an empty file without a name, or -1 */
    uint64_t memory_max; /* 0: READ_MEMORY_DEFAULT */
    uint64_t text_max;   /* bytes of decompressed text; 0: no limit but the stream's own */
    unsigned threads;    /* 0: as many as the number of processors */
    struct merged_part part;
    bool sync; /* fsync the columns */
    /* Receives every byte of the source in order, before it is decoded: to hash or copy. Of a source that is read in
     * parts, it receives them from a thread of its own, independently of decoding and of progress(). May be NULL. */
    int (*tap)(const void *data, size_t size, void *arg);
    /* Called from the reading thread from time to time; a non-zero result ends the reading with
     * -ECANCELED. May be NULL. */
    int (*progress)(uint64_t bytes_done, uint64_t bytes_all, uint64_t events, void *arg);
    /* Reads a database that nsys exported, completely in memory (trace/sql/nsys.h). NULL: such files are
     * refused, and the reason explains it. */
    int (*read_sqlite)(const void *data, size_t size, struct intake *intake, char *ret_reason,
                       size_t reason_size);
    void *arg;
};

enum read_state {
    READ_COMPLETE,
    READ_TRUNCATED, /* ends too early; the events before that are in the columns */
    READ_CORRUPT,   /* the compressed data is damaged; the same */
    READ_EMPTY,     /* no text */
    READ_REFUSED,   /* recognised, but not a trace of events: no columns */
};

struct read_summary {
    enum read_state state;
    enum trace_format format;
    char reason[256]; /* for people; may be empty */
    char remedy[160];
    struct stream_summary stream;
    struct merge_summary columns;
    uint64_t source_bytes, columns_bytes, memory_peak;
};

/* Returns 0 also if the trace is not complete: see state. < 0: -EIO, -ENOSPC, -ENOMEM (over memory_max),
 * -ECANCELED; then reason explains the failure and the columns are worthless. */
int trace_read(const struct read_options *options, struct read_summary *ret);
