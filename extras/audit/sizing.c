/* SPDX-License-Identifier: Apache-2.0 */
/* The capacity of the served model: the sweep, its knee, the largest load within a goal, and the cost of
 * tokens. */
#include "base/alloc.h"
#include "base/units.h"
#include "extras/audit/parts.h"
#include <inttypes.h>
#include <math.h>

#define HOURS_A_MILLION(tokens_per_s) (1e6 / (tokens_per_s) / 3600)

/* The largest value of workers or GPUs; NULL without values. */
static char *peak_text(const json_t *run, const char *of, const char *series)
{
    char text[UNIT_TEXT_MAX];
    int64_t most = -1;
    size_t i;
    json_t *one;

    json_array_foreach(json_object_get(json_object_get(run, "memory"), of), i, one)
        most = MAX(most, json_get_int(json_object_get(one, series), "peak", -1));
    return most >= 0 ? xstrdup(format_size(text, most)) : NULL;
}

void audit_sweep(const json_t *facts, struct document *d)
{
    static const char *const headings[] = {"At a time",
                                           "Requests/s",
                                           "Tokens/s in",
                                           "Tokens/s out",
                                           "Tokens/s out a user",
                                           "TTFT p50 ms",
                                           "E2E p50 ms",
                                           "E2E p99 ms",
                                           "Memory max",
                                           "GPU memory max",
                                           "="};
    _cleanup_(curve_done) struct curve c = {0};

    curve_read(facts, &c);
    if (c.n == 0) {
        document_text(d, "Only one concurrency was measured (--sweep concurrency=1,2,4,8 measures more).");
        return;
    }
    ssize_t knee = curve_knee(&c);
    struct table *t = document_table(d, headings, ARRAY_SIZE(headings));
    for (size_t i = 0; i < c.n; i++)
        document_row(t,
                     (char *const[]){
                         xasprintf("%.0f", c.concurrency[i]),
                         audit_number_text("%.2f", run_throughput(c.runs[i], "requests_per_s")),
                         audit_number_text("%.1f", run_throughput(c.runs[i], "input_tokens_per_s")),
                         audit_number_text("%.1f", c.tokens_per_s[i]),
                         audit_number_text("%.1f", run_throughput(c.runs[i], "output_tokens_per_s_per_user")),
                         audit_number_text("%.1f", run_figure(c.runs[i], "ttft_ms", "p50")),
                         audit_number_text("%.1f", c.e2e_p50_ms[i]),
                         audit_number_text("%.1f", run_figure(c.runs[i], "e2e_ms", "p99")),
                         peak_text(c.runs[i], "workers", "rss_bytes"),
                         peak_text(c.runs[i], "gpus", "memory_bytes"),
                         xstrdup((ssize_t)i == knee ? "knee" : ""),
                     });
    document_text(d,
                  "Each row is a run of its own with that number of requests in flight; the engine forms its "
                  "batches from them.");
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

/* The largest load whose every named p99 is within its goal; -1 if there is none. */
static ssize_t load_within(const struct curve *c, const json_t *goal)
{
    ssize_t best = -1;
    const char *metric;
    json_t *limit;

    for (size_t i = 0; i < c->n; i++) {
        bool holds = true;
        json_object_foreach((json_t *)goal, metric, limit)
            holds = holds && run_figure(c->runs[i], metric, "p99") <= json_number_value(limit);
        if (holds && (best < 0 || c->concurrency[i] > c->concurrency[best]))
            best = (ssize_t)i;
    }
    return best;
}

/* Returns whether a run has too few requests for a p99 that the goal names. */
static bool is_undecided(const struct curve *c, const json_t *goal)
{
    const char *metric;
    json_t *limit;

    for (size_t i = 0; i < c->n; i++) {
        json_object_foreach((json_t *)goal, metric, limit) {
            if (!isfinite(run_figure(c->runs[i], metric, "p99")))
                return true;
        }
    }
    return false;
}

static void put_goal(const json_t *goal, const struct curve *c, struct document *d)
{
    ssize_t at = load_within(c, goal);
    _cleanup_(freep) char *text = xstrdup("");
    const char *metric;
    json_t *limit;

    json_object_foreach((json_t *)goal, metric, limit) {
        char *more = xasprintf("%s%s%s <= %g", text, *text ? ", " : "", metric, json_number_value(limit));
        free(text);
        text = more;
    }
    if (c->n == 0)
        document_text(d, "Goal %s (p99): without a sweep it cannot be said which load holds it.", text);
    else if (at < 0 && is_undecided(c, goal))
        document_text(d, "Goal %s (p99): undecided, a p99 needs at least 100 requests in each run.", text);
    else if (at < 0)
        document_text(d, "Goal %s (p99): no load that was measured holds it.", text);
    else
        document_text(d, "Goal %s (p99): held up to %.0f requests at a time, %.2f requests/s, %.1f tokens/s.",
                      text, c->concurrency[at], run_throughput(c->runs[at], "requests_per_s"),
                      c->tokens_per_s[at]);
}

static char *own_places(const json_t *run)
{
    int64_t n = run_places(run);
    return n > 0 ? xasprintf("%" PRId64, n) : xstrdup("as configured");
}

void audit_sizing(const json_t *facts, struct document *d)
{
    static const char *const headings[] = {"At a time", "Tokens/s", "Tokens a day, millions",
                                           "Cost of a million tokens"};
    const json_t *goal = json_object_get(facts, "goal");
    double price = json_get_number(facts, "price_per_hour", NAN),
           own = run_throughput(audit_run(facts), "output_tokens_per_s");
    _cleanup_(curve_done) struct curve c = {0};

    curve_read(facts, &c);
    struct table *t = document_table(d, headings, ARRAY_SIZE(headings));
    for (size_t i = 0; i < MAX(c.n, (size_t)1); i++) {
        double tokens = c.n > 0 ? c.tokens_per_s[i] : own;
        document_row(t, (char *const[]){
                            c.n > 0 ? xasprintf("%.0f", c.concurrency[i]) : own_places(audit_run(facts)),
                            audit_number_text("%.1f", tokens),
                            audit_number_text("%.2f", tokens * 86400 / 1e6),
                            audit_number_text("%.3f", price * HOURS_A_MILLION(tokens)),
                        });
    }
    document_text(d, "Tokens are tokens of output. %s",
                  isfinite(price) ? "Cost is the price of an hour over the tokens of an hour."
                                  : "--price-per-hour adds what a million of them costs.");
    if (json_object_size(goal) > 0)
        put_goal(goal, &c, d);
}
