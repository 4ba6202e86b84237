/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How profd and its child profd-ingest talk: descriptors, arguments, one JSON object.
 *
 *     profd-ingest SIZE_MAX CPU_SECONDS
 *
 *     0  /dev/null
 *     1  the result, at most INGEST_RESULT_MAX bytes
 *     2  profd's stderr: only for what keeps the child from starting its work
 *     3  the source, a regular file, readable
 *     4  the destination, an empty regular file, readable and writable; closed where only a check is wanted
 *
 * The result, where a key that is absent is not known:
 *
 *     state, reason     a word of enum trace_state and why, or what else should be known
 *     error             errno value: the destination could not be written; then there is no state
 *     coding            "plain", "gzip", "zstd"
 *     format            a word of enum trace_format (trace/read/format.h): by content, whatever the name says
 *     size, sha256      of the source, and so of the destination: what is hashed is what is written
 *     uncompressed      bytes that could be read of the trace
 *     rank, world_size, backend, pid, devices, device_name, trace_name, engine_version
 *     base_time_ns      what the trace's stamps are relative to
 *     events            complete events in the usual key order; further keys only where there is one:
 *     span_ns           from the first one's start to the last one's end
 *     first_ts_ns, last_ts_ns   these two in wall-clock nanoseconds; absent where the stamps are relative to
 * a base that was not found
 */
#pragma once

enum {
    INGEST_FD_RESULT = 1,
    INGEST_FD_SOURCE = 3,
    INGEST_FD_DEST = 4,
};

#define INGEST_RESULT_MAX (64 << 10)
