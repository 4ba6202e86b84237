/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/workload.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include <errno.h>

#define REPEAT_MAX      1000000
#define WARMUP_MAX      1000
#define RATE_MAX        1e6
#define BURSTINESS_MIN  0.01
#define BURSTINESS_MAX  1e4
#define DURATION_MAX_NS (7 * 24 * 3600 * NS_PER_S)
#define TIMEOUT_NS      (600 * NS_PER_S)
#define DRAIN_NS        (30 * NS_PER_S)
#define WARMUP_DEFAULT  2

static const char *const apis[_LOAD_API_MAX] = {
    [LOAD_API_AUTO] = "auto",       [LOAD_API_COMPLETIONS] = "completions",
    [LOAD_API_CHAT] = "chat",       [LOAD_API_GENERATE] = "generate",
    [LOAD_API_RTP_LLM] = "rtp-llm", [LOAD_API_TEMPLATE] = "template",
};

static const char *const arrivals[_ARRIVAL_MAX] = {
    [ARRIVAL_CLOSED] = "closed",
    [ARRIVAL_CONSTANT] = "constant",
    [ARRIVAL_POISSON] = "poisson",
    [ARRIVAL_GAMMA] = "gamma",
};

static int wrong(struct problem *p, const char *member, const char *expected)
{
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s of the workload must be %s", member, expected);
}

static int word_of(const char *const *words, size_t n, const json_t *v)
{
    for (size_t i = 0; i < n; i++)
        if (json_is_string(v) && streq(words[i], json_string_value(v)))
            return (int)i;
    return -EINVAL;
}

/* -- One function for each type of member --------------------------------------------------------------- */

struct member;
typedef int take_fn(const struct member *m, const json_t *v, struct workload *w, struct problem *p);
struct member {
    const char *name;
    take_fn *take;
    size_t offset;
    double least, most; /* of numbers */
};

#define PLACE(w, m, type) ((type *)(void *)((char *)(w) + (m)->offset))

static int take_text(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    if (!json_is_string(v) || json_string_length(v) == 0)
        return wrong(p, m->name, "a text that is not empty");
    replace_str(PLACE(w, m, char *), json_string_value(v));
    return 0;
}

static int take_path(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    if (!json_is_string(v) || *json_string_value(v) != '/')
        return wrong(p, m->name, "a text that begins with /");
    return take_text(m, v, w, p);
}

static int take_count(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    double value = (double)json_integer_value(v);

    if (!json_is_integer(v) || value < m->least || value > m->most) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                    "%s of the workload must be a whole number, %.0f to %.0f", m->name, m->least, m->most);
        if (streq(m->name, "osl") && json_is_integer(v) && value == 0)
            problem_remedy(p, "leave osl out to let the server end its answers as it likes");
        return -EINVAL;
    }
    *PLACE(w, m, int64_t) = json_integer_value(v);
    return 0;
}

static int take_number(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    if (!json_is_number(v) || json_number_value(v) < m->least || json_number_value(v) > m->most)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s of the workload must be a number, %g to %g",
                           m->name, m->least, m->most);
    *PLACE(w, m, double) = json_number_value(v);
    return 0;
}

static int take_bool(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    if (!json_is_boolean(v))
        return wrong(p, m->name, "true or false");
    *PLACE(w, m, bool) = json_is_true(v);
    return 0;
}

static bool duration_of(const json_t *v, int64_t *ret)
{
    int64_t ns;

    if (json_is_string(v) && parse_duration(json_string_value(v), &ns) == 0 && ns > 0 &&
        ns <= DURATION_MAX_NS)
        *ret = ns;
    else if (json_is_number(v) && json_number_value(v) > 0 &&
             json_number_value(v) <= (double)DURATION_MAX_NS / (double)NS_PER_S)
        *ret = (int64_t)(json_number_value(v) * (double)NS_PER_S);
    else
        return false;
    return true;
}

static int take_duration(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    return duration_of(v, PLACE(w, m, int64_t))
               ? 0
               : wrong(p, m->name, "a duration, as \"60s\", of at most a week");
}

static int take_api(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    int api = word_of(apis, _LOAD_API_MAX, v);

    if (api < 0)
        return wrong(p, m->name, "auto, completions, chat, generate, rtp-llm or template");
    w->api = (enum load_api)api;
    return 0;
}

static int take_arrival(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    int arrival = word_of(arrivals, _ARRIVAL_MAX, v);

    if (arrival < 0)
        return wrong(p, m->name, "closed, constant, poisson or gamma");
    w->arrival = (enum arrival)arrival;
    return 0;
}

static int take_template(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    if (!json_is_object(v))
        return wrong(p, m->name, "an object, the body of a request");
    json_decref(w->template);
    w->template = json_deep_copy(v);
    return 0;
}

static int take_prompt(const json_t *v, struct workload *w, size_t n, struct problem *p)
{
    const json_t *text = json_is_object(v) ? json_object_get(v, "prompt") : v;
    const json_t *osl = json_is_object(v) ? json_object_get(v, "osl") : NULL;

    if (!json_is_string(text) || json_string_length(text) == 0)
        return wrong(p, "prompts", "a list of texts, or of objects with a prompt, none of them empty");
    if (osl) {
        if (!json_is_integer(osl) || json_integer_value(osl) < 1 ||
            json_integer_value(osl) > WORKLOAD_TOKENS_MAX)
            return wrong(p, "osl of a prompt", "a whole number of tokens, at least 1");
        if (!w->osls)
            w->osls = xcalloc(n, sizeof(*w->osls));
        w->osls[w->n_prompts] = json_integer_value(osl);
    }
    w->prompts[w->n_prompts++] = xstrdup(json_string_value(text));
    return 0;
}

static int take_prompts(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    size_t n = json_array_size(v);
    int r = 0;

    if (!json_is_array(v) || n > WORKLOAD_PROMPTS_MAX)
        return wrong(p, m->name, "a list of at most 1000000 texts");
    if (n == 0) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "the workload has an empty list of prompts");
        problem_remedy(p, "give at least one prompt, or isl for synthetic ones of that many tokens");
        return -EINVAL;
    }
    w->prompts = xcalloc(n, sizeof(*w->prompts));
    for (size_t i = 0; i < n && r == 0; i++)
        r = take_prompt(json_array_get(v, i), w, n, p);
    return r;
}

static int take_goodput(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    const struct {
        const char *name;
        int64_t *ns;
    } goals[] = {{"ttft", &w->goal.ttft_ns}, {"tpot", &w->goal.tpot_ns}, {"e2e", &w->goal.e2e_ns}};
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(goals); i++) {
        const json_t *goal = json_object_get(v, goals[i].name);
        n += goal != NULL;
        if (goal && !duration_of(goal, goals[i].ns))
            return wrong(p, m->name, "an object of durations, as {\"ttft\": \"200ms\"}");
    }
    return json_is_object(v) && n == json_object_size(v)
               ? 0
               : wrong(p, m->name, "an object of ttft, tpot and e2e");
}

#define AT(f) offsetof(struct workload, f)

static const struct member members[] = {
    {"model", take_text, AT(model)},
    {"api", take_api},
    {"path", take_path, AT(path)},
    {"template", take_template},
    {"template_text", take_path, AT(template_text)},
    {"prompts", take_prompts},
    {"isl", take_count, AT(isl), 1, WORKLOAD_TOKENS_MAX},
    {"osl", take_count, AT(osl), 1, WORKLOAD_TOKENS_MAX},
    {"shared_prefix", take_count, AT(shared_prefix), 0, WORKLOAD_TOKENS_MAX},
    {"requests", take_count, AT(requests), 1, WORKLOAD_REQUESTS_MAX},
    {"duration", take_duration, AT(duration_ns)},
    {"repeat", take_count, AT(repeat), 1, REPEAT_MAX},
    {"concurrency", take_count, AT(concurrency), 1, WORKLOAD_CONCURRENCY_MAX},
    {"arrival", take_arrival},
    {"rate", take_number, AT(rate), 1e-3, RATE_MAX},
    {"rate_to", take_number, AT(rate_to), 1e-3, RATE_MAX},
    {"burstiness", take_number, AT(burstiness), BURSTINESS_MIN, BURSTINESS_MAX},
    {"warmup", take_count, AT(warmup), 0, WARMUP_MAX},
    {"seed", take_count, AT(seed), 0, 9007199254740992.0}, /* what all JSON readers keep exactly */
    {"stream", take_bool, AT(stream)},
    {"timeout", take_duration, AT(timeout_ns)},
    {"drain", take_duration, AT(drain_ns)},
    {"goodput", take_goodput},
};

static int take_members(const json_t *j, struct workload *w, struct problem *p)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)j, key, value)
    {
        const struct member *m = NULL;
        for (size_t i = 0; i < ARRAY_SIZE(members) && !m; i++)
            if (streq(members[i].name, key))
                m = &members[i];
        if (!m) {
            problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "a workload has no member %.64s", key);
            problem_remedy(p, "workload.schema.json lists them all");
            return -EINVAL;
        }
        int r = m->take(m, value, w, p);
        if (r < 0)
            return r;
    }
    return 0;
}

/* -- What fits together --------------------------------------------------------------------------------- */

static bool is_closed(const struct workload *w)
{
    return w->arrival == ARRIVAL_CLOSED;
}

static bool lacks_prompts(const struct workload *w)
{
    return !w->prompts && w->isl == 0;
}

static bool has_both_prompts(const struct workload *w)
{
    return w->prompts && w->isl != 0;
}

static bool prefix_without_isl(const struct workload *w)
{
    return w->shared_prefix > 0 && w->shared_prefix >= w->isl;
}

static bool lacks_end(const struct workload *w)
{
    return !w->prompts && w->requests == 0 && w->duration_ns == 0;
}

static bool rate_of_closed(const struct workload *w)
{
    return is_closed(w) && (w->rate != 0 || w->rate_to != 0);
}

static bool lacks_rate(const struct workload *w)
{
    return !is_closed(w) && w->rate == 0;
}

static bool burstiness_without_gamma(const struct workload *w)
{
    return w->burstiness != 0 && w->arrival != ARRIVAL_GAMMA;
}

static bool repeat_without_prompts(const struct workload *w)
{
    return w->repeat != 0 && !w->prompts;
}

static bool template_without_api(const struct workload *w)
{
    return (w->template != NULL) != (w->api == LOAD_API_TEMPLATE) || (w->template_text && !w->template);
}

static bool too_many(const struct workload *w)
{
    double beyond = (w->rate + (w->rate_to != 0 ? w->rate_to : w->rate)) / 2 * ((double)w->duration_ns / 1e9);
    return (!is_closed(w) && beyond > WORKLOAD_REQUESTS_MAX) ||
           (double)w->n_prompts * (double)MAX(w->repeat, INT64_C(1)) > WORKLOAD_REQUESTS_MAX;
}

static const struct {
    bool (*is_wrong)(const struct workload *w);
    const char *what, *remedy;
} combinations[] = {
    {lacks_prompts, "the workload has no prompts",
     "give prompts, or isl for synthetic ones of that many tokens"},
    {has_both_prompts, "the workload has both prompts and isl",
     "isl is the length of synthetic prompts: leave one out"},
    {prefix_without_isl, "shared_prefix of the workload must be less than isl",
     "what is left of isl differs from prompt to prompt"},
    {lacks_end, "the workload does not say when it ends", "give requests or duration"},
    {rate_of_closed, "the workload has a rate, and its arrival is closed",
     "leave out rate, or set arrival to constant, poisson or gamma"},
    {lacks_rate, "the workload's arrival needs a rate", "give rate, in requests a second"},
    {burstiness_without_gamma, "burstiness is of the arrival gamma",
     "set arrival to gamma, or leave burstiness out"},
    {repeat_without_prompts, "repeat is of given prompts", "give requests instead"},
    {template_without_api, "template and the api template belong together", "give both, or neither"},
    {too_many, "the workload has more than 10000000 requests", "shorten it, or split it into several"},
};

static int check(const struct workload *w, struct problem *p)
{
    for (size_t i = 0; i < ARRAY_SIZE(combinations); i++) {
        if (!combinations[i].is_wrong(w))
            continue;
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s", combinations[i].what);
        problem_remedy(p, "%s", combinations[i].remedy);
        return -EINVAL;
    }
    return 0;
}

static void set_defaults(const json_t *j, struct workload *w)
{
    if (!json_object_get(j, "arrival"))
        w->arrival = w->burstiness != 0 ? ARRIVAL_GAMMA : w->rate != 0 ? ARRIVAL_POISSON : ARRIVAL_CLOSED;
    if (!json_object_get(j, "api") && w->template)
        w->api = LOAD_API_TEMPLATE;
}

/* Once it is known that all fits together. */
static void complete(struct workload *w)
{
    if (w->repeat == 0)
        w->repeat = 1;
    if (w->burstiness == 0)
        w->burstiness = 1;
    if (w->prompts && w->requests == 0 && w->duration_ns == 0)
        w->requests = (int64_t)w->n_prompts * w->repeat;
    if (is_closed(w) && w->concurrency == 0)
        w->concurrency = 1;
}

int workload_parse(const json_t *j, struct workload *ret, struct problem *p)
{
    struct workload w = {
        .warmup = WARMUP_DEFAULT, .stream = true, .timeout_ns = TIMEOUT_NS, .drain_ns = DRAIN_NS};

    if (!json_is_object(j))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "a workload is an object");
    int r = take_members(j, &w, p);
    if (r == 0) {
        set_defaults(j, &w);
        r = check(&w, p);
    }
    if (r < 0) {
        workload_done(&w);
        return r;
    }
    complete(&w);
    *ret = w;
    return 0;
}

void workload_done(struct workload *w)
{
    for (size_t i = 0; i < w->n_prompts; i++)
        free(w->prompts[i]);
    free(w->prompts);
    free(w->osls);
    free(w->model);
    free(w->path);
    free(w->template_text);
    json_decref(w->template);
    *w = (struct workload){0};
}
