/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/run_figures.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/views/run.h"
#include <math.h>

/* --json contains all of them. */
#define ERRORS_SHOWN   5
#define OUTLIERS_SHOWN 3
/* Weaker correlations mean little, and those of fewer requests are not significant. */
#define CORRELATION_MIN      0.3
#define CORRELATION_REQUESTS 20
#define TABLE_INDENT         2

const struct run_metric run_metrics[] = {
    {"ttft_ms", "TTFT"}, {"tpot_ms", "TPOT"},          {"itl_ms", "ITL"},
    {"e2e_ms", "E2E"},   {"send_lateness_ms", "late"},
};
const size_t n_run_metrics = ARRAY_SIZE(run_metrics);

const char *run_metric_name(const char *key)
{
    for (size_t i = 0; i < n_run_metrics; i++)
        if (streq(run_metrics[i].key, key))
            return run_metrics[i].name;
    return key;
}

/* -- Latencies ---------------------------------------------------------------------------------------- */

enum { CELL_NAME, CELL_MEAN, CELL_INTERVAL, _CELL_MAX = 10 };

static const struct table_column columns[_CELL_MAX] = {
    {"ms", 0, IMPORTANCE_KEY},
    {"MEAN", COLUMN_RIGHT, IMPORTANCE_HIGH},
    {"95% CI", COLUMN_RIGHT, IMPORTANCE_EXTRA},
    {"STD", COLUMN_RIGHT, IMPORTANCE_LOW},
    {"MIN", COLUMN_RIGHT, IMPORTANCE_EXTRA},
    {"P50", COLUMN_RIGHT, IMPORTANCE_HIGH},
    {"P90", COLUMN_RIGHT},
    {"P95", COLUMN_RIGHT, IMPORTANCE_LOW},
    {"P99", COLUMN_RIGHT, IMPORTANCE_HIGH},
    {"MAX", COLUMN_RIGHT},
};

/* The figure of a metric in each column. */
static const char *const figures[_CELL_MAX] = {NULL,  "mean", NULL,  "std", "min",
                                               "p50", "p90",  "p95", "p99", "max"};

static void run_add_metric(struct table *table, const struct run_metric *m, const json_t *metric)
{
    const json_t *interval = json_object_get(json_object_get(metric, "ci95"), "mean");
    char texts[_CELL_MAX][32], low[32], high[32];
    const char *cells[_CELL_MAX] = {m->name};
    _cleanup_(freep) char *bounds = NULL;

    if (!isfinite(figure_at(metric, "mean")))
        return;
    for (size_t i = 0; i < _CELL_MAX; i++)
        if (figures[i])
            cells[i] = figure_text(texts[i], run_metric_figure(metric, figures[i]));
    if (json_array_size(interval) == 2)
        cells[CELL_INTERVAL] = bounds =
            xasprintf("%s..%s", figure_text(low, json_number_value(json_array_get(interval, 0))),
                      figure_text(high, json_number_value(json_array_get(interval, 1))));
    table_add(table, cells);
}

static void run_add_metrics(struct document *d, const json_t *metrics, bool with_heading)
{
    struct table *table = table_new(columns, _CELL_MAX, with_heading);

    table_indent(table, TABLE_INDENT);
    table_name_hidden(table, false);
    for (size_t i = 0; i < n_run_metrics; i++)
        run_add_metric(table, &run_metrics[i], json_object_get(metrics, run_metrics[i].key));
    document_take_table(d, table);
}

/* -- The rest, a function for each member -------------------------------------------------------------- */

/* "label 12.3 unit"; empty for a value that is unknown. The caller frees. */
static char *known_text(const char *before, double value, const char *after)
{
    char number[32];

    return isfinite(value) ? xasprintf("%s%s%s", before, figure_text(number, value), after) : xstrdup("");
}

static void run_add_throughput(struct document *d, const json_t *throughput)
{
    char requests[32], output[32], input[32];
    _cleanup_(freep) char *user =
        known_text(", ", figure_at(throughput, "output_tokens_per_s_per_user"), " for one user");

    if (isfinite(figure_at(throughput, "requests_per_s")))
        document_field(d, "Throughput", "%s requests/s · %s output tokens/s%s · %s input tokens/s",
                       figure_text(requests, figure_at(throughput, "requests_per_s")),
                       figure_text(output, figure_at(throughput, "output_tokens_per_s")), user,
                       figure_text(input, figure_at(throughput, "input_tokens_per_s")));
}

static void run_add_goodput(struct document *d, const json_t *goodput)
{
    _cleanup_(freep) char *goals = NULL;
    char number[32];
    const char *key;
    json_t *goal;

    if (!isfinite(figure_at(goodput, "share")))
        return;
    json_object_foreach(json_object_get(goodput, "goals"), key, goal)
        append_str(&goals, "%s%s within %s ms %.1f %%", goals ? ", " : ": ", run_metric_name(key),
                   figure_text(number, figure_at(goal, "goal")), 100 * figure_at(goal, "share"));
    document_field(d, "Goodput", "%s requests/s, %.1f %% of all requests sent%s",
                   figure_text(number, figure_at(goodput, "requests_per_s")),
                   100 * figure_at(goodput, "share"), goals ? goals : "");
}

static void run_add_peak(struct document *d, const json_t *peak)
{
    _cleanup_(freep) char *requests = text_count(json_integer_value(peak), "request");

    document_field(d, "Peak", "%s at a time", requests);
}

static const char *token_source_meaning(const char *source)
{
    static const struct {
        const char *source, *meaning;
    } sources[] = {
        {"usage", "counted by the server"},
        {"tokenized", "counted by the server's tokenizer"},
        {"chunks", "counted as events of the stream, which may carry several tokens each"},
        {"estimated", "estimated from the text's length"},
        {"mixed", "counted in several ways, see --requests"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
        if (streq(source, sources[i].source))
            return sources[i].meaning;
    return "not counted";
}

static void run_add_tokens(struct document *d, const json_t *tokens)
{
    char in[32], out[32];
    const char *input = token_source_meaning(json_get_str(tokens, "input_source")),
               *output = token_source_meaning(json_get_str(tokens, "output_source"));

    text_number(in, json_get_int(tokens, "input", 0));
    text_number(out, json_get_int(tokens, "output", 0));
    if (streq(input, output)) {
        document_field(d, "Tokens", "%s in, %s out, %s", in, out, input);
        return;
    }
    document_field(d, "Tokens", "%s in, %s", in, input);
    document_field(d, "", "%s out, %s", out, output);
}

static void run_add_cold(struct document *d, const json_t *cold)
{
    int64_t n = json_get_int(cold, "requests", 0);
    char e2e[32];
    _cleanup_(freep) char *ttft = known_text("TTFT ", figure_at(cold, "ttft_ms/mean"), " ms, ");

    if (n > 0)
        document_field(d, "Cold", "%sE2E %s ms of the first request%s, left out above", ttft,
                       figure_text(e2e, figure_at(cold, "e2e_ms/mean")), n == 1 ? "" : " to each worker");
}

static void run_add_warm_up(struct document *d, const json_t *warmed)
{
    char sent[32], failed[32];
    json_t *one;
    size_t i;

    json_array_foreach(warmed, i, one) {
        const char *url = json_get_str(one, "url");
        int64_t n_failed = json_get_int(one, "failed", 0);
        _cleanup_(freep) char *mean = known_text(", mean ", figure_at(one, "mean_ms"), " ms");
        document_field(d, i == 0 ? "Warm-up" : "", "%s: %s sent, %s failed%s; not counted", url ? url : "?",
                       text_number(sent, json_get_int(one, "sent", 0)),
                       n_failed > 0 ? text_number(failed, n_failed) : "none", mean);
    }
}

/* The unit follows from the name: latency in milliseconds, clock in MHz, memory in bytes. */
static char *drift_text(char *buf, const char *key, double value)
{
    char figure[32];

    if (ends_with(key, "_bytes"))
        return format_size(buf, (int64_t)value);
    snprintf(buf, UNIT_TEXT_MAX, "%s %s", figure_text(figure, value), ends_with(key, "_mhz") ? "MHz" : "ms");
    return buf;
}

static void run_add_drift(struct document *d, const json_t *drift)
{
    const char *key, *name = "Drift";
    char first[UNIT_TEXT_MAX], last[UNIT_TEXT_MAX];
    json_t *trend;

    json_object_foreach((json_t *)drift, key, trend) {
        if (!json_get_bool(trend, "significant", false))
            continue;
        document_field(d, name, "%s %s over the run, from %s to %s (p = %.2g)", run_metric_name(key),
                       figure_at(trend, "tau") > 0 ? "rises" : "falls",
                       drift_text(first, key, figure_at(trend, "first")),
                       drift_text(last, key, figure_at(trend, "last")), figure_at(trend, "p"));
        name = "";
    }
}

static void run_add_correlation(struct document *d, const json_t *correlation)
{
    static const struct {
        const char *key, *what;
    } pairs[] = {{"input_tokens_ttft", "TTFT with the prompt's length"},
                 {"input_tokens_e2e", "E2E with the prompt's length"},
                 {"output_tokens_e2e", "E2E with the answer's length"}};
    const char *name = "Correlation";

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        double r = figure_at(correlation, pairs[i].key);
        if (!(fabs(r) >= CORRELATION_MIN))
            continue;
        document_field(d, name, "%s, r = %.2f", pairs[i].what, r);
        name = "";
    }
}

static void run_add_outliers(struct document *d, const json_t *outliers)
{
    size_t n = json_array_size(outliers), i;
    char value[32], median[32];
    json_t *one;

    json_array_foreach(outliers, i, one) {
        const char *figure = json_get_str(one, "figure"), *reason = json_get_str(one, "reason");
        if (i == OUTLIERS_SHOWN) {
            document_field(d, "", "and %zu more, in --json", n - i);
            break;
        }
        document_field(d, i == 0 ? "Outliers" : "", "request %lld: %s %s ms against %s ms%s%s",
                       (long long)json_get_int(one, "index", 0), run_metric_name(figure ? figure : "?"),
                       figure_text(value, figure_at(one, "value")),
                       figure_text(median, figure_at(one, "median")), reason ? ": " : "",
                       reason ? reason : "");
    }
}

static void run_add_errors(struct document *d, const json_t *errors)
{
    size_t n = json_array_size(errors), i;
    char count[32];
    json_t *one;

    json_array_foreach(errors, i, one) {
        const char *text = json_get_str(one, "text");
        if (i == ERRORS_SHOWN) {
            document_field(d, "", "and %zu more kinds, in --json", n - i);
            break;
        }
        document_field(d, i == 0 ? "Errors" : "", "%s x %s",
                       text_number(count, json_get_int(one, "count", 0)), text ? text : "?");
    }
}

static void run_add_notes(struct document *d, const json_t *notes)
{
    size_t i;
    json_t *one;

    json_array_foreach(notes, i, one) {
        const char *text = json_is_string(one) ? json_string_value(one) : json_get_str(one, "text");
        const char *remedy = json_get_str(one, "remedy");
        document_field(d, i == 0 ? "Notes" : "", "%s", text ? text : "?");
        if (remedy)
            document_field(d, "", "%s", remedy);
    }
}

/* "1.2 GiB at first, at most 1.4 GiB (+0.2 GiB)", or NULL. The caller frees. */
static char *growth_text(const json_t *series)
{
    char baseline[UNIT_TEXT_MAX], peak[UNIT_TEXT_MAX], difference[UNIT_TEXT_MAX];

    if (!json_is_object(series))
        return NULL;
    return xasprintf("%s at first, at most %s (+%s)",
                     format_size(baseline, json_get_int(series, "baseline", 0)),
                     format_size(peak, json_get_int(series, "peak", 0)),
                     format_size(difference, json_get_int(series, "difference", 0)));
}

static void run_add_memory(struct document *d, const json_t *memory)
{
    const char *name = "Memory", *missing = json_get_str(memory, "gpus_reason");
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(memory, "workers"), i, one) {
        const char *url = json_get_str(one, "url"), *reason = json_get_str(one, "reason");
        _cleanup_(freep) char *rss = growth_text(json_object_get(one, "rss_bytes"));
        _cleanup_(freep) char *pss = growth_text(json_object_get(one, "pss_bytes"));
        const char *known = rss ? rss : reason ? reason : "the worker is on another host";
        document_field(d, name, "%s: %s%s%s%s", url ? url : "?", rss ? "RSS " : "not available: ", known,
                       pss ? "; PSS " : "", pss ? pss : "");
        name = "";
    }
    json_array_foreach(json_object_get(memory, "gpus"), i, one) {
        _cleanup_(freep) char *used = growth_text(json_object_get(one, "memory_bytes"));
        char busy[32], clock[32];
        document_field(d, name, "GPU %lld: %s; %s %% busy at %s MHz on average",
                       (long long)json_get_int(one, "index", 0), used ? used : "not available",
                       figure_text(busy, figure_at(one, "utilisation_percent/mean")),
                       figure_text(clock, figure_at(one, "sm_clock_mhz/mean")));
        name = "";
    }
    if (missing)
        document_field(d, name, "GPU: not available: %s", missing);
}

/* The histograms of the workers, whose buckets are coarse. */
static void run_add_server(struct document *d, const json_t *server)
{
    size_t i;
    json_t *worker;

    json_array_foreach(json_object_get(server, "workers"), i, worker) {
        const char *url = json_get_str(worker, "url");
        double used = figure_at(worker, "kv_cache_use/peak");
        _cleanup_(freep) char *text = NULL;
        for (size_t k = 0; k < n_run_metrics; k++) {
            const json_t *metric = json_object_get(worker, run_metrics[k].key);
            char p50[32], p99[32];
            if (isfinite(figure_at(metric, "p50")))
                append_str(&text, "%s%s p50 %s p99 %s ms", text ? "; " : ": ", run_metrics[k].name,
                           figure_text(p50, figure_at(metric, "p50")),
                           figure_text(p99, figure_at(metric, "p99")));
        }
        if (isfinite(used))
            append_str(&text, "%sKV cache at most %.1f %% full", text ? "; " : ": ", 100 * used);
        document_field(d, i == 0 ? "Server side" : "", "%s%s", url ? url : "?", text ? text : "");
    }
}

static const struct {
    const char *member;
    void (*add)(struct document *d, const json_t *value);
    double requests_min; /* with fewer, it is left out */
} sections[] = {
    {"throughput", run_add_throughput, 1},
    {"goodput", run_add_goodput, 1},
    {"peak_concurrency", run_add_peak, 1},
    {"tokens", run_add_tokens, 1},
    {"cold", run_add_cold, 1},
    {"warmed", run_add_warm_up},
    {"drift", run_add_drift, 1},
    {"outliers", run_add_outliers, 1},
    {"correlation", run_add_correlation, CORRELATION_REQUESTS},
    {"errors", run_add_errors},
    {"memory", run_add_memory},
    {"server", run_add_server, 1},
    {"notes", run_add_notes},
};

void run_add_figures(struct document *d, const json_t *run, bool with_heading)
{
    double n = figure_at(run, "requests/success");

    if (n > 0)
        run_add_metrics(d, json_object_get(run, "metrics"), with_heading);
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
        const json_t *value = json_object_get(run, sections[i].member);
        if (value && !json_is_null(value) && (sections[i].requests_min == 0 || n >= sections[i].requests_min))
            sections[i].add(d, value);
    }
}
