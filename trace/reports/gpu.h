/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of GPU events, numbered from 0: a stream is identified by its device and its id. */
#pragma once

#include "base/hash_table.h"
#include "trace/columns/columns.h"
#include "trace/reports/collective.h"
#include "trace/reports/interval.h"
#include "trace/reports/kernel_class.h"
#include "trace/reports/slice_table.h"

struct gpu_stream {
    int64_t device, id; /* COLUMN_NULL where unknown */
};

struct stream_set {
    struct gpu_stream *items; /* by number */
    size_t n, cap;
    struct hash_table numbers; /* private */
    size_t last;
};

/* The stream's number, which it gets where it is new; -ENOMEM. */
int64_t stream_set_number(struct stream_set *set, int64_t device, int64_t id);
void stream_set_done(struct stream_set *set);

/*
 * The GPU events of a trace as one array, which most reports walk through: kernels, copies and memsets with
 * the call that launched each. In order of their start.
 */
/* Events that begin before or end after this limit (146 years from 0) are left out. */
#define GPU_TIME_MAX (INT64_MAX / 2)

/* _GPU_KIND_MAX is what is none of them: HTA knows such (hta.h). */
enum gpu_kind { GPU_COMPUTE, GPU_COMMUNICATION, GPU_MEMORY, _GPU_KIND_MAX };

struct gpu_event {
    int64_t ts, end;        /* by the trace's own clock */
    int64_t stream, device; /* COLUMN_NULL where unknown */
    uint32_t slice;         /* its row */
    uint32_t row;           /* of TABLE_gpu: all its arguments */
    uint32_t launched_by;   /* private: gpu_event_launch(), COLUMN_NO_CODE for SLICE_NONE */
    uint32_t name;          /* text; COLUMN_NO_CODE is none */
    enum gpu_kind kind : 8;
    enum kernel_class class : 8;
    enum collective_kind collective : 8; /* by the name, of what communicates */
    bool is_copy : 1;                    /* not a memset */
    bool is_pageable : 1;                /* from or to memory that a GPU cannot reach by itself */
    bool is_elementwise : 1; /* a kernel of PyTorch's own, of one operator: none that a compiler wrote */
};

/* The slice of the call that launched it, SLICE_NONE where none is known. */
static inline uint64_t gpu_event_launch(const struct gpu_event *e)
{
    return e->launched_by == COLUMN_NO_CODE ? SLICE_NONE : e->launched_by;
}

struct gpu_work {
    struct gpu_event *events;
    size_t n, cap;
    struct gpu_busy *busy; /* private: of gpu_work_busy(); of the complete work alone */
};

/* An empty one. -ENOMEM. */
int gpu_work_init(struct gpu_work *work);

/* patterns may be NULL. by_hta: kinds after Holistic Trace Analysis' rules (hta.h). -ENOMEM. */
int gpu_work_read(const struct columns *c, const struct kernel_patterns *patterns, bool by_hta,
                  struct gpu_work *ret);
void gpu_work_done(struct gpu_work *work);
/* Another event, to be filled and in order; NULL where there is no memory. */
struct gpu_event *gpu_work_add(struct gpu_work *work);

/* From the first start to the last end; empty without events. */
struct interval gpu_work_span(const struct gpu_work *work);
/* Times in which any of the kinds (a mask of 1 << enum gpu_kind) was active on any stream. Normalised; they are
 * computed once and belong to the work, which has all of its events by then. Safe to call from several threads.
 * -ENOMEM. */
int gpu_work_busy(const struct gpu_work *work, unsigned kinds, const struct intervals **ret);
#define GPU_ALL ((1u << _GPU_KIND_MAX) - 1)

/* Durations, as unions over all streams. */
struct gpu_times {
    int64_t span, busy, compute, communication, memory;
    int64_t exposed; /* communication with nothing computing */
};

/* All 0 without events. -ENOMEM. */
int gpu_work_times(const struct gpu_work *work, struct gpu_times *ret);

/* The GPU events of a rank, divided by stream or device, in order of time each. */
struct gpu_part {
    int64_t device, stream; /* COLUMN_NULL where unknown */
    struct gpu_work work;   /* part of all events; not to be done with */
};

struct gpu_parts {
    struct gpu_part *items; /* by device and stream */
    size_t n;
    struct gpu_event *events; /* private: a copy, by part; NULL where one part has all of the work */
    uint32_t *of;             /* for each event of the work that was parted: its position in items */
};

enum gpu_parting {
    BY_STREAM, /* of a device */
    BY_DEVICE, /* with all its streams, which are COLUMN_NULL then */
};

/* Linear in the number of events, for any number of streams. -ENOMEM. */
int gpu_parts_read(const struct gpu_work *work, enum gpu_parting by, struct gpu_parts *ret);
void gpu_parts_done(struct gpu_parts *parts);
