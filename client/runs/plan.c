/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/plan.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/views/run.h"
#include <errno.h>
#include <math.h>

#define SWEEP_VALUE_MAX 1e7
/* A range with a smaller ratio of its ends is printed as one figure. */
#define SAME_RATIO 1.15

static const struct {
    const char *name;
    bool is_integer, is_load;
} sweep_members[] = {
    {"concurrency", true, true}, {"rate", false, true}, {"isl", true, false}, {"osl", true, false}};

static int sweep_refuse(const char *text, const char *why, struct problem *p)
{
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--sweep: '%s' %s", text, why);
    problem_remedy(p, "--sweep concurrency=1,2,4,8; also of rate, isl and osl");
    return -EINVAL;
}

static int sweep_add_value(struct sweep *s, const char *word, struct problem *p)
{
    char *end;
    double value = strtod(word, &end);

    if (strspn(word, "0123456789.") != strlen(word) || *end || value <= 0 || value > SWEEP_VALUE_MAX)
        return sweep_refuse(word, "is not a number above 0", p);
    if (s->is_integer && value != floor(value))
        return sweep_refuse(word, "is not a whole number", p);
    if (s->n == SWEEP_MAX)
        return sweep_refuse(word, "is one value too many", p);
    for (size_t i = 0; i < s->n; i++)
        if (s->values[i] == value)
            return sweep_refuse(word, "is given twice", p);
    s->values[s->n++] = value;
    return 0;
}

int sweep_parse(const char *text, struct sweep *ret, struct problem *p)
{
    struct sweep s = {0};
    size_t n = strcspn(text, "=");
    const char *rest = text + n + (text[n] == '='), *start;

    for (size_t i = 0; i < ARRAY_SIZE(sweep_members); i++)
        if (strlen(sweep_members[i].name) == n && strncmp(sweep_members[i].name, text, n) == 0)
            s = (struct sweep){.member = sweep_members[i].name,
                               .is_integer = sweep_members[i].is_integer,
                               .is_load = sweep_members[i].is_load};
    if (!s.member)
        return sweep_refuse(text, "does not begin with concurrency=, rate=, isl= or osl=", p);
    for (size_t size; (size = words_next(&rest, &start)) > 0;) {
        _cleanup_(freep) char *word = xstrndup(start, size);
        int r = sweep_add_value(&s, word, p);
        if (r < 0)
            return r;
    }
    if (s.n == 0)
        return sweep_refuse(text, "has no values", p);
    *ret = s;
    return 0;
}

size_t sweep_knee(const struct sweep_point *points, size_t n)
{
    size_t best = SWEEP_NO_KNEE, highest = SWEEP_NO_KNEE, n_measured = 0;
    double most = 0;

    for (size_t i = 0; i < n; i++) {
        if (points[i].throughput <= 0 || points[i].latency <= 0)
            continue;
        double power = points[i].throughput / points[i].latency;
        n_measured++;
        if (highest == SWEEP_NO_KNEE || points[i].load > points[highest].load)
            highest = i;
        if (power > most) {
            most = power;
            best = i;
        }
    }
    return n_measured < 3 || best == highest ? SWEEP_NO_KNEE : best;
}

static const struct time_range unknown = {NAN, NAN};

/* -- Workloads ----------------------------------------------------------------------------------------- */

static struct planned_run planned_run_of(const json_t *w)
{
    double rate = json_get_number(w, "rate", 0), rate_to = json_get_number(w, "rate_to", rate),
           prompts = json_get_number(w, "n_prompts", (double)json_array_size(json_object_get(w, "prompts")));
    const char *duration = json_get_str(w, "duration");
    int64_t duration_ns = 0;
    struct planned_run run = {
        .load = run_load_text(w),
        .concurrency = json_get_number(w, "concurrency", rate > 0 ? 0 : 1),
        .rate = (rate + rate_to) / 2,
        .requests = json_get_number(w, "requests", prompts * json_get_number(w, "repeat", 1)),
        .duration_s =
            duration && parse_duration(duration, &duration_ns) == 0 ? (double)duration_ns / NS_PER_S : 0,
        .tokens = json_get_number(w, "isl", 0) + json_get_number(w, "osl", 0),
    };

    /* A duration is an end as well. */
    if (run.duration_s > 0 && !json_object_get(w, "requests"))
        run.requests = 0;
    return run;
}

void run_plan_add(struct run_plan *p, const json_t *workload)
{
    VEC_GROW(p->runs, p->n, p->cap);
    p->runs[p->n++] = planned_run_of(workload);
}

/* -- Measurements -------------------------------------------------------------------------------------- */

static void planned_run_take(struct planned_run *r, const json_t *run)
{
    const json_t *requests = json_object_get(run, "requests");
    int64_t from = json_get_int(run, "requested_at", json_get_int(run, "started_at", 0)),
            to = json_get_int(run, "ended_at", 0);
    double sent = json_get_number(requests, "success", 0) + json_get_number(requests, "incomplete", 0) +
                  json_get_number(requests, "error", 0);

    if (to <= from || sent <= 0)
        return;
    r->requests = sent;
    r->took_s = (double)(to - from) / NS_PER_S;
}

void run_plan_measured(struct run_plan *p, size_t i, const json_t *run)
{
    planned_run_take(&p->runs[i], run);
}

static bool has_same_member(const json_t *a, const json_t *b, const char *key)
{
    return json_get_str(a, key) && streq(json_get_str(a, key), json_get_str(b, key));
}

/* Through the same router or fleet, or to the same first worker. */
static bool endpoint_is_same(const json_t *run, const json_t *request)
{
    const json_t *target = json_array_get(json_object_get(run, "targets"), 0);
    const char *worker = json_string_value(json_array_get(json_object_get(request, "workers"), 0)),
               *url = json_is_string(target) ? json_string_value(target) : json_get_str(target, "url");

    if (json_object_get(request, "router") || json_object_get(request, "fleet"))
        return has_same_member(run, request, "router") || has_same_member(run, request, "fleet");
    return worker && streq(worker, url);
}

void run_plan_look_back(struct run_plan *p, const json_t *runs, const json_t *request)
{
    size_t i;
    json_t *run;

    json_array_foreach((json_t *)runs, i, run) {
        struct planned_run earlier = planned_run_of(json_object_get(run, "workload"));
        const char *state = json_get_str(run, "state");
        char ref[RUN_REF_MAX];
        planned_run_take(&earlier, run);
        bool fits = state && streq(state, "complete") && earlier.took_s > 0 && earlier.rate == 0 &&
                    earlier.concurrency > 0 && endpoint_is_same(run, request) && *run_ref(ref, run);
        if (!fits) {
            free(earlier.load);
            continue;
        }
        earlier.ref = xstrdup(ref);
        VEC_GROW(p->earlier, p->n_earlier, p->earlier_cap);
        p->earlier[p->n_earlier++] = earlier;
    }
}

/* -- Estimates ---------------------------------------------------------------------------------------- */

static struct time_range estimate_scaled(const struct planned_run *r, const struct planned_run *by)
{
    double each = by->took_s / by->requests, more = r->concurrency / by->concurrency,
           longer = r->tokens > 0 && by->tokens > 0 ? r->tokens / by->tokens : 1;
    double flat = r->requests * each, proportional = flat / more;

    return (struct time_range){MIN(flat, proportional) * MIN(1.0, longer),
                               MAX(flat, proportional) * MAX(1.0, longer)};
}

/* Logarithmic distance of two loads. */
static double load_distance(const struct planned_run *a, const struct planned_run *b)
{
    double tokens = a->tokens > 0 && b->tokens > 0 ? fabs(log(a->tokens / b->tokens)) : 0;

    return fabs(log(a->concurrency / b->concurrency)) + tokens;
}

/* The first measured run with the smallest distance. */
static const struct planned_run *nearest_run(const struct planned_run *runs, size_t n,
                                             const struct planned_run *r)
{
    const struct planned_run *nearest = NULL;

    for (size_t i = 0; i < n; i++)
        if (runs[i].took_s > 0 && runs[i].rate == 0 && runs[i].concurrency > 0 &&
            (!nearest || load_distance(r, &runs[i]) < load_distance(r, nearest)))
            nearest = &runs[i];
    return nearest;
}

/* Runs of the plan have the same prompts and machine, so they are a better basis than earlier runs. */
static const struct planned_run *nearest_measured(const struct run_plan *p, const struct planned_run *r)
{
    const struct planned_run *of_plan = nearest_run(p->runs, p->n, r);

    return of_plan ? of_plan : nearest_run(p->earlier, p->n_earlier, r);
}

/* The earlier run that an estimate is based on; NULL: none. */
static const char *based_on(const struct run_plan *p, size_t i)
{
    const struct planned_run *r = &p->runs[i];
    bool is_scheduled = r->took_s > 0 || r->duration_s > 0 || r->rate > 0 || r->requests <= 0;
    const struct planned_run *by = is_scheduled ? NULL : nearest_measured(p, r);

    return by ? by->ref : NULL;
}

struct time_range run_plan_estimate(const struct run_plan *p, size_t i)
{
    const struct planned_run *r = &p->runs[i];

    if (r->took_s > 0)
        return (struct time_range){r->took_s, r->took_s};
    double scheduled = r->rate > 0 && r->requests > 0 ? r->requests / r->rate : 0;
    if (r->duration_s > 0)
        return (struct time_range){scheduled > 0 ? MIN(scheduled, r->duration_s) : r->duration_s,
                                   r->duration_s};
    if (scheduled > 0)
        return (struct time_range){scheduled, scheduled};
    if (r->requests <= 0 || r->concurrency <= 0)
        return unknown;
    const struct planned_run *by = nearest_measured(p, r);
    return by ? estimate_scaled(r, by) : unknown;
}

struct time_range run_plan_remaining(const struct run_plan *p, size_t first)
{
    struct time_range sum = {0, 0};

    for (size_t i = first; i < p->n; i++) {
        struct time_range one = run_plan_estimate(p, i);
        sum.low_s += one.low_s;
        sum.high_s += one.high_s;
    }
    return sum;
}

double run_plan_requests(const struct run_plan *p)
{
    double sum = 0;

    for (size_t i = 0; i < p->n; i++) {
        if (p->runs[i].requests <= 0)
            return 0;
        sum += p->runs[i].requests;
    }
    return sum;
}

void run_plan_done(struct run_plan *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->runs[i].load);
    free(p->runs);
    for (size_t i = 0; i < p->n_earlier; i++) {
        free(p->earlier[i].load);
        free(p->earlier[i].ref);
    }
    free(p->earlier);
    *p = (struct run_plan){0};
}

/* -- Text ----------------------------------------------------------------------------------------- */

/* Estimates are printed in seconds. */
static const char *seconds_text(char buf[static UNIT_TEXT_MAX], double s)
{
    double rounded = MAX(1.0, round(s));

    if (rounded >= 60)
        return format_duration(buf, (int64_t)rounded * NS_PER_S);
    snprintf(buf, UNIT_TEXT_MAX, "%.0fs", rounded);
    return buf;
}

char *time_range_text(struct time_range range)
{
    char low[UNIT_TEXT_MAX], high[UNIT_TEXT_MAX];

    if (!isfinite(range.low_s) || !isfinite(range.high_s))
        return xstrdup("unknown");
    seconds_text(low, range.low_s);
    seconds_text(high, range.high_s);
    return range.high_s < SAME_RATIO * range.low_s || streq(low, high) ? xasprintf("about %s", high)
                                                                       : xasprintf("%s to %s", low, high);
}

static char *requests_text(double requests)
{
    return requests > 0 ? text_count((int64_t)requests, "request") : xstrdup("requests by duration");
}

char *run_plan_line(const struct run_plan *p)
{
    struct time_range all = run_plan_remaining(p, 0);
    _cleanup_(freep) char *runs = text_count((int64_t)p->n, "run"),
                          *requests = requests_text(run_plan_requests(p)), *time = time_range_text(all);

    if (!isfinite(all.high_s))
        return xasprintf("Plan: %s, %s; the first run shows how long the others take", runs, requests);
    const char *one = p->n == 1 ? based_on(p, 0) : NULL;
    bool by_earlier = false;
    for (size_t i = 0; i < p->n; i++)
        by_earlier |= based_on(p, i) != NULL;
    return xasprintf("Plan: %s, %s, %s%s%s", runs, requests, time, by_earlier ? ", estimated from " : "",
                     !by_earlier ? ""
                     : one       ? one
                                 : "earlier runs");
}

char *run_plan_next_line(const struct run_plan *p, size_t i)
{
    struct time_range left = run_plan_remaining(p, i);
    _cleanup_(freep) char *time = time_range_text(left);

    return isfinite(left.high_s) ? xasprintf("Step %zu of %zu, %s left", i + 1, p->n, time)
                                 : xasprintf("Step %zu of %zu", i + 1, p->n);
}

void run_plan_print(const struct run_plan *p, const struct screen *s)
{
    static const struct table_column columns[] = {{"RUN", COLUMN_RIGHT, IMPORTANCE_KEY},
                                                  {"REQUESTS", COLUMN_RIGHT},
                                                  {"TIME", 0},
                                                  {"ESTIMATED FROM", 0},
                                                  {"LOAD", COLUMN_SHORTEN, .least = 24}};
    _cleanup_(document_done) struct document d = {0};
    _cleanup_(freep) char *line = run_plan_line(p);
    struct table *table = table_new(columns, ARRAY_SIZE(columns), true);

    for (size_t i = 0; i < p->n; i++) {
        char number[32], requests[32];
        _cleanup_(freep) char *time = time_range_text(run_plan_estimate(p, i));
        text_number(number, (int64_t)i + 1);
        text_number(requests, (int64_t)p->runs[i].requests);
        table_add(table, (const char *const[]){number, p->runs[i].requests > 0 ? requests : NULL, time,
                                               based_on(p, i), p->runs[i].load});
    }
    document_take_table(&d, table);
    document_text(&d, "%s", line);
    document_print(&d, s, TABLE_FITTED);
}

static json_t *range_json(struct time_range range)
{
    return isfinite(range.high_s) && isfinite(range.low_s) ? json_pack("[f, f]", range.low_s, range.high_s)
                                                           : json_null();
}

json_t *run_plan_json(const struct run_plan *p)
{
    json_t *runs = json_array(), *j = json_pack("{s: o}", "runs", runs);
    double requests = run_plan_requests(p);

    for (size_t i = 0; i < p->n; i++) {
        json_t *one = json_pack("{s: s, s: o}", "load", p->runs[i].load, "estimated_s",
                                range_json(run_plan_estimate(p, i)));
        if (p->runs[i].requests > 0)
            json_put_int(one, "requests", (int64_t)p->runs[i].requests);
        json_put_str(one, "based_on", based_on(p, i));
        json_array_append_new(runs, one);
    }
    if (requests > 0)
        json_put_int(j, "requests", (int64_t)requests);
    json_object_set_new(j, "estimated_s", range_json(run_plan_remaining(p, 0)));
    return j;
}
