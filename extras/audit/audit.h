/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit of a served model: a document from measurements. Pure, except for hardware_read().
 *
 * The facts are one JSON object, which `profctl audit --json` prints:
 *
 *     model          {name, engine, version, url, workers, model_type}
 *     hardware       as hardware_read() and facts_hardware() make it
 *     run            the main run, as returned by GET /v1/runs/{run}
 *     prompts        those of the run, each with its text
 *     rates          {input,output,total}_tokens_per_s of single requests: {n, mean, std, min, p50, max}
 *     sweep          [{concurrency, run}], in order; absent without a sweep
 *     price_per_hour, goal {ttft_ms, tpot_ms, e2e_ms}: absent if not given
 *     made_at        wall nanoseconds
 *
 * The document contains only statements that follow from these facts.
 */
#pragma once

#include "base/json.h"
#include "client/views/document.h"

void audit_write(const json_t *facts, struct document *ret);

/* -- facts.c: facts from the responses of profd; the caller owns the results -------------------------- */

/* The figures of each prompt (docs/figures.md), with its text from the workload's prompts (NULL: synthetic
 * prompts, which are one line). */
json_t *facts_prompts(const json_t *run, const json_t *prompts);
/* Tokens per second of each successful warm request (GET /v1/runs/{run}/requests), as distributions:
 * tokens divided by end-to-end latency, with the standard deviation of the population. */
json_t *facts_rates(const json_t *requests);
/* Of the run, the workers that profd knows, and, where it names one, the URL that was asked. */
json_t *facts_model(const json_t *run, const json_t *workers);
/* This machine (takes ownership), with the GPUs in the run, and whether the worker runs on it. */
json_t *facts_hardware(json_t *take_machine, const json_t *run);
/* Converts {"ttft": "200ms"} to {"ttft_ms": 200}. */
json_t *facts_goal(const json_t *goodput);

/* This machine, from /proc: {cpu, processors, memory_bytes, kernel, driver}; unknown values are absent. */
json_t *hardware_read(void);
/* "model name" of /proc/cpuinfo; NULL if absent (some ARM). Pure; the caller frees it. */
char *cpu_model(const char *cpuinfo);
/* "570.86.10" of /proc/driver/nvidia/version. Likewise. */
char *nvidia_driver(const char *version);

/* -- For the sections of the document ----------------------------------------------------------------- */

/* One run of the sweep. */
struct audit_point {
    double concurrency, tokens_per_s, e2e_p50_ms; /* the last one NAN if unknown */
    const json_t *run;
};
/* The facts, as all sections read them. */
struct audit_view {
    const json_t *facts, *run; /* the main run; borrowed */
    struct audit_point *points;
    size_t n_points;
    ssize_t
        knee; /* the point beyond which more load costs more than it gains (client/runs/plan.h); -1: none */
};
void audit_view_make(const json_t *facts, struct audit_view *ret);
void audit_view_done(struct audit_view *v);

/* Figures of a run by their path, "metrics/e2e_ms/p99"; NAN if unknown or not supported by the sample. */
double audit_figure(const json_t *run, const char *path);
int64_t audit_requests(const json_t *run, const char *outcome);
int64_t audit_requests_all(const json_t *run);
/* A member by its path; NULL if absent. */
const json_t *audit_at(const json_t *object, const char *path);

/* findings.c: items of a list, each with its figure and a remedy; and what was not tested. */
void audit_findings(const struct audit_view *v, struct document *d);
void audit_limitations(const struct audit_view *v, struct document *d);
