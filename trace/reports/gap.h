/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When streams had nothing to do, why, and what the host was doing meanwhile.
 *
 * A gap lies between the latest end of a stream's work so far and the beginning of its next. Its culprit is
 * the innermost slice that covers most of it, of those on the thread that launched the next; where none
 * covers half, the one that covers most, unless the thread was outside any slice for longer.
 */
#pragma once

#include "trace/reports/analysis.h"
#include "trace/reports/stream_set.h"

/* C(identifier, name): after Holistic Trace Analysis. */
#define GAP_CAUSES(C)                                                                                        \
    C(HOST_WAIT, "host_wait")     /* the next was launched only after the stream had fallen idle */          \
    C(KERNEL_WAIT, "kernel_wait") /* it was launched before, and came soon */                                \
    C(OTHER, "other")             /* it was launched before: it waited for something else */

enum gap_cause {
#define C(identifier, name) GAP_##identifier,
    GAP_CAUSES(C)
#undef C
        _GAP_CAUSE_MAX,
};

/* What is "soon": HTA's consecutive_kernel_delay, as it applies it. */
#define GAP_KERNEL_WAIT_NS 30000

struct gap {
    int64_t from, to;
    int64_t idle;    /* so much of it no stream had anything to do */
    uint64_t before; /* slices of the work before and after it */
    uint64_t after;
    uint64_t launch; /* of what comes after, SLICE_NONE */
    uint32_t stream; /* number in gaps.streams */
    enum gap_cause cause;
    enum host_kind culprit_kind;
    uint64_t culprit; /* slice, SLICE_NONE */
    int64_t covered;  /* so much of it the culprit covers */
};

struct gaps {
    struct gap *items; /* by their end */
    size_t n, cap;
    struct gpu_stream *streams;
};

const char *gap_cause_name(enum gap_cause cause);
/* Those that end within the view. -ENOMEM. */
int gaps_find(struct analysis *a, size_t rank, struct gaps *ret);
void gaps_done(struct gaps *gaps);
