/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/run_figures.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/screen.h"
#include "client/cli/table.h"
#include "client/cli/text.h"
#include "client/views/run.h"
#include <math.h>

/* More of them are in --json. */
#define ERRORS_SHOWN   5
#define OUTLIERS_SHOWN 3
/* Weaker correlations mean little, and those of fewer requests are not significant. */
#define CORRELATION_MIN      0.3
#define CORRELATION_REQUESTS 20

const struct run_metric run_metrics[] = {
    {"ttft_ms", "TTFT"}, {"tpot_ms", "TPOT"},          {"itl_ms", "ITL"},
    {"e2e_ms", "E2E"},   {"send_lateness_ms", "late"},
};
const size_t n_run_metrics = ARRAY_SIZE(run_metrics);

/* -- Latencies ---------------------------------------------------------------------------------------- */

static const struct figure_column {
    struct table_column table;
    const char *key; /* of a metric; NULL: made here */
} figure_columns[] = {
    {{"ms", 0, IMPORTANCE_KEY}, NULL},
    {{"MEAN", COLUMN_RIGHT, IMPORTANCE_HIGH}, "mean"},
    {{"95% CI", COLUMN_RIGHT, IMPORTANCE_EXTRA}, NULL},
    {{"STD", COLUMN_RIGHT, IMPORTANCE_LOW}, "std"},
    {{"MIN", COLUMN_RIGHT, IMPORTANCE_EXTRA}, "min"},
    {{"P50", COLUMN_RIGHT, IMPORTANCE_HIGH}, "p50"},
    {{"P90", COLUMN_RIGHT}, "p90"},
    {{"P95", COLUMN_RIGHT, IMPORTANCE_LOW}, "p95"},
    {{"P99", COLUMN_RIGHT, IMPORTANCE_HIGH}, "p99"},
    {{"MAX", COLUMN_RIGHT}, "max"},
};

#define N_COLUMNS ARRAY_SIZE(figure_columns)
enum { COLUMN_NAME = 0, COLUMN_INTERVAL = 2 };

static char *interval_text(const json_t *metric)
{
    const json_t *interval = json_object_get(json_object_get(metric, "ci95"), "mean");
    char low[32], high[32];

    if (json_array_size(interval) != 2)
        return NULL;
    return xasprintf("%s..%s", figure_text(low, json_number_value(json_array_get(interval, 0))),
                     figure_text(high, json_number_value(json_array_get(interval, 1))));
}

static void add_metric(struct table *table, const struct run_metric *m, const json_t *metrics)
{
    const json_t *metric = json_object_get(metrics, m->key);
    char texts[N_COLUMNS][32];
    const char *cells[N_COLUMNS];
    _cleanup_(freep) char *interval = interval_text(metric);

    if (!isfinite(figure_at(metric, "mean")))
        return;
    for (size_t i = 0; i < N_COLUMNS; i++)
        cells[i] = figure_columns[i].key
                       ? figure_text(texts[i], run_metric_figure(metric, figure_columns[i].key))
                       : NULL;
    cells[COLUMN_NAME] = m->name;
    cells[COLUMN_INTERVAL] = interval;
    table_add(table, cells);
}

static void figures_print_metrics(const json_t *run, const struct screen *s, bool with_heading)
{
    struct table_column columns[N_COLUMNS];
    const json_t *metrics = json_object_get(run, "metrics");

    for (size_t i = 0; i < N_COLUMNS; i++)
        columns[i] = figure_columns[i].table;
    _cleanup_(table_freep) struct table *table = table_new(columns, N_COLUMNS, with_heading);
    for (size_t i = 0; i < n_run_metrics; i++)
        add_metric(table, &run_metrics[i], metrics);
    _cleanup_(freep) char *text = table_text(table, s, 2);
    fputs(text, s->file);
}

/* -- The rest, a function for each member -------------------------------------------------------------- */

static void figures_print_throughput(const json_t *throughput, const struct screen *s)
{
    char requests[32], output[32], input[32], user[32];
    double per_user = figure_at(throughput, "output_tokens_per_s_per_user");

    if (!isfinite(figure_at(throughput, "requests_per_s")))
        return;
    field_printf(s, "Throughput:", "%s requests/s · %s output tokens/s%s%s%s · %s input tokens/s",
                 figure_text(requests, figure_at(throughput, "requests_per_s")),
                 figure_text(output, figure_at(throughput, "output_tokens_per_s")),
                 isfinite(per_user) ? ", " : "", isfinite(per_user) ? figure_text(user, per_user) : "",
                 isfinite(per_user) ? " for one user" : "",
                 figure_text(input, figure_at(throughput, "input_tokens_per_s")));
}

static const char *metric_name(const char *key)
{
    for (size_t i = 0; i < n_run_metrics; i++)
        if (streq(run_metrics[i].key, key))
            return run_metrics[i].name;
    return key;
}

static void figures_print_goodput(const json_t *goodput, const struct screen *s)
{
    char rate[32], number[32], *text = NULL;
    const char *key, *separator = ": ";
    json_t *goal;
    size_t size;

    if (!isfinite(figure_at(goodput, "share")))
        return;
    FILE *out = xmemstream(&text, &size);
    if (!out)
        return;
    fprintf(out, "%s requests/s, %.1f %% of all that were sent",
            figure_text(rate, figure_at(goodput, "requests_per_s")), 100 * figure_at(goodput, "share"));
    json_object_foreach(json_object_get(goodput, "goals"), key, goal) {
        fprintf(out, "%s%s within %s ms %.1f %%", separator, metric_name(key),
                figure_text(number, figure_at(goal, "goal")), 100 * figure_at(goal, "share"));
        separator = ", ";
    }
    fclose(out);
    field_print(s, "Goodput:", text);
    free(text);
}

static void figures_print_peak(const json_t *peak, const struct screen *s)
{
    _cleanup_(freep) char *requests = text_count(json_integer_value(peak), "request");
    field_printf(s, "Peak:", "%s at a time", requests);
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

static void figures_print_tokens(const json_t *tokens, const struct screen *s)
{
    char in[32], out[32];
    const char *of_input = json_get_str(tokens, "input_source"),
               *of_output = json_get_str(tokens, "output_source");

    text_number(in, json_get_int(tokens, "input", 0));
    text_number(out, json_get_int(tokens, "output", 0));
    if (streq(of_input, of_output)) {
        field_printf(s, "Tokens:", "%s in, %s out, %s", in, out, token_source_meaning(of_input));
        return;
    }
    field_printf(s, "Tokens:", "%s in, %s", in, token_source_meaning(of_input));
    field_printf(s, "", "%s out, %s", out, token_source_meaning(of_output));
}

static void figures_print_cold(const json_t *cold, const struct screen *s)
{
    char ttft[32], e2e[32];
    double ttft_ms = figure_at(cold, "ttft_ms/mean");
    int64_t n = json_get_int(cold, "requests", 0);

    if (n > 0)
        field_printf(s, "Cold:", "%s%s%sE2E %s ms of the first request%s, left out above",
                     isfinite(ttft_ms) ? "TTFT " : "", isfinite(ttft_ms) ? figure_text(ttft, ttft_ms) : "",
                     isfinite(ttft_ms) ? " ms, " : "", figure_text(e2e, figure_at(cold, "e2e_ms/mean")),
                     n == 1 ? "" : " to each worker");
}

static void figures_print_warm_up(const json_t *warmed, const struct screen *s)
{
    char sent[32], failed[32], mean[32];
    const char *name = "Warm-up:";
    json_t *one;
    size_t i;

    json_array_foreach(warmed, i, one) {
        const char *url = json_get_str(one, "url");
        int64_t n_failed = json_get_int(one, "failed", 0);
        double mean_ms = figure_at(one, "mean_ms");
        field_printf(s, name, "%s: %s sent, %s failed%s%s%s; not counted", url ? url : "?",
                     text_number(sent, json_get_int(one, "sent", 0)),
                     n_failed > 0 ? text_number(failed, n_failed) : "none",
                     isfinite(mean_ms) ? ", mean " : "", isfinite(mean_ms) ? figure_text(mean, mean_ms) : "",
                     isfinite(mean_ms) ? " ms" : "");
        name = "";
    }
}

/* The unit follows from the name: latency in milliseconds, clock in MHz, memory in bytes. */
static char *drift_text(char *buf, const char *key, double value)
{
    const char *unit = ends_with(key, "_mhz") ? "MHz" : "ms";

    if (ends_with(key, "_bytes"))
        return format_size(buf, (int64_t)value);
    char figure[32];
    snprintf(buf, UNIT_TEXT_MAX, "%s %s", figure_text(figure, value), unit);
    return buf;
}

static void figures_print_drift(const json_t *drift, const struct screen *s)
{
    const char *key, *name = "Drift:";
    char first[UNIT_TEXT_MAX], last[UNIT_TEXT_MAX];
    json_t *trend;

    json_object_foreach((json_t *)drift, key, trend) {
        if (!json_get_bool(trend, "significant", false))
            continue;
        field_printf(s, name, "%s %s over the run, from %s to %s (p = %.2g)", metric_name(key),
                     figure_at(trend, "tau") > 0 ? "rises" : "falls",
                     drift_text(first, key, figure_at(trend, "first")),
                     drift_text(last, key, figure_at(trend, "last")), figure_at(trend, "p"));
        name = "";
    }
}

static void figures_print_correlation(const json_t *correlation, const struct screen *s)
{
    static const struct {
        const char *key, *what;
    } pairs[] = {{"input_tokens_ttft", "TTFT with the prompt's length"},
                 {"input_tokens_e2e", "E2E with the prompt's length"},
                 {"output_tokens_e2e", "E2E with the answer's length"}};
    const char *name = "Correlation:";

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        double r = figure_at(correlation, pairs[i].key);
        if (!isfinite(r) || fabs(r) < CORRELATION_MIN)
            continue;
        field_printf(s, name, "%s, r = %.2f", pairs[i].what, r);
        name = "";
    }
}

static void figures_print_outliers(const json_t *outliers, const struct screen *s)
{
    size_t n = json_array_size(outliers), i;
    char value[32], median[32];
    json_t *one;

    json_array_foreach(outliers, i, one) {
        const char *figure = json_get_str(one, "figure"), *reason = json_get_str(one, "reason");
        if (i == OUTLIERS_SHOWN) {
            field_printf(s, "", "and %zu more, in --json", n - i);
            break;
        }
        field_printf(s, i == 0 ? "Outliers:" : "", "request %lld: %s %s ms against %s ms%s%s",
                     (long long)json_get_int(one, "index", 0), metric_name(figure ? figure : "?"),
                     figure_text(value, figure_at(one, "value")),
                     figure_text(median, figure_at(one, "median")), reason ? ": " : "", reason ? reason : "");
    }
}

static void figures_print_errors(const json_t *errors, const struct screen *s)
{
    size_t n = json_array_size(errors), i;
    char count[32];
    json_t *one;

    json_array_foreach(errors, i, one) {
        const char *text = json_get_str(one, "text");
        if (i == ERRORS_SHOWN) {
            field_printf(s, "", "and %zu more kinds, in --json", n - i);
            break;
        }
        field_printf(s, i == 0 ? "Errors:" : "", "%s x %s", text_number(count, json_get_int(one, "count", 0)),
                     text ? text : "?");
    }
}

static void figures_print_notes(const json_t *notes, const struct screen *s)
{
    size_t i;
    json_t *one;

    json_array_foreach(notes, i, one) {
        const char *text = json_is_string(one) ? json_string_value(one) : json_get_str(one, "text");
        const char *remedy = json_get_str(one, "remedy");
        field_printf(s, i == 0 ? "Notes:" : "", "%s%s%s", text ? text : "?", remedy ? "\n" : "",
                     remedy ? remedy : "");
    }
}

/* "1.2 GiB at first, at most 1.4 GiB (+0.2 GiB)" */
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

static void figures_print_memory(const json_t *memory, const struct screen *s)
{
    const char *name = "Memory:", *missing = json_get_str(memory, "gpus_reason");
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(memory, "workers"), i, one) {
        const char *url = json_get_str(one, "url"), *reason = json_get_str(one, "reason");
        _cleanup_(freep) char *rss = growth_text(json_object_get(one, "rss_bytes"));
        _cleanup_(freep) char *pss = growth_text(json_object_get(one, "pss_bytes"));
        field_printf(s, name, "%s: %s%s%s%s", url ? url : "?", rss ? "RSS " : "not available: ",
                     rss      ? rss
                     : reason ? reason
                              : "it is not on this host",
                     pss ? "; PSS " : "", pss ? pss : "");
        name = "";
    }
    json_array_foreach(json_object_get(memory, "gpus"), i, one) {
        _cleanup_(freep) char *used = growth_text(json_object_get(one, "memory_bytes"));
        char busy[32], clock[32];
        field_printf(s, name, "GPU %lld: %s; %s %% busy at %s MHz on average",
                     (long long)json_get_int(one, "index", 0), used ? used : "not available",
                     figure_text(busy, figure_at(one, "utilisation_percent/mean")),
                     figure_text(clock, figure_at(one, "sm_clock_mhz/mean")));
        name = "";
    }
    if (missing)
        field_printf(s, name, "GPU: not available: %s", missing);
}

static char *worker_text(const json_t *worker)
{
    char *text = NULL, p50[32], p99[32];
    const char *url = json_get_str(worker, "url"), *separator = ": ";
    double used = figure_at(worker, "kv_cache_use/peak");
    size_t size;
    FILE *out = xmemstream(&text, &size);

    if (!out)
        return xstrdup(url);
    fputs(url ? url : "?", out);
    for (size_t i = 0; i < n_run_metrics; i++) {
        const json_t *metric = json_object_get(worker, run_metrics[i].key);
        if (!isfinite(figure_at(metric, "p50")))
            continue;
        fprintf(out, "%s%s p50 %s p99 %s ms", separator, run_metrics[i].name,
                figure_text(p50, figure_at(metric, "p50")), figure_text(p99, figure_at(metric, "p99")));
        separator = "; ";
    }
    if (isfinite(used))
        fprintf(out, "%sKV cache at most %.1f %% full", separator, 100 * used);
    fclose(out);
    return text;
}

/* The histograms of the workers, whose buckets are coarse. */
static void figures_print_server(const json_t *server, const struct screen *s)
{
    size_t i;
    json_t *worker;

    json_array_foreach(json_object_get(server, "workers"), i, worker) {
        _cleanup_(freep) char *text = worker_text(worker);
        field_print(s, i == 0 ? "Server side:" : "", text);
    }
}

static const struct figures_section {
    const char *member;
    void (*print)(const json_t *value, const struct screen *s);
    double requests_min; /* of fewer it means nothing */
} sections[] = {
    {"throughput", figures_print_throughput, 1},
    {"goodput", figures_print_goodput, 1},
    {"peak_concurrency", figures_print_peak, 1},
    {"tokens", figures_print_tokens, 1},
    {"cold", figures_print_cold, 1},
    {"warmed", figures_print_warm_up},
    {"drift", figures_print_drift, 1},
    {"outliers", figures_print_outliers, 1},
    {"correlation", figures_print_correlation, CORRELATION_REQUESTS},
    {"errors", figures_print_errors},
    {"memory", figures_print_memory},
    {"server", figures_print_server, 1},
    {"notes", figures_print_notes},
};

void run_print_figures(const json_t *run, const struct screen *s, bool with_heading)
{
    double n = figure_at(run, "requests/success");

    if (n > 0)
        figures_print_metrics(run, s, with_heading);
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
        const json_t *value = json_object_get(run, sections[i].member);
        if (value && !json_is_null(value) && (sections[i].requests_min == 0 || n >= sections[i].requests_min))
            sections[i].print(value, s);
    }
}
