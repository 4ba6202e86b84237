/* SPDX-License-Identifier: Apache-2.0 */
/* The sections of audit.h's document, each a function over the same facts, and the figures that they share.
 */
#pragma once

#include "base/json.h"
#include "client/views/document.h"

/* -- Figures of a run; NAN where there is none -------------------------------------------------------- */

/* The main one. */
const json_t *audit_run(const json_t *facts);
double run_figure(const json_t *run, const char *metric, const char *statistic);
double run_throughput(const json_t *run, const char *name);
int64_t run_requests(const json_t *run, const char *outcome);
int64_t run_requests_all(const json_t *run);
/* Maximum requests in flight: 1 for a closed loop without a value, 0 for an open loop without a bound. */
int64_t run_places(const json_t *run);
/* Value of a cell; NULL, which is shown as unknown, if it is not finite. */
char *audit_number_text(const char *format, double value);

/* Results of the runs of the sweep, by load. */
struct curve {
    size_t n;
    double *concurrency, *tokens_per_s, *e2e_p50_ms;
    const json_t **runs;
};
void curve_read(const json_t *facts, struct curve *ret);
void curve_done(struct curve *c);
/* The point beyond which more load costs more than it gains (client/runs/plan.h); -1 if there is none. */
ssize_t curve_knee(const struct curve *c);

/* -- Sections ----------------------------------------------------------------------------------------- */

/* subject.c */
void audit_model(const json_t *facts, struct document *d);
void audit_hardware(const json_t *facts, struct document *d);
void audit_configuration(const json_t *facts, struct document *d);

/* measured.c */
void audit_prompts(const json_t *facts, struct document *d);
void audit_statistics(const json_t *facts, struct document *d);
void audit_percentiles(const json_t *facts, struct document *d);
void audit_cold_and_warm(const json_t *facts, struct document *d);
void audit_memory(const json_t *facts, struct document *d);

/* spread.c */
void audit_throughput(const json_t *facts, struct document *d);
void audit_correlation(const json_t *facts, struct document *d);
void audit_outliers(const json_t *facts, struct document *d);

/* sizing.c */
void audit_sweep(const json_t *facts, struct document *d);
void audit_sizing(const json_t *facts, struct document *d);

/* findings.c, limitations.c: items of a list. */
void audit_findings(const json_t *facts, struct document *d);
void audit_limitations(const json_t *facts, struct document *d);
