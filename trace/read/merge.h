/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All runs of all intakes into one columnar file: merges them by time, nests slices, pairs B with E, binds
 * flows, links launches to GPU work, orders slices by name and by track, sums up.
 *
 * Nesting, overflow tracks and flows follow Perfetto's trace processor (slice_tracker.cc, flow_tracker.cc,
 * track_compressor.cc, v58), so that its users find the same rows: slices are in order of time (run.h), a
 * slice's number is its row.
 */
#pragma once

#include "trace/columns/writer.h"
#include "trace/read/run.h"

/* What ends up in the catalog's row of a trace, beside the file's meta table. */
struct merge_summary {
    uint64_t slices, gpu_slices, threads, flows, counters;
    uint64_t strings;
    int64_t first_ns, last_ns; /* of slices; valid where slices > 0 */
    uint64_t defects[_DEFECT_MAX];
};

/* inputs in order of import; their intakes' strings are numbered anew. Puts everything but checkpoints into
 * w; the caller finishes it. memory_max bounds what is kept beside the strings: -ENOMEM beyond it. */
int merge_columns(const struct merge_input *inputs, size_t n_inputs, struct spill *spill,
                  struct columns_writer *w, uint64_t memory_max, struct merge_summary *ret);
