/* SPDX-License-Identifier: Apache-2.0 */
/* The document of an audit: its sections, most of them tables that are specified by paths into the facts. */
#include "extras/audit/audit.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/runs/plan.h"
#include "client/views/run.h"
#include <inttypes.h>
#include <math.h>

#define PROMPT_BYTES    60 /* of its text, in a table */
#define COLUMNS_MAX     12
#define SECONDS_PER_DAY 86400
/* With fewer requests a coefficient is not meaningful. */
#define CORRELATION_REQUESTS 20

/* -- Facts -------------------------------------------------------------------------------------------- */

const json_t *audit_at(const json_t *object, const char *path)
{
    while (object && *path) {
        _cleanup_(freep) char *key = xstrndup(path, strcspn(path, "/"));
        object = json_object_get(object, key);
        path += strlen(key) + (path[strlen(key)] == '/');
    }
    return object;
}

double audit_figure(const json_t *run, const char *path)
{
    return run_supported_figure(run, path);
}

int64_t audit_requests(const json_t *run, const char *outcome)
{
    return json_get_int(json_object_get(run, "requests"), outcome, 0);
}

int64_t audit_requests_all(const json_t *run)
{
    return audit_requests(run, "success") + audit_requests(run, "incomplete") + audit_requests(run, "error");
}

void audit_view_make(const json_t *facts, struct audit_view *ret)
{
    const json_t *list = json_object_get(facts, "sweep");
    size_t n = json_array_size(list);
    _cleanup_(freep) struct sweep_point *points = xcalloc(n + 1, sizeof(*points));
    struct audit_view v = {
        .facts = facts, .run = json_object_get(facts, "run"), .points = xcalloc(n + 1, sizeof(*v.points))};

    for (size_t i = 0; i < n; i++) {
        const json_t *run = json_object_get(json_array_get(list, i), "run");
        const struct audit_point p = {
            .concurrency = json_get_number(json_array_get(list, i), "concurrency", NAN),
            .tokens_per_s = audit_figure(run, "throughput/output_tokens_per_s"),
            .e2e_p50_ms = audit_figure(run, "metrics/e2e_ms/p50"),
            .run = run,
        };
        if (!isfinite(p.concurrency) || !isfinite(p.tokens_per_s))
            continue;
        points[v.n_points] = (struct sweep_point){.load = p.concurrency,
                                                  .throughput = p.tokens_per_s,
                                                  .latency = isfinite(p.e2e_p50_ms) ? p.e2e_p50_ms : 0};
        v.points[v.n_points++] = p;
    }
    size_t knee = sweep_knee(points, v.n_points);
    v.knee = knee == SWEEP_NO_KNEE ? -1 : (ssize_t)knee;
    *ret = v;
}

void audit_view_done(struct audit_view *v)
{
    free(v->points);
    *v = (struct audit_view){0};
}

/* -- Tables by specification -------------------------------------------------------------------------- */

/* Formats of cells that are not a format of a double. */
static const char as_value[] = "value", as_size[] = "size";

struct audit_column {
    const char *heading; /* as document_table() takes it; or the name of a line */
    const char *path;    /* of the value in the row's object; NULL: the row gives the text */
    const char *format;  /* as_value, as_size, or of a double */
};

/* Text of a number; NULL, which is shown as unknown, if it is not finite. The caller frees it. */
static char *audit_number(const char *format, double value)
{
    return isfinite(value) ? xasprintf(format, value) : NULL;
}

static char *audit_cell(const json_t *object, const char *path, const char *format)
{
    const json_t *v = audit_at(object, path);
    char text[UNIT_TEXT_MAX];

    if (format == as_size)
        return json_number_value(v) >= 0 && json_is_number(v)
                   ? xstrdup(format_size(text, (int64_t)json_number_value(v)))
                   : NULL;
    if (format != as_value)
        return audit_number(format, audit_figure(object, path));
    if (!v || json_is_null(v))
        return NULL;
    return json_is_string(v) ? xstrdup(json_string_value(v)) : json_dumps(v, JSON_ENCODE_ANY);
}

static struct table *audit_table(struct document *d, const struct audit_column *columns, size_t n)
{
    const char *headings[COLUMNS_MAX];

    for (size_t i = 0; i < n; i++)
        headings[i] = columns[i].heading;
    return document_table(d, headings, n);
}

/* take_texts: those of the columns without a path, in order. */
static void audit_row(struct table *t, const struct audit_column *columns, size_t n, const json_t *object,
                      char *const *take_texts)
{
    char *cells[COLUMNS_MAX];

    for (size_t i = 0; i < n; i++)
        cells[i] = columns[i].path ? audit_cell(object, columns[i].path, columns[i].format) : *take_texts++;
    document_row(t, cells);
}

/* A line of two columns, unless the value is unknown; takes ownership of it. */
static void audit_line(struct table *t, const char *name, char *take_value)
{
    if (take_value)
        document_row(t, (char *const[]){xstrdup(name), take_value});
}

static struct table *audit_line_table(struct document *d)
{
    return document_table(d, (const char *const[]){"=", "="}, 2);
}

static void audit_lines(struct table *t, const json_t *object, const struct audit_column *lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        audit_line(t, lines[i].heading, audit_cell(object, lines[i].path, lines[i].format));
}

/* -- The subject: model, machine, load ---------------------------------------------------------------- */

static void audit_add_latency(struct document *d, const char *what, const json_t *run, const char *metric)
{
    const json_t *m = audit_at(run, metric);
    double p50 = run_metric_figure(m, "p50"), p99 = run_metric_figure(m, "p99");

    if (isfinite(p50) && isfinite(p99))
        document_item(d, "%s after %.1f ms (median), %.1f ms (p99).", what, p50, p99);
    else if (isfinite(p50)) /* of a few requests */
        document_item(d, "%s after %.1f ms (median).", what, p50);
}

static void audit_summary(const struct audit_view *v, struct document *d)
{
    const char *name = json_string_value(audit_at(v->facts, "model/name"));
    double output = audit_figure(v->run, "throughput/output_tokens_per_s");

    document_text(d, "%s answered %" PRId64 " of %" PRId64 " requests.", name ? name : "The model",
                  audit_requests(v->run, "success"), audit_requests_all(v->run));
    audit_add_latency(d, "First token", v->run, "metrics/ttft_ms");
    audit_add_latency(d, "Complete response", v->run, "metrics/e2e_ms");
    if (isfinite(output))
        document_item(d, "%.1f tokens/s of output, %.1f tokens/s of input, %.2f requests/s.", output,
                      audit_figure(v->run, "throughput/input_tokens_per_s"),
                      audit_figure(v->run, "throughput/requests_per_s"));
    if (v->knee >= 0)
        document_item(d, "Optimal concurrency: %.0f, with %.1f tokens/s.", v->points[v->knee].concurrency,
                      v->points[v->knee].tokens_per_s);
}

static void audit_model(const struct audit_view *v, struct document *d)
{
    static const struct audit_column lines[] = {
        {"Model", "name", as_value},           {"Engine", "engine", as_value},
        {"Version", "version", as_value},      {"URL", "url", as_value},
        {"Workers", "workers", as_value},      {"Longest context", "max_model_len", as_value},
        {"Model file", "file_bytes", as_size},
    };
    audit_lines(audit_line_table(d), json_object_get(v->facts, "model"), lines, ARRAY_SIZE(lines));
}

static void audit_hardware(const struct audit_view *v, struct document *d)
{
    static const struct audit_column lines[] = {
        {"CPU", "cpu", as_value},
        {"Processors", "processors", as_value},
        {"Memory", "memory_bytes", as_size},
        {"Kernel", "kernel", as_value},
        {"NVIDIA driver", "driver", as_value},
    };
    const json_t *h = json_object_get(v->facts, "hardware"), *gpus = json_object_get(h, "gpus");
    const char *note = json_get_str(h, "gpu_note");
    size_t i;
    json_t *gpu;

    if (!json_get_bool(h, "of_worker", false))
        document_text(d, "Of the machine that sent the requests; the worker runs on another one.");
    struct table *t = audit_line_table(d);
    audit_lines(t, h, lines, ARRAY_SIZE(lines));
    json_array_foreach((json_t *)gpus, i, gpu) {
        char size[UNIT_TEXT_MAX];
        const char *name = json_get_str(gpu, "name");
        audit_line(t, "GPU",
                   xasprintf("%s, %s", name ? name : "unknown",
                             format_size(size, json_get_int(gpu, "memory_total_bytes", 0))));
    }
    if (json_array_size(gpus) == 0)
        audit_line(t, "GPU", xasprintf("not available%s%s", note ? ": " : "", note ? note : ""));
}

/* Maximum requests in flight: 1 for a closed loop without a value, NULL for an open loop without a bound. The caller
 * frees it. */
static char *audit_concurrency(const json_t *run)
{
    const json_t *workload = json_object_get(run, "workload");
    int64_t n =
        json_get_int(workload, "concurrency", json_is_number(json_object_get(workload, "rate")) ? 0 : 1);

    return n > 0 ? xasprintf("%" PRId64, n) : NULL;
}

static void audit_configuration(const struct audit_view *v, struct document *d)
{
    static const struct audit_column lines[] = {
        {"API", "api", as_value},           {"Input tokens", "isl", as_value},
        {"Output tokens", "osl", as_value}, {"Requests", "requests", as_value},
        {"Duration", "duration", as_value}, {"Arrival", "arrival", as_value},
        {"Requests/s", "rate", as_value},   {"Repetitions", "repeat", as_value},
        {"Random seed", "seed", as_value},  {"Streamed", "stream", as_value},
    };
    struct table *t = audit_line_table(d);
    int64_t most = 0, failed = 0;
    char when[UNIT_TEXT_MAX];
    size_t i;
    json_t *worker;

    audit_line(t, "Date", xstrdup(format_time(when, json_get_int(v->facts, "made_at", 0))));
    audit_line(t, "Run", xasprintf("r%" PRId64, json_get_int(v->run, "run", 0)));
    audit_line(t, "Prompts", xasprintf("%zu", json_array_size(json_object_get(v->facts, "prompts"))));
    audit_line(t, "Concurrency", audit_concurrency(v->run));
    audit_lines(t, json_object_get(v->run, "workload"), lines, ARRAY_SIZE(lines));
    json_array_foreach(json_object_get(v->run, "warmed"), i, worker) {
        most = MAX(most, json_get_int(worker, "sent", 0));
        failed += json_get_int(worker, "failed", 0);
    }
    document_text(d, "Warm-up requests: %" PRId64 "%s%s", most,
                  most > 0 ? " to each worker before each run, not included in its figures" : "",
                  failed > 0 ? "; some failed" : "");
}

/* -- The main run ------------------------------------------------------------------------------------- */

static void audit_prompts(const struct audit_view *v, struct document *d)
{
    static const struct audit_column columns[] = {
        {"#"},
        {"=Prompt"},
        {"Requests", "requests", "%.0f"},
        {"Tokens in", "input_tokens", "%.0f"},
        {"Tokens out", "output_tokens", "%.0f"},
        {"TTFT ms", "ttft_ms/mean", "%.1f"},
        {"TPOT ms", "tpot_ms/mean", "%.2f"},
        {"E2E ms", "e2e_ms/mean", "%.1f"},
        {"Tokens/s"},
        {"Memory +", "rss_bytes/difference", as_size},
        {"GPU memory +", "gpu_bytes/difference", as_size},
    };
    struct table *t = audit_table(d, columns, ARRAY_SIZE(columns));
    size_t i;
    json_t *p;

    json_array_foreach(json_object_get(v->facts, "prompts"), i, p) {
        const char *text = json_get_str(p, "text");
        double tokens = json_get_number(p, "output_tokens", NAN), ms = audit_figure(p, "e2e_ms/mean");
        audit_row(t, columns, ARRAY_SIZE(columns), p,
                  (char *const[]){
                      xasprintf("%" PRId64, json_get_int(p, "prompt", 0) + 1),
                      text ? xasprintf("%.*s%s", PROMPT_BYTES, text, strlen(text) > PROMPT_BYTES ? "..." : "")
                           : xstrdup("synthetic"),
                      audit_number("%.1f", tokens / ms * 1e3),
                  });
    }
}

static const struct {
    const char *metric, *name;
} metrics[] = {
    {"ttft_ms", "Time to first token"},
    {"itl_ms", "Between tokens"},
    {"tpot_ms", "Per output token"},
    {"e2e_ms", "Complete request"},
    {"send_lateness_ms", "Lateness of the sender"},
};

/* A row for each metric, a column for each statistic. */
static void audit_add_statistics(const struct audit_view *v, const struct audit_column *columns, size_t n,
                                 struct document *d)
{
    struct table *t = audit_table(d, columns, n);

    for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
        audit_row(t, columns, n, json_object_get(json_object_get(v->run, "metrics"), metrics[i].metric),
                  (char *const[]){xstrdup(metrics[i].name)});
}

static void audit_statistics(const struct audit_view *v, struct document *d)
{
    static const struct audit_column columns[] = {
        {"=ms"},
        {"mean", "mean", "%.2f"},
        {"std", "std", "%.2f"},
        {"min", "min", "%.2f"},
        {"median", "p50", "%.2f"},
        {"max", "max", "%.2f"},
    };
    audit_add_statistics(v, columns, ARRAY_SIZE(columns), d);
}

static void audit_percentiles(const struct audit_view *v, struct document *d)
{
    static const struct audit_column columns[] = {
        {"=ms"},
        {"p1", "p1", "%.2f"},
        {"p5", "p5", "%.2f"},
        {"p10", "p10", "%.2f"},
        {"p25", "p25", "%.2f"},
        {"p50", "p50", "%.2f"},
        {"p75", "p75", "%.2f"},
        {"p90", "p90", "%.2f"},
        {"p95", "p95", "%.2f"},
        {"p99", "p99", "%.2f"},
        {"p99.9", "p99.9", "%.2f"},
    };
    audit_add_statistics(v, columns, ARRAY_SIZE(columns), d);
}

static void audit_cold_and_warm(const struct audit_view *v, struct document *d)
{
    static const char *const headings[] = {"=ms", "cold", "warm (median)", "ratio"};
    struct table *t = document_table(d, headings, ARRAY_SIZE(headings));

    for (size_t i = 0; i < ARRAY_SIZE(metrics) - 1; i++) {
        _cleanup_(freep) char *cold_path = xasprintf("cold/%s/mean", metrics[i].metric),
                              *warm_path = xasprintf("metrics/%s/p50", metrics[i].metric);
        double cold = audit_figure(v->run, cold_path), warm = audit_figure(v->run, warm_path);
        document_row(t, (char *const[]){xstrdup(metrics[i].name), audit_number("%.2f", cold),
                                        audit_number("%.2f", warm), audit_number("%.1f", cold / warm)});
    }
}

static void audit_memory(const struct audit_view *v, struct document *d)
{
    static const struct audit_column columns[] = {
        {"="},
        {"before", "baseline", as_size},
        {"mean", "mean", as_size},
        {"std", "std", as_size},
        {"min", "low", as_size},
        {"max", "peak", as_size},
        {"difference", "difference", as_size},
        {"samples", "n", "%.0f"},
    };
    const json_t *m = json_object_get(v->run, "memory");
    size_t i;
    json_t *one;

    if (!json_is_object(m)) {
        document_text(d, "Not available: the worker runs on another machine.");
        return;
    }
    struct table *t = audit_table(d, columns, ARRAY_SIZE(columns));
    json_array_foreach(json_object_get(m, "workers"), i, one) {
        const json_t *pss = json_object_get(one, "pss_bytes");
        const char *url = json_get_str(one, "url");
        audit_row(t, columns, ARRAY_SIZE(columns), json_object_get(one, "rss_bytes"),
                  (char *const[]){xasprintf("%s, resident", url)});
        if (json_is_object(pss))
            audit_row(t, columns, ARRAY_SIZE(columns), pss,
                      (char *const[]){xasprintf("%s, proportional", url)});
    }
    json_array_foreach(json_object_get(m, "gpus"), i, one)
        audit_row(t, columns, ARRAY_SIZE(columns), json_object_get(one, "memory_bytes"),
                  (char *const[]){xasprintf("GPU %" PRId64 " %s", json_get_int(one, "index", 0),
                                            json_get_str(one, "name"))});
}

/* -- How requests differ ------------------------------------------------------------------------------ */

static void audit_throughput(const struct audit_view *v, struct document *d)
{
    static const struct audit_column columns[] = {
        {"="},
        {"run"},
        {"requests", "n", "%.0f"},
        {"mean", "mean", "%.1f"},
        {"std", "std", "%.1f"},
        {"min", "min", "%.1f"},
        {"median", "p50", "%.1f"},
        {"max", "max", "%.1f"},
    };
    static const struct {
        const char *key, *name;
    } rates[] = {{"input_tokens_per_s", "Input tokens/s"},
                 {"output_tokens_per_s", "Output tokens/s"},
                 {"total_tokens_per_s", "Input and output tokens/s"}};
    struct table *t = audit_table(d, columns, ARRAY_SIZE(columns));

    for (size_t i = 0; i < ARRAY_SIZE(rates); i++)
        audit_row(t, columns, ARRAY_SIZE(columns),
                  json_object_get(json_object_get(v->facts, "rates"), rates[i].key),
                  (char *const[]){xstrdup(rates[i].name),
                                  audit_cell(json_object_get(v->run, "throughput"), rates[i].key, "%.1f")});
    document_text(d, "Run: tokens of all successful requests per second of the run. The other columns are of "
                     "single requests without cold ones: tokens divided by end-to-end latency.");
}

static void audit_correlation(const struct audit_view *v, struct document *d)
{
    static const char *const headings[] = {"=Of", "=With", "n", "Pearson r", "Spearman rho", "="};
    static const struct {
        const char *key, *x, *y;
    } pairs[] = {
        {"input_tokens_ttft", "Input tokens", "Time to first token"},
        {"input_tokens_e2e", "Input tokens", "Complete request"},
        {"output_tokens_e2e", "Output tokens", "Complete request"},
    };
    const json_t *all = json_object_get(v->run, "correlation");
    struct table *t = document_table(d, headings, ARRAY_SIZE(headings));

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        _cleanup_(freep) char *n_key = xasprintf("%s_n", pairs[i].key),
                              *rank_key = xasprintf("%s_rank", pairs[i].key);
        double n = json_get_number(all, n_key, NAN), rank = json_get_number(all, rank_key, NAN);
        document_row(t, (char *const[]){
                            xstrdup(pairs[i].x),
                            xstrdup(pairs[i].y),
                            audit_number("%.0f", n),
                            audit_number("%.2f", json_get_number(all, pairs[i].key, NAN)),
                            audit_number("%.2f", rank),
                            xstrdup(!isfinite(rank)            ? "lengths do not vary"
                                    : n < CORRELATION_REQUESTS ? "too few requests"
                                                               : ""),
                        });
    }
    document_text(
        d, "n is the number of requests without cold ones. Pearson's r measures how well a line fits, "
           "Spearman's rho how consistently a larger value comes with a longer time. Neither shows a cause.");
}

static const char *audit_metric_name(const char *metric)
{
    for (size_t i = 0; i < ARRAY_SIZE(metrics); i++)
        if (streq(metric, metrics[i].metric))
            return metrics[i].name;
    return metric ? metric : "";
}

static void audit_outliers(const struct audit_view *v, struct document *d)
{
    static const struct audit_column columns[] = {
        {"Request", "index", "%.0f"},    {"=Figure"}, {"ms", "value", "%.1f"},
        {"median ms", "median", "%.1f"}, {"ratio"},   {"=Reason", "reason", as_value},
    };
    const json_t *list = json_object_get(v->run, "outliers");
    size_t i;
    json_t *one;

    if (json_array_size(list) == 0)
        document_text(d, "None of %" PRId64 " requests.", audit_requests(v->run, "success"));
    struct table *t = json_array_size(list) > 0 ? audit_table(d, columns, ARRAY_SIZE(columns)) : NULL;
    json_array_foreach((json_t *)list, i, one)
        audit_row(t, columns, ARRAY_SIZE(columns), one,
                  (char *const[]){xstrdup(audit_metric_name(json_get_str(one, "figure"))),
                                  audit_number("%.1f", json_get_number(one, "value", NAN) /
                                                           json_get_number(one, "median", NAN))});
    document_text(
        d, "An outlier is more than 3.5 median absolute deviations and at least a quarter of the median "
           "above the median; the worst 20 are listed.");
}

/* -- Capacity: the sweep, its knee, the largest load within a goal, and the cost of tokens ------------ */

/* The largest value of workers or GPUs; NULL without values. The caller frees it. */
static char *audit_peak(const json_t *run, const char *list, const char *path)
{
    char text[UNIT_TEXT_MAX];
    double most = -1;
    size_t i;
    json_t *one;

    json_array_foreach((json_t *)audit_at(run, list), i, one)
        most = fmax(most, audit_figure(one, path));
    return most >= 0 ? xstrdup(format_size(text, (int64_t)most)) : NULL;
}

static void audit_sweep(const struct audit_view *v, struct document *d)
{
    static const struct audit_column columns[] = {
        {"Concurrency"},
        {"Requests/s", "throughput/requests_per_s", "%.2f"},
        {"Tokens/s in", "throughput/input_tokens_per_s", "%.1f"},
        {"Tokens/s out", "throughput/output_tokens_per_s", "%.1f"},
        {"Tokens/s out per user", "throughput/output_tokens_per_s_per_user", "%.1f"},
        {"TTFT p50 ms", "metrics/ttft_ms/p50", "%.1f"},
        {"E2E p50 ms", "metrics/e2e_ms/p50", "%.1f"},
        {"E2E p99 ms", "metrics/e2e_ms/p99", "%.1f"},
        {"Memory max"},
        {"GPU memory max"},
        {"="},
    };

    if (v->n_points == 0) {
        document_text(d, "Only one concurrency was measured (--sweep concurrency=1,2,4,8 measures more).");
        return;
    }
    struct table *t = audit_table(d, columns, ARRAY_SIZE(columns));
    for (size_t i = 0; i < v->n_points; i++) {
        const json_t *run = v->points[i].run;
        audit_row(t, columns, ARRAY_SIZE(columns), run,
                  (char *const[]){
                      xasprintf("%.0f", v->points[i].concurrency),
                      audit_peak(run, "memory/workers", "rss_bytes/peak"),
                      audit_peak(run, "memory/gpus", "memory_bytes/peak"),
                      xstrdup((ssize_t)i == v->knee ? "knee" : ""),
                  });
    }
    document_text(d,
                  "Each row is a separate run with that number of requests in flight; the engine forms its "
                  "batches from them.");
    struct plot_block *throughput = document_plot(d, "Throughput", "concurrency", "tokens/s");
    for (size_t i = 0; i < v->n_points; i++)
        plot_point(throughput, v->points[i].concurrency, v->points[i].tokens_per_s);
    throughput->mark_x = v->knee >= 0 ? v->points[v->knee].concurrency : NAN;
    struct plot_block *latency = document_plot(d, "Latency", "concurrency", "complete request, median ms");
    for (size_t i = 0; i < v->n_points; i++)
        if (isfinite(v->points[i].e2e_p50_ms))
            plot_point(latency, v->points[i].concurrency, v->points[i].e2e_p50_ms);
    document_text(
        d,
        v->knee >= 0
            ? "The knee is where throughput divided by latency is largest: beyond it, more load costs more "
              "latency than it gains throughput."
            : "Throughput has no knee in this range.");
}

/* 1: each p99 of the goal is met, 0: one is not, -1: the run has too few requests for one of them, and misses none. */
static int audit_meets(const struct audit_point *p, const json_t *goal)
{
    const char *metric;
    json_t *limit;
    int result = 1;

    json_object_foreach((json_t *)goal, metric, limit) {
        _cleanup_(freep) char *path = xasprintf("metrics/%s/p99", metric);
        double p99 = audit_figure(p->run, path);
        if (p99 > json_number_value(limit))
            return 0;
        result = isfinite(p99) ? result : -1;
    }
    return result;
}

static void audit_add_goal(const struct audit_view *v, const json_t *goal, struct document *d)
{
    const struct audit_point *best = NULL;
    _cleanup_(freep) char *text = NULL;
    bool is_undecided = false;
    const char *metric;
    json_t *limit;

    json_object_foreach((json_t *)goal, metric, limit)
        append_str(&text, "%s%s <= %g", text ? ", " : "", metric, json_number_value(limit));
    for (const struct audit_point *p = v->points; p < v->points + v->n_points; p++) {
        int meets = audit_meets(p, goal);
        is_undecided |= meets < 0;
        if (meets > 0 && (!best || p->concurrency > best->concurrency))
            best = p;
    }
    if (best)
        document_text(d, "Goal %s (p99): met up to concurrency %.0f, %.2f requests/s, %.1f tokens/s.", text,
                      best->concurrency, audit_figure(best->run, "throughput/requests_per_s"),
                      best->tokens_per_s);
    else
        document_text(d, "Goal %s (p99): %s.", text,
                      v->n_points == 0 ? "only a sweep shows which load meets it"
                      : is_undecided   ? "undecided, a p99 needs at least 100 requests in each run"
                                       : "not met by any measured load");
}

static void audit_sizing(const struct audit_view *v, struct document *d)
{
    static const char *const headings[] = {"Concurrency", "Tokens/s", "Tokens a day, millions",
                                           "Cost of a million tokens"};
    const json_t *goal = json_object_get(v->facts, "goal");
    double price = json_get_number(v->facts, "price_per_hour", NAN);
    struct table *t = document_table(d, headings, ARRAY_SIZE(headings));

    for (size_t i = 0; i < MAX(v->n_points, (size_t)1); i++) {
        char *own = v->n_points > 0 ? NULL : audit_concurrency(v->run);
        double tokens = v->n_points > 0 ? v->points[i].tokens_per_s
                                        : audit_figure(v->run, "throughput/output_tokens_per_s");
        document_row(t, (char *const[]){
                            v->n_points > 0 ? xasprintf("%.0f", v->points[i].concurrency)
                            : own           ? own
                                            : xstrdup("as configured"),
                            audit_number("%.1f", tokens),
                            audit_number("%.2f", tokens * SECONDS_PER_DAY / 1e6),
                            audit_number("%.3f", price * (1e6 / tokens / 3600)),
                        });
    }
    document_text(d, "Tokens are tokens of output. %s",
                  isfinite(price) ? "Cost is the price per hour divided by the tokens per hour."
                                  : "--price-per-hour adds the cost of a million tokens.");
    if (json_object_size(goal) > 0)
        audit_add_goal(v, goal, d);
}

/* -- The document ------------------------------------------------------------------------------------- */

static const struct {
    const char *heading;
    void (*write)(const struct audit_view *v, struct document *d);
} sections[] = {
    {"Executive summary", audit_summary},
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
    const char *name = json_string_value(audit_at(facts, "model/name"));
    struct document d = {.title = xasprintf("Performance audit of %s", name ? name : "a model")};
    _cleanup_(audit_view_done) struct audit_view v;

    audit_view_make(facts, &v);
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
        document_heading(&d, sections[i].heading);
        sections[i].write(&v, &d);
    }
    *ret = d;
}
