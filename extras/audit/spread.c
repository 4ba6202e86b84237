/* SPDX-License-Identifier: Apache-2.0 */
/* How requests of the main run differ from each other: speed, correlation with their lengths, outliers. */
#include "base/alloc.h"
#include "extras/audit/parts.h"
#include <inttypes.h>
#include <math.h>

/* With fewer requests a coefficient is not meaningful. */
#define CORRELATION_REQUESTS 20

/* -- Tokens a second ---------------------------------------------------------------------------------- */

void audit_throughput(const json_t *facts, struct document *d)
{
    static const struct {
        const char *key, *name;
    } rates[] = {{"input_tokens_per_s", "Input tokens/s"},
                 {"output_tokens_per_s", "Output tokens/s"},
                 {"total_tokens_per_s", "Input and output tokens/s"}};
    static const char *const headings[] = {"=", "run", "requests", "mean", "std", "min", "median", "max"},
                             *const statistics[] = {"mean", "std", "min", "p50", "max"};
    const json_t *run = audit_run(facts), *all = json_object_get(facts, "rates");
    struct table *t = document_table(d, headings, ARRAY_SIZE(headings));

    for (size_t i = 0; i < ARRAY_SIZE(rates); i++) {
        const json_t *one = json_object_get(all, rates[i].key);
        char *cells[ARRAY_SIZE(headings)] = {xstrdup(rates[i].name),
                                             audit_number_text("%.1f", run_throughput(run, rates[i].key)),
                                             audit_number_text("%.0f", json_get_number(one, "n", NAN))};
        for (size_t k = 0; k < ARRAY_SIZE(statistics); k++)
            cells[3 + k] = audit_number_text("%.1f", json_get_number(one, statistics[k], NAN));
        document_row(t, cells);
    }
    document_text(
        d,
        "Run: tokens of all successful requests by the duration of the run. The other columns are of single "
        "requests, each its tokens by its end-to-end latency, without cold ones.");
}

/* -- Correlation -------------------------------------------------------------------------------------- */

static const struct pair {
    const char *key, *x, *y;
} pairs[] = {
    {"input_tokens_ttft", "Input tokens", "Time to first token"},
    {"input_tokens_e2e", "Input tokens", "Whole request"},
    {"output_tokens_e2e", "Output tokens", "Whole request"},
};

static double coefficient(const json_t *run, const struct pair *pair, const char *suffix)
{
    _cleanup_(freep) char *key = xasprintf("%s%s", pair->key, suffix);

    return json_get_number(json_object_get(run, "correlation"), key, NAN);
}

static const char *reading(double n, double rank)
{
    if (!isfinite(rank))
        return "lengths do not vary";
    return n < CORRELATION_REQUESTS ? "too few requests to tell" : "";
}

void audit_correlation(const json_t *facts, struct document *d)
{
    static const char *const headings[] = {"=Of", "=With", "n", "Pearson r", "Spearman rho", "="};
    const json_t *run = audit_run(facts);
    struct table *t = document_table(d, headings, ARRAY_SIZE(headings));

    for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
        double n = coefficient(run, &pairs[i], "_n"), rank = coefficient(run, &pairs[i], "_rank");
        document_row(t, (char *const[]){
                            xstrdup(pairs[i].x),
                            xstrdup(pairs[i].y),
                            audit_number_text("%.0f", n),
                            audit_number_text("%.2f", coefficient(run, &pairs[i], "")),
                            audit_number_text("%.2f", rank),
                            xstrdup(reading(n, rank)),
                        });
    }
    document_text(d, "n is the number of requests, without cold ones. Pearson's r measures how well a line "
                     "fits, Spearman's rho how "
                     "surely more goes with longer. Neither shows a cause.");
}

/* -- Outliers ----------------------------------------------------------------------------------------- */

static const char *figure_title(const char *figure)
{
    static const struct {
        const char *figure, *title;
    } titles[] = {
        {"ttft_ms", "Time to first token"}, {"tpot_ms", "Per output token"}, {"e2e_ms", "Whole request"}};

    for (size_t i = 0; figure && i < ARRAY_SIZE(titles); i++)
        if (streq(figure, titles[i].figure))
            return titles[i].title;
    return figure ? figure : "";
}

void audit_outliers(const json_t *facts, struct document *d)
{
    static const char *const headings[] = {"Request", "=Figure", "ms", "median ms", "times", "=Reason"};
    const json_t *list = json_object_get(audit_run(facts), "outliers");
    size_t i;
    json_t *one;

    if (!json_is_array(list) || json_array_size(list) == 0) {
        document_text(d, "None of %" PRId64 " requests.", run_requests(audit_run(facts), "success"));
    } else {
        struct table *t = document_table(d, headings, ARRAY_SIZE(headings));
        json_array_foreach((json_t *)list, i, one) {
            double value = json_get_number(one, "value", NAN), median = json_get_number(one, "median", NAN);
            const char *reason = json_get_str(one, "reason");
            document_row(t, (char *const[]){
                                xasprintf("%" PRId64, json_get_int(one, "index", 0)),
                                xstrdup(figure_title(json_get_str(one, "figure"))),
                                audit_number_text("%.1f", value),
                                audit_number_text("%.1f", median),
                                audit_number_text("%.1f", value / median),
                                reason ? xstrdup(reason) : NULL,
                            });
        }
    }
    document_text(d, "An outlier is further above the median than 3.5 times the usual distance (median "
                     "absolute deviation), and "
                     "by a quarter of the median at least; the worst 20 are listed.");
}
