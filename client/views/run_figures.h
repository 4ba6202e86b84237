/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run measured, for people: a table of latencies, then a line for each of the rest. From the JSON of
 * /v1/runs/ID (docs/figures.md).
 */
#pragma once

#include "base/json.h"
#include "client/cli/screen.h"

void run_print_figures(const json_t *run, const struct screen *s, bool with_heading);

/* The names of what is measured of each request, in the order of tables: "ttft_ms" and how people call it. */
struct run_metric {
    const char *key, *name;
};
extern const struct run_metric run_metrics[];
extern const size_t n_run_metrics;
