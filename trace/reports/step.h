/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of a trace: what the program did once after the other. By the names that engines give them; where
 * there are none, by kernels that recur, or by launches of graphs. docs/analysis.md has the details.
 */
#pragma once

#include "trace/reports/gpu.h"
#include "trace/reports/step_name.h"

#define STEP_NONE UINT32_MAX

struct step {
    int64_t index; /* as the annotation numbers it, else its position from 0 */
    int64_t name;  /* text; COLUMN_NULL where it was found by recurrence */
    enum step_phase phase;
    int64_t ts, end;           /* of its GPU work; where no step has any, of the annotation */
    int64_t tokens, requests;  /* COLUMN_NULL if the name does not contain it */
    int64_t host_ts, host_end; /* of the annotation; COLUMN_NULL where it was not found by a name */
    size_t n_events;           /* of the GPU's work */
};

struct steps {
    struct step *items; /* in order of time, not overlapping */
    size_t n, cap;
    enum step_source source; /* _STEP_SOURCE_MAX where there are no steps */
    uint32_t *owners;        /* of each event of the work, the position of its step in items, or STEP_NONE */
};

/* work: all of the trace's. -ENOMEM. */
int steps_read(const struct columns *c, const struct gpu_work *work, struct steps *ret);
void steps_done(struct steps *steps);

/* The ways in which steps are found, for step.c. Each leaves ret->n 0 where it finds none. All -ENOMEM. */
/* A step of which nothing is known; NULL where there is no memory. */
struct step *steps_add(struct steps *steps);

/* By their names, on the host's side or on the GPU's; their times are those of the host. */
int steps_find_named(const struct columns *c, bool on_gpu, struct steps *ret);
/* By kernels that recur, then by launches of graphs; owners are set, times are not. */
int steps_find_recurring(const struct columns *c, const struct gpu_work *work, struct steps *ret);
