/* SPDX-License-Identifier: Apache-2.0 */
/* Results of the main run: of each prompt, of all requests, of memory. */
#include "base/alloc.h"
#include "base/units.h"
#include "client/views/run.h"
#include "extras/audit/parts.h"
#include <inttypes.h>
#include <math.h>

#define PROMPT_BYTES 60 /* of its text, in a table */

static char *mean_text(const char *format, const json_t *prompt, const char *metric)
{
    return audit_number_text(format, json_get_number(json_object_get(prompt, metric), "mean", NAN));
}

static char *grown_text(const json_t *prompt, const char *memory)
{
    char text[UNIT_TEXT_MAX];
    const json_t *v = json_object_get(json_object_get(prompt, memory), "difference");

    return json_is_integer(v) && json_integer_value(v) >= 0
               ? xstrdup(format_size(text, json_integer_value(v)))
               : NULL;
}

void audit_prompts(const json_t *facts, struct document *d)
{
    static const char *const headings[] = {"#",          "=Prompt",  "Requests",    "Tokens in",
                                           "Tokens out", "TTFT ms",  "TPOT ms",     "E2E ms",
                                           "Tokens/s",   "Memory +", "GPU memory +"};
    struct table *t = document_table(d, headings, ARRAY_SIZE(headings));
    size_t i;
    json_t *p;

    json_array_foreach(json_object_get(facts, "prompts"), i, p) {
        const char *text = json_get_str(p, "text");
        double seconds = json_get_number(json_object_get(p, "e2e_ms"), "mean", NAN) / 1e3;
        document_row(
            t, (char *const[]){
                   xasprintf("%" PRId64, json_get_int(p, "prompt", 0) + 1),
                   text ? xasprintf("%.*s%s", PROMPT_BYTES, text, strlen(text) > PROMPT_BYTES ? "..." : "")
                        : xstrdup("synthetic"),
                   xasprintf("%" PRId64, json_get_int(p, "requests", 0)),
                   audit_number_text("%.0f", json_get_number(p, "input_tokens", NAN)),
                   audit_number_text("%.0f", json_get_number(p, "output_tokens", NAN)),
                   mean_text("%.1f", p, "ttft_ms"),
                   mean_text("%.2f", p, "tpot_ms"),
                   mean_text("%.1f", p, "e2e_ms"),
                   audit_number_text("%.1f", json_get_number(p, "output_tokens", NAN) / seconds),
                   grown_text(p, "rss_bytes"),
                   grown_text(p, "gpu_bytes"),
               });
    }
}

static const struct {
    const char *metric, *name;
} metrics[] = {
    {"ttft_ms", "Time to first token"},        {"itl_ms", "Between tokens"},
    {"tpot_ms", "Per output token"},           {"e2e_ms", "Whole request"},
    {"send_lateness_ms", "Sender's lateness"},
};

/* Statistics of a table. */
#define STATISTICS_MAX 15

/* A row for each metric, a column for each statistic. */
static void put_statistics(const json_t *run, const char *const *statistics, const char *const *headings,
                           size_t n, struct document *d)
{
    struct table *t = document_table(d, headings, n + 1);

    for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
        char *cells[STATISTICS_MAX + 1] = {xstrdup(metrics[i].name)};
        for (size_t k = 0; k < n; k++)
            cells[k + 1] = audit_number_text(
                "%.2f", run_metric_figure(json_object_get(json_object_get(run, "metrics"), metrics[i].metric),
                                          statistics[k]));
        document_row(t, cells);
    }
}

void audit_statistics(const json_t *facts, struct document *d)
{
    static const char *const names[] = {"mean", "std", "min", "p50", "max"}, *const headings[] = {
                                                                                 "=ms", "mean",   "std",
                                                                                 "min", "median", "max"};
    put_statistics(audit_run(facts), names, headings, ARRAY_SIZE(names), d);
}

void audit_percentiles(const json_t *facts, struct document *d)
{
    static const char *const names[] = {"p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99.9"},
                             *const headings[] = {"=ms", "p1",  "p5",  "p10", "p25",  "p50",
                                                  "p75", "p90", "p95", "p99", "p99.9"};
    put_statistics(audit_run(facts), names, headings, ARRAY_SIZE(names), d);
}

void audit_cold_and_warm(const json_t *facts, struct document *d)
{
    static const char *const headings[] = {"=ms", "cold", "warm (median)", "times"};
    const json_t *run = audit_run(facts), *cold = json_object_get(run, "cold");
    struct table *t = document_table(d, headings, ARRAY_SIZE(headings));

    for (size_t i = 0; i < ARRAY_SIZE(metrics) - 1; i++) {
        double first = json_get_number(json_object_get(cold, metrics[i].metric), "mean", NAN),
               warm = run_figure(run, metrics[i].metric, "p50");
        document_row(t, (char *const[]){xstrdup(metrics[i].name), audit_number_text("%.2f", first),
                                        audit_number_text("%.2f", warm),
                                        audit_number_text("%.1f", first / warm)});
    }
}

static void put_series(struct table *t, const char *what, const json_t *series)
{
    static const char *const keys[] = {"baseline", "mean", "std", "low", "peak", "difference"};
    char *cells[ARRAY_SIZE(keys) + 2] = {xstrdup(what)};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        char text[UNIT_TEXT_MAX];
        double bytes = json_get_number(series, keys[i], -1);
        cells[i + 1] = bytes >= 0 ? xstrdup(format_size(text, (int64_t)bytes)) : NULL;
    }
    cells[ARRAY_SIZE(keys) + 1] = audit_number_text("%.0f", json_get_number(series, "n", NAN));
    document_row(t, cells);
}

void audit_memory(const json_t *facts, struct document *d)
{
    static const char *const headings[] = {"=",   "before", "mean",       "std",
                                           "min", "max",    "difference", "samples"};
    const json_t *m = json_object_get(audit_run(facts), "memory");
    size_t i;
    json_t *one;

    if (!json_is_object(m)) {
        document_text(d, "Not available: the worker runs on another machine.");
        return;
    }
    struct table *t = document_table(d, headings, ARRAY_SIZE(headings));
    json_array_foreach(json_object_get(m, "workers"), i, one) {
        _cleanup_(freep) char *rss = xasprintf("%s, resident", json_get_str(one, "url")),
                              *pss = xasprintf("%s, its own share", json_get_str(one, "url"));
        put_series(t, rss, json_object_get(one, "rss_bytes"));
        if (json_is_object(json_object_get(one, "pss_bytes")))
            put_series(t, pss, json_object_get(one, "pss_bytes"));
    }
    json_array_foreach(json_object_get(m, "gpus"), i, one) {
        _cleanup_(freep) char *name =
            xasprintf("GPU %" PRId64 " %s", json_get_int(one, "index", 0), json_get_str(one, "name"));
        put_series(t, name, json_object_get(one, "memory_bytes"));
    }
}
