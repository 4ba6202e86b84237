/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/compare.h"

#include "base/alloc.h"
#include "client/runs/requests.h"
#include "client/runs/result.h"
#include "client/text/run.h"
#include "client/text/table.h"
#include "client/text/text.h"
#include "client/verbs.h"
#include "trace/reports/condition.h"
#include <errno.h>
#include <math.h>

/* Of larger runs the figures alone are compared: their requests would not fit into one answer. */
#define REQUESTS_MAX 200000

struct options {
    struct option_list conditions;
};

static const struct option_def options[] = {
    {"fail-if", 0, "CONDITION", OPTION_LIST, offsetof(struct options, conditions),
     "exit with 5 where it holds (repeatable): 'ttft.p99 > +5%', 'tpot.p50 > 30ms', 'output_tokens_per_s < "
     "-5%'"},
};

struct side {
    json_t *run, *requests; /* requests NULL: not at hand */
};

static void side_done(struct side *s)
{
    json_decref(s->run);
    json_decref(s->requests);
}

static int64_t count_requests(const json_t *run)
{
    const json_t *counts = json_object_get(run, "requests");
    return json_get_int(counts, "success", 0) + json_get_int(counts, "incomplete", 0) +
           json_get_int(counts, "error", 0);
}

static int get_side(struct client *c, const char *word, struct side *ret)
{
    _cleanup_(problem_done) struct problem p = {0};
    char ref[REF_TEXT_MAX];

    if (verb_ref(c, word, 'r', "r", ref) < 0)
        return EXIT_USAGE;
    int status = run_get(c, ref, &ret->run);
    if (status != EXIT_DONE)
        return status;
    if (!json_is_object(json_object_get(ret->run, "metrics"))) {
        problem_set(&p, -ENODATA, PROBLEM_CONFLICT, "%s has measured nothing to compare", ref);
        problem_remedy(&p, "profctl show %s says how it stands.", ref);
        return client_fail(c, &p);
    }
    return count_requests(ret->run) <= REQUESTS_MAX ? requests_get(c, ref, &ret->requests) : EXIT_DONE;
}

/* -- Text --------------------------------------------------------------------------------------------- */

enum { CELL_METRIC, CELL_A, CELL_B, CELL_CHANGE, CELL_PERCENT, CELL_VERDICT, _CELL_MAX };

/* Counts have no fractions. */
static char *value_text(char *buf, double value, bool is_count)
{
    return is_count && isfinite(value) && fabs(value) < 1e15 ? text_number(buf, llround(value))
                                                             : figure_text(buf, value);
}

static bool is_whole(const json_t *pair)
{
    double a = figure_at(pair, "a"), b = figure_at(pair, "b");
    return (!isfinite(a) || a == floor(a)) && (!isfinite(b) || b == floor(b));
}

static void add_row(struct table *table, const char *name, const json_t *pair, bool is_count,
                    const char *verdict)
{
    char a[32], b[32], change[32], percent[32] = "";
    double difference = figure_at(pair, "difference"), share = figure_at(pair, "percent");
    _cleanup_(freep) char *with_sign =
        xasprintf("%s%s", difference > 0 ? "+" : "", value_text(change, difference, is_count));

    if (!isfinite(figure_at(pair, "a")) && !isfinite(figure_at(pair, "b")))
        return;
    if (isfinite(share))
        snprintf(percent, sizeof(percent), "%+.1f %%", share);
    table_add(table, (const char *[_CELL_MAX]){
                         [CELL_METRIC] = name,
                         [CELL_A] = value_text(a, figure_at(pair, "a"), is_count),
                         [CELL_B] = value_text(b, figure_at(pair, "b"), is_count),
                         [CELL_CHANGE] = with_sign,
                         [CELL_PERCENT] = percent,
                         [CELL_VERDICT] = verdict,
                     });
}

static void add_pairs(struct table *table, const json_t *list)
{
    size_t i;
    json_t *pair;

    json_array_foreach(list, i, pair) add_row(table, json_get_str(pair, "metric"), pair, is_whole(pair), "");
}

/* "slower, p < 0.001" */
static char *verdict_text(const json_t *latency)
{
    const char *verdict = json_get_str(latency, "verdict");
    double p = figure_at(latency, "p");

    if (!verdict || !isfinite(p))
        return xstrdup("");
    return p < 0.001 ? xasprintf("%s, p < 0.001", verdict) : xasprintf("%s, p = %.3f", verdict, p);
}

static void add_latency(struct table *table, const json_t *latency)
{
    static const struct {
        const char *verdict;
        enum colour colour;
    } colours[] = {{"slower", COLOUR_BAD}, {"faster", COLOUR_GOOD}};
    _cleanup_(freep) char *verdict = verdict_text(latency);
    const char *metric = json_get_str(latency, "metric");
    size_t i, n = metric && ends_with(metric, "_ms") ? strlen(metric) - strlen("_ms") : 0;
    json_t *figure;

    json_array_foreach(json_object_get(latency, "figures"), i, figure)
    {
        const char *point = json_get_str(figure, "figure");
        /* As --fail-if has it. */
        _cleanup_(freep) char *name =
            xasprintf("%.*s.%s ms", (int)n, metric ? metric : "", point ? point : "?");
        add_row(table, name, figure, false, i == 0 ? verdict : "");
        for (size_t k = 0; k < ARRAY_SIZE(colours) && i == 0; k++)
            if (starts_with(verdict, colours[k].verdict))
                table_colour(table, CELL_VERDICT, colours[k].colour);
    }
}

static void print_workloads(struct client *c, const json_t *differences)
{
    size_t i;
    json_t *one;

    json_array_foreach(differences, i, one)
    {
        const json_t *a = json_object_get(one, "a"), *b = json_object_get(one, "b");
        const char *member = json_get_str(one, "member");
        _cleanup_(freep) char *before = a ? json_dumps(a, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        _cleanup_(freep) char *after = b ? json_dumps(b, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
        _cleanup_(freep) char *text = xasprintf("%s differs: %s -> %s", member ? member : "?",
                                                before ? before : "-", after ? after : "-");
        _cleanup_(freep) char *clean = text_clean(text, false);
        fprintf(c->out.file, "%.*s\n", (int)text_fit(clean, screen_text_width(&c->out)), clean);
    }
    if (i > 0)
        fputc('\n', c->out.file);
}

static void print_text(struct client *c, const struct side *a, const struct side *b, const json_t *j)
{
    char refs[2][RUN_REF_MAX];
    const struct table_column columns[_CELL_MAX] = {
        [CELL_METRIC] = {"", COLUMN_VERBATIM},
        [CELL_A] = {run_ref(refs[0], a->run), COLUMN_RIGHT},
        [CELL_B] = {run_ref(refs[1], b->run), COLUMN_RIGHT},
        [CELL_CHANGE] = {"CHANGE", COLUMN_RIGHT},
        [CELL_PERCENT] = {"", COLUMN_RIGHT | COLUMN_VERBATIM},
        [CELL_VERDICT] = {"", COLUMN_VERBATIM},
    };
    _cleanup_(table_freep) struct table *table = table_new(columns, _CELL_MAX, !c->no_legend);
    size_t i;
    json_t *latency;

    print_workloads(c, json_object_get(j, "workload"));
    add_pairs(table, json_object_get(j, "requests"));
    add_pairs(table, json_object_get(j, "throughput"));
    json_array_foreach(json_object_get(j, "latency"), i, latency) add_latency(table, latency);
    table_print(table, &c->out);
}

/* -- Conditions --------------------------------------------------------------------------------------- */

/* Conditions are over nanoseconds; what is no time is compared by its share alone, so its scale is free. */
#define NS_OF_MS 1e6

static const json_t *find(const json_t *list, const char *key, const char *name, size_t size)
{
    size_t i;
    json_t *one;

    json_array_foreach(list, i, one)
    {
        const char *text = json_get_str(one, key);
        if (text && strncmp(text, name, size) == 0 && (text[size] == '\0' || streq(text + size, "_ms")))
            return one;
    }
    return NULL;
}

/* "ttft.p99" of the latencies, "output_tokens_per_s" of the rest. */
static const json_t *find_measure(const json_t *j, const char *measure)
{
    size_t n = strcspn(measure, ".");

    if (measure[n] == '.') {
        const json_t *latency = find(json_object_get(j, "latency"), "metric", measure, n);
        return find(json_object_get(latency, "figures"), "figure", measure + n + 1, strlen(measure + n + 1));
    }
    const json_t *pair = find(json_object_get(j, "throughput"), "metric", measure, n);
    return pair ? pair : find(json_object_get(j, "requests"), "metric", measure, n);
}

static int parse_conditions(struct client *c, const struct option_list *list, struct condition **ret)
{
    *ret = xcalloc(list->n + 1, sizeof(**ret));
    for (size_t i = 0; i < list->n; i++) {
        _cleanup_(problem_done) struct problem p = {0};
        struct condition *one = &(*ret)[i];
        bool valid = condition_parse(list->items[i], one) >= 0;
        if (valid && (strchr(one->measure, '.') || one->is_share))
            continue;
        problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST,
                    valid ? "--fail-if: '%s' is no time, so its change is in %%"
                          : "--fail-if: '%s' is no condition",
                    list->items[i]);
        problem_remedy(&p, "A measure, > or <, and a change or a time: 'ttft.p99 > +5%%', 'tpot.p50 > 30ms', "
                           "'output_tokens_per_s < -5%%'.");
        return client_fail(c, &p);
    }
    return EXIT_DONE;
}

/* A measure that is not there fails too: what cannot be seen is not fine. */
static int check_conditions(struct client *c, const struct option_list *list,
                            const struct condition *conditions, const json_t *j)
{
    int status = EXIT_DONE;

    for (size_t i = 0; i < list->n; i++) {
        const json_t *pair = find_measure(j, conditions[i].measure);
        double a = figure_at(pair, "a"), b = figure_at(pair, "b");
        if (!isfinite(a) || !isfinite(b)) {
            _cleanup_(problem_done) struct problem p = {0};
            problem_set(&p, -ENODATA, PROBLEM_NOT_FOUND, "--fail-if: both have no %s", conditions[i].measure);
            problem_remedy(&p, "There are mean, p50, p90, p99 and max of ttft, itl, tpot and e2e, and what "
                               "profctl compare shows of throughput.");
            return client_fail(c, &p);
        }
        if (!condition_is_met(&conditions[i], llround(a * NS_OF_MS), llround(b * NS_OF_MS)))
            continue;
        client_say(c, "failed: %s", list->items[i]);
        status = EXIT_CONDITION;
    }
    return status;
}

/* ----------------------------------------------------------------------------------------------------- */

static int run(struct client *c, const void *values, int n_words, char **words)
{
    const struct options *o = values;
    _cleanup_(freep) struct condition *conditions = NULL;
    _cleanup_(side_done) struct side a = {0}, b = {0};
    int status = parse_conditions(c, &o->conditions, &conditions);

    if (status == EXIT_DONE)
        status = get_side(c, words[0], &a);
    if (status == EXIT_DONE)
        status = get_side(c, words[1], &b);
    if (status != EXIT_DONE)
        return status;
    bool whole = a.requests && b.requests;
    _cleanup_json_ j = runs_compare(a.run, whole ? a.requests : NULL, b.run, whole ? b.requests : NULL);
    if (!whole)
        client_say(c, "Figures only: runs of more than %d requests are not tested for chance", REQUESTS_MAX);
    if (c->json)
        client_print_json(c, j);
    else
        print_text(c, &a, &b, j);
    return check_conditions(c, &o->conditions, conditions, j);
}

const struct verb verb_compare = {
    .name = "compare",
    .words = "BEFORE AFTER",
    .summary = "Compare two runs: what became slower or faster, and whether by chance",
    .details = "Each is a run (r3). The verdict is by the test of Mann and Whitney over their requests.",
    .own_kind = 'r',
    .min_words = 2,
    .max_words = 2,
    .options = options,
    .n_options = ARRAY_SIZE(options),
    .values_size = sizeof(struct options),
    .needs_only_catalog = true,
    .run = run,
};
