/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How profd and profctl talk to profd-ingest, the child that reads what nobody trusts: descriptors,
 * arguments, one JSON object.
 *
 *     profd-ingest SIZE_MAX CPU_SECONDS [MEMORY_MAX [COLUMNS_ROOM [PART FIRST_PID LAST_PID]]]
 *
 * COLUMNS_ROOM: bytes of the disk for columns and what does not fit into memory, together.
 * PART: of a file that profctl merge wrote, which of its traces is read, from 1, and that trace's processes.
 *
 *     0  /dev/null
 *     1  the result, at most INGEST_RESULT_MAX bytes
 *     2  its starter's stderr: only for what keeps the child from starting its work
 *     3  the source, a regular file, readable
 *     4  the destination, an empty regular file, readable and writable; closed for a mere check
 *     5  the columns (docs/columns.md), an empty regular file, readable and writable; may be closed
 *     6  an empty regular file without a name, for what does not fit into memory; may be closed
 *     7  a pipe for progress, lines of "BYTES_DONE BYTES_ALL EVENTS"; may be closed
 *     8  the cgroup.procs of the cgroup that the child is to join; may be closed
 *
 * The result, where a key that is absent is not known:
 *
 *     state, reason     a word of enum trace_state and why, or what else should be known
 *     remedy            what to do about it
 *     error             errno value: a destination could not be written; then there is no state
 *     coding            "plain", "gzip", "zstd"
 *     format            a word of enum trace_format (trace/read/format.h): by content, not by name
 *     size, sha256      of the source, and so of the destination: what is hashed is what is written
 *     uncompressed      bytes that could be read of the trace
 *     rank, world_size, backend, pid, devices, device_name, trace_name, engine_version
 *     request_trace_id  "trace_id" of the trace's metadata: what the file says, compared with ids that were given
 *     base_time_ns      what the trace's stamps are relative to
 *     events            timed events; further keys only where there is one:
 *     span_ns           from the first one's start to the last one's end
 *     first_ts_ns       the first in wall-clock nanoseconds, absent where the stamps are relative to a base
 *                       that was not found; and so last_ts_ns
 *
 * and where columns were written:
 *
 *     columns           {size, slices, gpu_slices, threads, flows, counters}
 *     defects           [{kind, count, offset, text}], defects of the trace
 *     categories        [{category, count, sum_ns}], category may be null: the INGEST_CATEGORIES_MAX that
 *                       took most time
 *     names             [{category, name, count, sum_ns, min_ns, max_ns}]: the INGEST_NAMES_MAX that took
 *                       most time among GPU work, and as many among the rest; fewer where they are long
 *
 * or, where they were wanted and there are none:
 *
 *     columns_reason    why; the file itself may be as good as its state says
 */
#pragma once

/* More than a child ever begins: what goes beyond it is no reading of a trace any more. */
#define INGEST_THREADS_MAX 32

enum {
    INGEST_FD_RESULT = 1,
    INGEST_FD_SOURCE = 3,
    INGEST_FD_DEST = 4,
    INGEST_FD_COLUMNS = 5,
    INGEST_FD_SPILL = 6,
    INGEST_FD_PROGRESS = 7,
    INGEST_FD_GROUP = 8,
};

#define INGEST_RESULT_MAX     (1 << 20)
#define INGEST_NAMES_MAX      100
#define INGEST_CATEGORIES_MAX 100
/* Rises whenever what queries need of a trace is read otherwise: columns of a lower version are made anew. */
#define INGEST_COLUMNS_VERSION 3
