/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/run_servers.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/screen.h"
#include "client/views/run.h"
#include "client/views/run_figures.h"
#include <math.h>

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

void run_print_memory(const json_t *memory, const struct screen *s)
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

/* What the workers' own histograms say; their buckets are coarse. */
void run_print_server(const json_t *server, const struct screen *s)
{
    size_t i;
    json_t *worker;

    json_array_foreach(json_object_get(server, "workers"), i, worker) {
        _cleanup_(freep) char *text = worker_text(worker);
        field_print(s, i == 0 ? "Server says:" : "", text);
    }
}
