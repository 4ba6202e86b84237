/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges all runs of all intakes by time into one columnar file: nests slices, pairs B with E, binds flows,
 * links launches to GPU work, orders slices by name and by track, and sums them up.
 *
 * Nesting, overflow tracks and flows follow Perfetto's trace processor (slice_tracker.cc, flow_tracker.cc,
 * track_compressor.cc, v58), so that its users find the same rows: slices are in order of time (run.h), and
 * the number of a slice is its row.
 */
#pragma once

#include "trace/columns/writer.h"
#include "trace/read/sorted_run.h"

/* Values for the catalog's row of a trace, in addition to the file's meta table. */
struct merge_summary {
    uint64_t slices, gpu_slices, threads, flows, counters;
    uint64_t strings;
    int64_t first_ns, last_ns; /* of slices; valid where slices > 0 */
    uint64_t defects[_DEFECT_MAX];
};

/* inputs are in order of import; the strings of their intakes are renumbered. Writes everything except
 * checkpoints into w; the caller finishes it. memory_max bounds the memory that is used in addition to the
 * strings: -ENOMEM beyond it. */
int merge_columns(const struct merge_input *inputs, size_t n_inputs, struct spill *spill,
                  struct columns_writer *w, uint64_t memory_max, struct merge_summary *ret);
