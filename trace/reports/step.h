/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of a trace: what the program did once after the other, by its annotations.
 */
#pragma once

#include "trace/columns/columns.h"

enum step_phase { PHASE_UNKNOWN, PHASE_PREFILL, PHASE_DECODE, PHASE_MIXED, PHASE_TRAINING, _STEP_PHASE_MAX };

struct step {
    int64_t index; /* as the annotation numbers it, else its place from 0 */
    int64_t name;  /* text; COLUMN_NULL where it was found by periodicity */
    enum step_phase phase;
    int64_t ts, end;          /* of its GPU work where it has some, else of the annotation */
    int64_t tokens, requests; /* COLUMN_NULL where the name does not tell */
};

struct steps {
    struct step *items; /* in order of time, not overlapping */
    size_t n, cap;
};

/* -ENOMEM. */
int steps_read(const struct columns *c, struct steps *ret);
void steps_done(struct steps *steps);
/* "", "prefill", ... */
const char *step_phase_name(enum step_phase phase);
/* _STEP_PHASE_MAX for an unknown name. */
enum step_phase step_phase_find(const char *name);
