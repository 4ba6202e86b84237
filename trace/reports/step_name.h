/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What engines call their steps in a trace: which program wrote the name, the phase, tokens and requests. A
 * pure function of the name; docs/analysis.md lists the forms.
 */
#pragma once

#include "trace/columns/columns.h"

enum step_phase { PHASE_UNKNOWN, PHASE_PREFILL, PHASE_DECODE, PHASE_MIXED, PHASE_TRAINING, _STEP_PHASE_MAX };

/* Who named a step, the most specific first: where a trace has names of several, those of the first
 * count and the others are what happens in them or around them. */
enum step_source {
    STEP_SGLANG, /* may lie in what is named as vLLM does it */
    STEP_VLLM,
    STEP_ATOM,
    STEP_TENSORRT,
    STEP_RTP_PHASE,
    STEP_RTP_EXECUTION,
    STEP_RTP_ENGINE,
    STEP_XDIT,
    STEP_LIGHTNING,
    STEP_PROFILER,
    _STEP_SOURCE_NAMED_MAX,
    /* Not by a name. */
    STEP_BY_PERIOD = _STEP_SOURCE_NAMED_MAX, /* kernels that recur */
    STEP_BY_GRAPH,                           /* launches of graphs */
    _STEP_SOURCE_MAX
};

struct step_name {
    enum step_source source;
    enum step_phase phase;
    int64_t index, tokens, requests; /* COLUMN_NULL if the name does not contain it */
};

/* False for what names no step. */
bool step_name_parse(struct text name, struct step_name *ret);

/* "", "prefill", ... */
const char *step_phase_name(enum step_phase phase);
/* _STEP_PHASE_MAX for an unknown name. */
enum step_phase step_phase_find(const char *name);
/* "vllm", ..., "period", "graph" */
const char *step_source_name(enum step_source source);
