/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/audit/audit.h"

#include "base/alloc.h"
#include "extras/audit/parts.h"
#include <inttypes.h>
#include <math.h>

/* A few requests have a median but no 99th percentile. */
static void put_latency(struct document *d, const char *what, const json_t *run, const char *metric)
{
    double p50 = run_figure(run, metric, "p50"), p99 = run_figure(run, metric, "p99");

    if (isfinite(p50) && isfinite(p99))
        document_item(d, "%s after %.1f ms (median), %.1f ms (p99).", what, p50, p99);
    else if (isfinite(p50))
        document_item(d, "%s after %.1f ms (median).", what, p50);
}

static void executive_summary(const json_t *facts, struct document *d)
{
    const json_t *run = audit_run(facts), *model = json_object_get(facts, "model");
    const char *name = json_get_str(model, "name");
    _cleanup_(curve_done) struct curve c = {0};

    document_text(d, "%s answered %" PRId64 " of %" PRId64 " requests.", name ? name : "The model",
                  run_requests(run, "success"), run_requests_all(run));
    put_latency(d, "First token", run, "ttft_ms");
    put_latency(d, "Complete answer", run, "e2e_ms");
    if (isfinite(run_throughput(run, "output_tokens_per_s")))
        document_item(d, "%.1f tokens/s of output, %.1f tokens/s of input, %.2f requests/s.",
                      run_throughput(run, "output_tokens_per_s"), run_throughput(run, "input_tokens_per_s"),
                      run_throughput(run, "requests_per_s"));
    curve_read(facts, &c);
    ssize_t knee = curve_knee(&c);
    if (knee >= 0)
        document_item(d, "Serves best up to %.0f requests at a time: %.1f tokens/s there.",
                      c.concurrency[knee], c.tokens_per_s[knee]);
}

static const struct {
    const char *heading;
    void (*write)(const json_t *facts, struct document *d);
} sections[] = {
    {"Executive summary", executive_summary},
    {"Key findings and recommendations", audit_findings},
    {"Model", audit_model},
    {"Hardware", audit_hardware},
    {"Test configuration", audit_configuration},
    {"Metrics of each prompt", audit_prompts},
    {"Summary statistics", audit_statistics},
    {"Percentiles", audit_percentiles},
    {"Throughput", audit_throughput},
    {"Correlation", audit_correlation},
    {"Outliers", audit_outliers},
    {"Cold and warm", audit_cold_and_warm},
    {"Concurrency (batch sizes)", audit_sweep},
    {"Sizing", audit_sizing},
    {"Memory", audit_memory},
    {"Limitations: what was not tested", audit_limitations},
};

void audit_write(const json_t *facts, struct document *ret)
{
    const char *name = json_get_str(json_object_get(facts, "model"), "name");
    struct document d = {.title = xasprintf("Performance audit of %s", name ? name : "a model")};

    for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
        document_heading(&d, sections[i].heading);
        sections[i].write(facts, &d);
    }
    *ret = d;
}
