/* SPDX-License-Identifier: Apache-2.0 */
#include "client/audit/audit.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include <inttypes.h>
#include <math.h>

#define HOURS_A_MILLION(tokens_per_s) (1e6 / (tokens_per_s) / 3600)
#define PROMPT_BYTES                  60 /* of its text, in a table */

static char *number_text(const char *format, double value)
{
    return isfinite(value) ? xasprintf(format, value) : NULL;
}

static const json_t *main_run(const json_t *facts)
{
    return json_object_get(facts, "run");
}

/* A line of two columns; takes the value. */
static void put_fact(struct table_block *t, const char *name, char *take_value)
{
    if (take_value)
        table_row(t, (char *const[]){xstrdup(name), take_value});
}

static struct table_block *fact_table(struct document *d)
{
    return document_table(d, (const char *const[]){"=", "="}, 2);
}

static void put_text(struct table_block *t, const char *name, const json_t *object, const char *key)
{
    const char *text = json_get_str(object, key);
    put_fact(t, name, text ? xstrdup(text) : NULL);
}

static void put_int(struct table_block *t, const char *name, const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    put_fact(t, name, json_is_integer(v) ? xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(v)) : NULL);
}

static void put_size(struct table_block *t, const char *name, const json_t *object, const char *key)
{
    char text[UNIT_TEXT_MAX];
    int64_t bytes = json_get_int(object, key, -1);
    put_fact(t, name, bytes >= 0 ? xstrdup(format_size(text, bytes)) : NULL);
}

/* -- Sections ----------------------------------------------------------------------------------------- */

static void executive_summary(const json_t *facts, struct document *d)
{
    const json_t *run = main_run(facts), *model = json_object_get(facts, "model");
    const char *name = json_get_str(model, "name");
    _cleanup_(curve_done) struct curve c = {0};

    document_text(d, "%s answered %" PRId64 " of %" PRId64 " requests.", name ? name : "The model",
                  run_requests(run, "success"), run_requests_all(run));
    if (isfinite(run_figure(run, "ttft_ms", "p50")))
        document_item(d, "First token after %.1f ms (median), %.1f ms (p99).",
                      run_figure(run, "ttft_ms", "p50"), run_figure(run, "ttft_ms", "p99"));
    if (isfinite(run_figure(run, "e2e_ms", "p50")))
        document_item(d, "Whole answer after %.1f ms (median), %.1f ms (p99).",
                      run_figure(run, "e2e_ms", "p50"), run_figure(run, "e2e_ms", "p99"));
    if (isfinite(run_throughput(run, "output_tokens_per_s")))
        document_item(d, "%.1f tokens/s of output, %.2f requests/s.",
                      run_throughput(run, "output_tokens_per_s"), run_throughput(run, "requests_per_s"));
    curve_read(facts, &c);
    ssize_t knee = curve_knee(&c);
    if (knee >= 0)
        document_item(d, "Serves best up to %.0f requests at a time: %.1f tokens/s there.",
                      c.concurrency[knee], c.tokens_per_s[knee]);
}

static void about_model(const json_t *facts, struct document *d)
{
    const json_t *model = json_object_get(facts, "model");
    struct table_block *t = fact_table(d);

    put_text(t, "Model", model, "name");
    put_text(t, "Engine", model, "engine");
    put_text(t, "Version", model, "version");
    put_text(t, "Asked at", model, "url");
    put_int(t, "Workers", model, "workers");
    put_int(t, "Longest context", model, "max_model_len");
    put_size(t, "Model file", model, "file_bytes");
}

static void about_hardware(const json_t *facts, struct document *d)
{
    const json_t *h = json_object_get(facts, "hardware"), *gpus = json_object_get(h, "gpus");
    struct table_block *t;
    size_t i;
    json_t *gpu;

    if (!json_get_bool(h, "of_worker", false))
        document_text(d, "Of the machine that sent the requests; the worker's is another one.");
    t = fact_table(d);
    put_text(t, "CPU", h, "cpu");
    put_int(t, "Processors", h, "processors");
    put_size(t, "Memory", h, "memory_bytes");
    put_text(t, "Kernel", h, "kernel");
    put_text(t, "NVIDIA driver", h, "driver");
    json_array_foreach(gpus, i, gpu)
    {
        char size[UNIT_TEXT_MAX];
        const char *name = json_get_str(gpu, "name");
        put_fact(t, "GPU",
                 xasprintf("%s, %s", name ? name : "unknown",
                           format_size(size, json_get_int(gpu, "memory_total_bytes", 0))));
    }
    if (json_array_size(gpus) == 0)
        put_fact(t, "GPU",
                 xasprintf("not available%s%s", json_get_str(h, "gpu_note") ? ": " : "",
                           json_get_str(h, "gpu_note") ? json_get_str(h, "gpu_note") : ""));
}

static void configuration(const json_t *facts, struct document *d)
{
    static const struct {
        const char *key, *name;
    } keys[] = {
        {"api", "API"},           {"isl", "Input tokens"},    {"osl", "Output tokens"},
        {"requests", "Requests"}, {"duration", "Duration"},   {"concurrency", "At a time"},
        {"arrival", "Arrival"},   {"rate", "Requests/s"},     {"repeat", "Each prompt"},
        {"warmup", "Warm-up"},    {"seed", "Seed of chance"}, {"stream", "Streamed"},
    };
    const json_t *w = json_object_get(main_run(facts), "workload");
    struct table_block *t = fact_table(d);
    char when[UNIT_TEXT_MAX];

    put_fact(t, "Made", xstrdup(format_time(when, json_get_int(facts, "made_at", 0))));
    put_fact(t, "Run", xasprintf("r%" PRId64, json_get_int(main_run(facts), "run", 0)));
    put_fact(t, "Prompts", xasprintf("%zu", json_array_size(json_object_get(facts, "prompts"))));
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const json_t *v = json_object_get(w, keys[i].key);
        if (!v || json_is_null(v))
            continue;
        put_fact(t, keys[i].name,
                 json_is_string(v) ? xstrdup(json_string_value(v)) : json_dumps(v, JSON_ENCODE_ANY));
    }
}

static char *mean_text(const char *format, const json_t *prompt, const char *metric)
{
    return number_text(format, json_get_number(json_object_get(prompt, metric), "mean", NAN));
}

static char *grown_text(const json_t *prompt, const char *memory)
{
    char text[UNIT_TEXT_MAX];
    const json_t *v = json_object_get(json_object_get(prompt, memory), "difference");

    return json_is_integer(v) && json_integer_value(v) >= 0
               ? xstrdup(format_size(text, json_integer_value(v)))
               : NULL;
}

static void per_prompt(const json_t *facts, struct document *d)
{
    static const char *const headings[] = {"#",          "=Prompt",  "Requests",    "Tokens in",
                                           "Tokens out", "TTFT ms",  "TPOT ms",     "E2E ms",
                                           "Tokens/s",   "Memory +", "GPU memory +"};
    struct table_block *t = document_table(d, headings, ARRAY_SIZE(headings));
    size_t i;
    json_t *p;

    json_array_foreach(json_object_get(facts, "prompts"), i, p)
    {
        const char *text = json_get_str(p, "text");
        double seconds = json_get_number(json_object_get(p, "e2e_ms"), "mean", NAN) / 1e3;
        table_row(t,
                  (char *const[]){
                      xasprintf("%" PRId64, json_get_int(p, "prompt", 0) + 1),
                      text ? xasprintf("%.*s%s", PROMPT_BYTES, text, strlen(text) > PROMPT_BYTES ? "..." : "")
                           : xstrdup("synthetic"),
                      xasprintf("%" PRId64, json_get_int(p, "requests", 0)),
                      number_text("%.0f", json_get_number(p, "input_tokens", NAN)),
                      number_text("%.0f", json_get_number(p, "output_tokens", NAN)),
                      mean_text("%.1f", p, "ttft_ms"),
                      mean_text("%.2f", p, "tpot_ms"),
                      mean_text("%.1f", p, "e2e_ms"),
                      number_text("%.1f", json_get_number(p, "output_tokens", NAN) / seconds),
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

/* A row for each metric, a column for each statistic. */
static void put_statistics(const json_t *run, const char *const *statistics, const char *const *headings,
                           size_t n, struct document *d)
{
    struct table_block *t = document_table(d, headings, n + 1);

    for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
        char *cells[TABLE_COLUMNS_MAX] = {xstrdup(metrics[i].name)};
        for (size_t k = 0; k < n; k++)
            cells[k + 1] = number_text("%.2f", run_figure(run, metrics[i].metric, statistics[k]));
        table_row(t, cells);
    }
}

static void statistics(const json_t *facts, struct document *d)
{
    static const char *const names[] = {"mean", "std", "min", "p50", "max"}, *const headings[] = {
                                                                                 "=ms", "mean",   "std",
                                                                                 "min", "median", "max"};
    put_statistics(main_run(facts), names, headings, ARRAY_SIZE(names), d);
}

static void percentiles(const json_t *facts, struct document *d)
{
    static const char *const names[] = {"p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99.9"},
                             *const headings[] = {"=ms", "p1",  "p5",  "p10", "p25",  "p50",
                                                  "p75", "p90", "p95", "p99", "p99.9"};
    put_statistics(main_run(facts), names, headings, ARRAY_SIZE(names), d);
}

static void cold_and_warm(const json_t *facts, struct document *d)
{
    static const char *const headings[] = {"=ms", "cold", "warm (median)", "times"};
    const json_t *run = main_run(facts), *cold = json_object_get(run, "cold");
    struct table_block *t = document_table(d, headings, ARRAY_SIZE(headings));

    for (size_t i = 0; i < ARRAY_SIZE(metrics) - 1; i++) {
        double first = json_get_number(json_object_get(cold, metrics[i].metric), "mean", NAN),
               warm = run_figure(run, metrics[i].metric, "p50");
        table_row(t, (char *const[]){xstrdup(metrics[i].name), number_text("%.2f", first),
                                     number_text("%.2f", warm), number_text("%.1f", first / warm)});
    }
}

static void sweep(const json_t *facts, struct document *d)
{
    static const char *const headings[] = {"At a time",   "Requests/s", "Tokens/s",   "Tokens/s a user",
                                           "TTFT p50 ms", "E2E p50 ms", "E2E p99 ms", "="};
    _cleanup_(curve_done) struct curve c = {0};

    curve_read(facts, &c);
    if (c.n == 0) {
        document_text(d, "Only one concurrency was measured (--sweep concurrency=1,2,4,8 measures more).");
        return;
    }
    ssize_t knee = curve_knee(&c);
    struct table_block *t = document_table(d, headings, ARRAY_SIZE(headings));
    for (size_t i = 0; i < c.n; i++)
        table_row(t, (char *const[]){
                         xasprintf("%.0f", c.concurrency[i]),
                         number_text("%.2f", run_throughput(c.runs[i], "requests_per_s")),
                         number_text("%.1f", c.tokens_per_s[i]),
                         number_text("%.1f", run_throughput(c.runs[i], "output_tokens_per_s_per_user")),
                         number_text("%.1f", run_figure(c.runs[i], "ttft_ms", "p50")),
                         number_text("%.1f", c.e2e_p50_ms[i]),
                         number_text("%.1f", run_figure(c.runs[i], "e2e_ms", "p99")),
                         xstrdup((ssize_t)i == knee ? "knee" : ""),
                     });
    struct plot_block *throughput = document_plot(d, "Throughput", "requests at a time", "tokens/s");
    for (size_t i = 0; i < c.n; i++)
        plot_point(throughput, c.concurrency[i], c.tokens_per_s[i]);
    throughput->mark_x = knee >= 0 ? c.concurrency[knee] : NAN;
    struct plot_block *latency =
        document_plot(d, "Latency", "requests at a time", "whole request, median ms");
    for (size_t i = 0; i < c.n; i++)
        if (isfinite(c.e2e_p50_ms[i]))
            plot_point(latency, c.concurrency[i], c.e2e_p50_ms[i]);
    document_text(
        d, knee >= 0
               ? "The knee is where throughput over latency is greatest: beyond it more load costs more "
                 "latency than it gives throughput."
               : "Throughput has no knee in this range.");
}

/* The largest load of which every named p99 is within its goal; -1 where none is. */
static ssize_t load_within(const struct curve *c, const json_t *goal)
{
    ssize_t best = -1;
    const char *metric;
    json_t *limit;

    for (size_t i = 0; i < c->n; i++) {
        bool holds = true;
        json_object_foreach((json_t *)goal, metric, limit) holds =
            holds && run_figure(c->runs[i], metric, "p99") <= json_number_value(limit);
        if (holds && (best < 0 || c->concurrency[i] > c->concurrency[best]))
            best = (ssize_t)i;
    }
    return best;
}

static void put_goal(const json_t *goal, const struct curve *c, struct document *d)
{
    ssize_t at = load_within(c, goal);
    _cleanup_(freep) char *text = xstrdup("");
    const char *metric;
    json_t *limit;

    json_object_foreach((json_t *)goal, metric, limit)
    {
        char *more = xasprintf("%s%s%s <= %g", text, *text ? ", " : "", metric, json_number_value(limit));
        free(text);
        text = more;
    }
    if (c->n == 0)
        document_text(d, "Goal %s (p99): without a sweep it cannot be said which load holds it.", text);
    else if (at < 0)
        document_text(d, "Goal %s (p99): no load that was measured holds it.", text);
    else
        document_text(d, "Goal %s (p99): held up to %.0f requests at a time, %.2f requests/s, %.1f tokens/s.",
                      text, c->concurrency[at], run_throughput(c->runs[at], "requests_per_s"),
                      c->tokens_per_s[at]);
}

static void sizing(const json_t *facts, struct document *d)
{
    static const char *const headings[] = {"At a time", "Tokens/s", "Tokens a day, millions",
                                           "Cost of a million tokens"};
    const json_t *goal = json_object_get(facts, "goal");
    double price = json_get_number(facts, "price_per_hour", NAN),
           own = run_throughput(main_run(facts), "output_tokens_per_s");
    _cleanup_(curve_done) struct curve c = {0};

    curve_read(facts, &c);
    struct table_block *t = document_table(d, headings, ARRAY_SIZE(headings));
    for (size_t i = 0; i < MAX(c.n, (size_t)1); i++) {
        double tokens = c.n > 0 ? c.tokens_per_s[i] : own;
        table_row(t, (char *const[]){
                         c.n > 0 ? xasprintf("%.0f", c.concurrency[i]) : xstrdup("as configured"),
                         number_text("%.1f", tokens),
                         number_text("%.2f", tokens * 86400 / 1e6),
                         number_text("%.3f", price * HOURS_A_MILLION(tokens)),
                     });
    }
    document_text(d, "Tokens are tokens of output. %s",
                  isfinite(price) ? "Cost is the price of an hour over the tokens of an hour."
                                  : "--price-per-hour adds what a million of them costs.");
    if (json_object_size(goal) > 0)
        put_goal(goal, &c, d);
}

static void put_series(struct table_block *t, const char *what, const json_t *series)
{
    static const char *const keys[] = {"baseline", "peak", "difference"};
    char *cells[4] = {xstrdup(what)};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        char text[UNIT_TEXT_MAX];
        const json_t *v = json_object_get(series, keys[i]);
        cells[i + 1] = json_is_integer(v) ? xstrdup(format_size(text, json_integer_value(v))) : NULL;
    }
    table_row(t, cells);
}

static void memory(const json_t *facts, struct document *d)
{
    static const char *const headings[] = {"=", "before", "peak", "difference"};
    const json_t *m = json_object_get(main_run(facts), "memory");
    size_t i;
    json_t *one;

    if (!json_is_object(m)) {
        document_text(d, "Not available: the worker runs on another machine.");
        return;
    }
    struct table_block *t = document_table(d, headings, ARRAY_SIZE(headings));
    json_array_foreach(json_object_get(m, "workers"), i, one)
    {
        _cleanup_(freep) char *rss = xasprintf("%s, resident", json_get_str(one, "url")),
                              *pss = xasprintf("%s, its own share", json_get_str(one, "url"));
        put_series(t, rss, json_object_get(one, "rss_bytes"));
        if (json_is_object(json_object_get(one, "pss_bytes")))
            put_series(t, pss, json_object_get(one, "pss_bytes"));
    }
    json_array_foreach(json_object_get(m, "gpus"), i, one)
    {
        _cleanup_(freep) char *name =
            xasprintf("GPU %" PRId64 " %s", json_get_int(one, "index", 0), json_get_str(one, "name"));
        put_series(t, name, json_object_get(one, "memory_bytes"));
    }
}

static const struct {
    const char *heading;
    void (*write)(const json_t *facts, struct document *d);
} sections[] = {
    {"Executive summary", executive_summary},
    {"Key findings and recommendations", audit_findings},
    {"Model", about_model},
    {"Hardware", about_hardware},
    {"Test configuration", configuration},
    {"Metrics of each prompt", per_prompt},
    {"Summary statistics", statistics},
    {"Percentiles", percentiles},
    {"Cold and warm", cold_and_warm},
    {"Concurrency", sweep},
    {"Sizing", sizing},
    {"Memory", memory},
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
