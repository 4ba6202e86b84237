/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/run.h"

#include "base/alloc.h"
#include "base/estimate.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/views/reasons.h"
#include <inttypes.h>
#include <math.h>

char *run_ref(char *buf, const json_t *object)
{
    const json_t *id = json_object_get(object, "run");
    const char *text = json_string_value(id);

    buf[0] = '\0';
    if (json_is_integer(id))
        snprintf(buf, RUN_REF_MAX, "r%" PRId64, (int64_t)json_integer_value(id));
    else if (text && strlen(text) < RUN_REF_MAX)
        strcpy(buf, text);
    return buf;
}

/* Benchmark runs share their final states with sessions; their other states differ. */
static int final_state(const json_t *run)
{
    int state = state_from_name(json_get_str(run, "state"));
    return state >= 0 && state_is_final((enum state)state) ? state : -1;
}

bool run_is_over(const json_t *run)
{
    return final_state(run) >= 0;
}

int run_exit_status(const json_t *run)
{
    int state = final_state(run);
    return state == STATE_COMPLETE ? EXIT_DONE : state == STATE_PARTIAL ? EXIT_PARTIAL : EXIT_FAILED;
}

enum colour run_colour(const json_t *run)
{
    static const enum colour colours[_STATE_MAX] = {
        [STATE_COMPLETE] = COLOUR_GOOD,
        [STATE_PARTIAL] = COLOUR_WARN,
        [STATE_FAILED] = COLOUR_BAD,
        [STATE_CANCELLED] = COLOUR_WARN,
    };
    int state = final_state(run);
    return state < 0 ? COLOUR_NONE : colours[state];
}

char *figure_text(char *buf, double value)
{
    double size = fabs(value);

    if (!isfinite(value) || size > 1e15)
        strcpy(buf, "-");
    else if (size >= 999.5)
        text_number(buf, llround(value));
    else
        snprintf(buf, 32,
                 size == 0      ? "0"
                 : size < 1     ? "%.3f"
                 : size < 9.995 ? "%.2f"
                 : size < 99.95 ? "%.1f"
                                : "%.0f",
                 value);
    return buf;
}

/* Appends a part of a list: ", " before all but the first. */
static void append_part(char **list, const char *format, ...) _printf_(2, 3);
static void append_part(char **list, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *part = xvasprintf(format, ap);
    va_end(ap);
    append_str(list, "%s%s", *list ? ", " : "", part);
}

char *run_load_text(const json_t *w)
{
    char number[32], from[32], to[32];
    _cleanup_(freep) char *text = NULL;
    size_t n_prompts = json_array_size(json_object_get(w, "prompts"));
    int64_t isl = json_get_int(w, "isl", 0), osl = json_get_int(w, "osl", 0),
            prompts = json_get_int(w, "n_prompts", (int64_t)n_prompts), repeat = json_get_int(w, "repeat", 1),
            requests = json_get_int(w, "requests", 0), concurrency = json_get_int(w, "concurrency", 0);
    double rate = figure_at(w, "rate"), rate_to = figure_at(w, "rate_to");
    const char *duration = json_get_str(w, "duration"), *arrival = json_get_str(w, "arrival");
    _cleanup_(freep) char *n_requests_text = text_count(requests, "request"),
                          *n_prompts_text = text_count(prompts, "prompt");

    if (isfinite(rate))
        append_part(&text, "%s%s%s requests/s%s%s", figure_text(from, rate), isfinite(rate_to) ? " to " : "",
                    isfinite(rate_to) ? figure_text(to, rate_to) : "", arrival ? " " : "",
                    arrival ? arrival : "");
    if (concurrency > 0)
        append_part(&text, "concurrency %s", text_number(number, concurrency));
    if (requests > 0)
        append_part(&text, "%s", n_requests_text);
    if (duration)
        append_part(&text, "for %s", duration);
    if (prompts > 0)
        append_part(&text, "%s%s%s", n_prompts_text, repeat > 1 ? " x " : "",
                    repeat > 1 ? text_number(number, repeat) : "");
    if (isl > 0)
        append_part(&text, "%s tokens in", text_number(number, isl));
    if (osl > 0)
        append_part(&text, "%s out", text_number(number, osl));
    return text ? text_clean(text, false) : xstrdup("");
}

char *run_title(const json_t *run)
{
    char ref[RUN_REF_MAX];
    const char *model = json_get_str(run, "model");
    size_t n = json_array_size(json_object_get(run, "targets"));
    _cleanup_(freep) char *load = run_load_text(json_object_get(run, "workload"));
    _cleanup_(freep) char *targets = n > 0 ? text_count((int64_t)n, "target") : NULL;
    _cleanup_(freep) char *text =
        xasprintf("Run %s%s%s%s%s%s%s", run_ref(ref, run), targets ? " on " : "", targets ? targets : "",
                  model ? ", " : "", model ? model : "", *load ? ": " : "", load);

    return text_clean(text, false);
}

static void append_percentiles(char **text, const char *name, const json_t *live, const char *key)
{
    char p50[32], p99[32];
    _cleanup_(freep) char *low = xasprintf("%s_p50_ms", key), *high = xasprintf("%s_p99_ms", key);
    double median = figure_at(live, low), late = figure_at(live, high);

    if (isfinite(median))
        append_str(text, " · %s p50 %s%s%s ms", name, figure_text(p50, median), isfinite(late) ? " p99 " : "",
                   isfinite(late) ? figure_text(p99, late) : "");
}

char *run_progress(const json_t *run, const json_t *live)
{
    char number[32];
    const char *state = json_get_str(run, "state");
    _cleanup_(freep) char *text = xstrdup(state ? state : "?");
    int64_t planned = json_get_int(live, "planned", 0), errors = json_get_int(live, "errors", 0);

    if (live) {
        append_str(&text, " · %s", text_number(number, json_get_int(live, "sent", 0)));
        if (planned > 0)
            append_str(&text, " of %s", text_number(number, planned));
        append_str(&text, " sent · %s in flight", text_number(number, json_get_int(live, "in_flight", 0)));
        append_str(&text, " · %s done", text_number(number, json_get_int(live, "done", 0)));
        if (errors > 0)
            append_str(&text, " · %s failed", text_number(number, errors));
        append_str(&text, " · %s tokens/s", figure_text(number, figure_at(live, "output_tokens_per_s")));
        append_percentiles(&text, "TTFT", live, "ttft");
        append_percentiles(&text, "E2E", live, "e2e");
    }
    return text_clean(text, false);
}

void run_add_outcome(struct document *d, const json_t *run)
{
    char ref[RUN_REF_MAX], number[32], all[32], duration[UNIT_TEXT_MAX];
    const json_t *requests = json_object_get(run, "requests");
    int64_t success = json_get_int(requests, "success", 0),
            incomplete = json_get_int(requests, "incomplete", 0), error = json_get_int(requests, "error", 0);
    int64_t begin = json_get_int(run, "started_at", 0), end = json_get_int(run, "ended_at", 0);
    _cleanup_(freep) char *subject = xasprintf("Run %s", run_ref(ref, run)), *text = xstrdup("");
    _cleanup_(reasons_freep) struct reasons *reasons = reasons_new();

    if (success + incomplete + error > 0) {
        append_str(&text, ": %s of %s requests succeeded", text_number(number, success),
                   text_number(all, success + incomplete + error));
        if (incomplete > 0)
            append_str(&text, ", %s did not end", text_number(number, incomplete));
        if (error > 0)
            append_str(&text, ", %s failed", text_number(number, error));
    }
    if (begin > 0 && end > begin)
        append_str(&text, ", in %s", format_duration(duration, end - begin));
    document_state(d, subject, json_get_str(run, "state"), run_colour(run), text);
    reasons_add(reasons, NULL, json_get_str(run, "reason"), json_get_str(run, "remedy"));
    reasons_add_to(d, reasons, 2);
}
