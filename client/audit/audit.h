/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit of a model as it is served: what was measured, made into a document. Pure: facts in, blocks out.
 *
 * The facts are one JSON object, which `profctl audit --json` prints:
 *
 *     model          {name, engine, version, url, workers, model_type}
 *     hardware       hardware.h
 *     run            the main run, as GET /v1/runs/{run} has it
 *     prompts        those of the run, each with its text
 *     sweep          [{concurrency, run}], in order; absent where none was made
 *     price_per_hour, goal {ttft_ms, tpot_ms, e2e_ms}: absent where not given
 *     made_at        wall nanoseconds
 *
 * Nothing is said that does not follow from them.
 */
#pragma once

#include "base/json.h"
#include "client/audit/document.h"

void audit_write(const json_t *facts, struct document *ret);

/* -- For its parts: figures of a run; NAN where there is none. ---------------------------------------- */

double run_figure(const json_t *run, const char *metric, const char *statistic);
double run_throughput(const json_t *run, const char *name);
int64_t run_requests(const json_t *run, const char *outcome);
int64_t run_requests_all(const json_t *run);

/* What the runs of the sweep measured, by their load. */
struct curve {
    size_t n;
    double *concurrency, *tokens_per_s, *e2e_p50_ms;
    const json_t **runs;
};
void curve_read(const json_t *facts, struct curve *ret);
void curve_done(struct curve *c);
/* The point beyond which more load costs more than it gives (client/runs/sweep.h); -1 where there is none. */
ssize_t curve_knee(const struct curve *c);

/* findings.c, limitations.c: items of a list. */
void audit_findings(const json_t *facts, struct document *d);
void audit_limitations(const json_t *facts, struct document *d);
