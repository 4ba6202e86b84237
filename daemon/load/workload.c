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

static const char *const apis[_LOAD_API_MAX + 1] = {
    [LOAD_API_AUTO] = "auto",       [LOAD_API_COMPLETIONS] = "completions",
    [LOAD_API_CHAT] = "chat",       [LOAD_API_GENERATE] = "generate",
    [LOAD_API_RTP_LLM] = "rtp-llm", [LOAD_API_TEMPLATE] = "template",
};

static const char *const arrivals[_ARRIVAL_MAX + 1] = {
    [ARRIVAL_CLOSED] = "closed", [ARRIVAL_CONSTANT] = "constant",     [ARRIVAL_POISSON] = "poisson",
    [ARRIVAL_GAMMA] = "gamma",   [ARRIVAL_TIMESTAMPS] = "timestamps",
};

static int workload_wrong(struct problem *p, const char *member, const char *expected)
{
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s of the workload must be %s", member, expected);
}

/* -- One function for each type of member --------------------------------------------------------------- */

struct member;
typedef int take_fn(const struct member *m, const json_t *v, struct workload *w, struct problem *p);
struct member {
    const char *name;
    take_fn *take;
    size_t offset;
    double least, most;       /* of numbers */
    const char *const *words; /* of enumerations, in order */
    const char *expected;
};

#define MEMBER(w, m, type) ((type *)(void *)((char *)(w) + (m)->offset))

static int take_text(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    if (!json_is_string(v) || json_string_length(v) == 0)
        return workload_wrong(p, m->name, "a text that is not empty");
    replace_str(MEMBER(w, m, char *), json_string_value(v));
    return 0;
}

static int take_path(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    if (!json_is_string(v) || *json_string_value(v) != '/')
        return workload_wrong(p, m->name, "a text that begins with /");
    return take_text(m, v, w, p);
}

static int take_count(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    double value = (double)json_integer_value(v);

    if (!json_is_integer(v) || value < m->least || value > m->most) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                    "%s of the workload must be a whole number, %.0f to %.0f", m->name, m->least, m->most);
        if (streq(m->name, "osl") && json_is_integer(v) && value == 0)
            problem_remedy(p, "leave osl out: outputs are as long as the model makes them");
        return -EINVAL;
    }
    *MEMBER(w, m, int64_t) = json_integer_value(v);
    return 0;
}

static int take_number(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    if (!json_is_number(v) || json_number_value(v) < m->least || json_number_value(v) > m->most)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s of the workload must be a number, %g to %g",
                           m->name, m->least, m->most);
    *MEMBER(w, m, double) = json_number_value(v);
    return 0;
}

static int take_bool(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    if (!json_is_boolean(v))
        return workload_wrong(p, m->name, "true or false");
    *MEMBER(w, m, bool) = json_is_true(v);
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
    return duration_of(v, MEMBER(w, m, int64_t))
               ? 0
               : workload_wrong(p, m->name, "a duration, as \"60s\", of at most a week");
}

/* Enumerations are stored as int. */
static int take_word(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    _Static_assert(sizeof(w->api) == sizeof(int) && sizeof(w->arrival) == sizeof(int), "as stored");

    for (size_t i = 0; json_is_string(v) && m->words[i]; i++)
        if (streq(m->words[i], json_string_value(v))) {
            *MEMBER(w, m, int) = (int)i;
            return 0;
        }
    return workload_wrong(p, m->name, m->expected);
}

static int take_template(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    if (!json_is_object(v))
        return workload_wrong(p, m->name, "an object, the body of a request");
    json_decref(w->template);
    w->template = json_deep_copy(v);
    return 0;
}

/* Writes the texts of messages, a line each, for estimates; false where one is not a message. Other members of
 * messages (tool calls, parts without text) are sent unchanged. */
static bool write_messages(const json_t *messages, FILE *out)
{
    size_t i, k;
    json_t *message, *part;

    json_array_foreach(messages, i, message) {
        const json_t *content = json_object_get(message, "content");
        if (!json_is_string(json_object_get(message, "role")))
            return false;
        if (json_is_string(content))
            fprintf(out, "%s\n", json_string_value(content));
        json_array_foreach(content, k, part) {
            const char *text = json_get_str(part, "text");
            fprintf(out, "%s\n", text ? text : "");
        }
    }
    return json_array_size(messages) > 0;
}

static int take_messages(const json_t *messages, struct workload_prompt *prompt, struct problem *p)
{
    size_t size;
    FILE *out = xmemstream(&prompt->text, &size);
    bool are_messages = write_messages(messages, out);

    fclose(out);
    if (!are_messages)
        return workload_wrong(p, "messages of a prompt", "a list of objects with a role, at least one");
    prompt->messages = json_incref((json_t *)messages);
    return 0;
}

#define AT_MS_MAX ((double)DURATION_MAX_NS / (double)NS_PER_MS)

static int take_prompt(const json_t *v, struct workload *w, struct problem *p)
{
    const json_t *text = json_is_object(v) ? json_object_get(v, "prompt") : v,
                 *messages = json_object_get(v, "messages"), *osl = json_object_get(v, "osl"),
                 *answer = json_object_get(v, "answer"), *at_ms = json_object_get(v, "at_ms");
    struct workload_prompt *prompt = &w->prompts[w->n_prompts];

    *prompt = (struct workload_prompt){.at_ns = -1};
    w->n_prompts++;
    if (messages ? text != NULL : !json_is_string(text) || json_string_length(text) == 0)
        return workload_wrong(p, "prompts",
                              "a list of texts, or of objects with a prompt or messages, none of them empty");
    if (messages) {
        int r = take_messages(messages, prompt, p);
        if (r < 0)
            return r;
    } else {
        prompt->text = xstrdup(json_string_value(text));
    }
    w->has_messages |= messages != NULL;
    if (osl) {
        if (!json_is_integer(osl) || json_integer_value(osl) < 1 ||
            json_integer_value(osl) > WORKLOAD_TOKENS_MAX)
            return workload_wrong(p, "osl of a prompt", "a whole number of tokens, at least 1");
        prompt->osl = json_integer_value(osl);
    }
    if (answer) {
        if (osl || !json_is_string(answer) || json_string_length(answer) == 0)
            return workload_wrong(p, "answer of a prompt",
                                  "a text that is not empty, and comes without an osl");
        prompt->answer = xstrdup(json_string_value(answer));
        w->has_answers = true;
    }
    if (at_ms) {
        if (!json_is_number(at_ms) || json_number_value(at_ms) < 0 || json_number_value(at_ms) > AT_MS_MAX)
            return workload_wrong(p, "at_ms of a prompt", "a number of milliseconds within a week");
        prompt->at_ns = (int64_t)(json_number_value(at_ms) * (double)NS_PER_MS);
    }
    return 0;
}

static int take_prompts(const struct member *m, const json_t *v, struct workload *w, struct problem *p)
{
    size_t n = json_array_size(v);
    int r = 0;

    if (!json_is_array(v) || n > WORKLOAD_PROMPTS_MAX)
        return workload_wrong(p, m->name, "a list of at most 1000000 texts");
    if (n == 0) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "the workload has an empty list of prompts");
        problem_remedy(p, "give at least one prompt, or isl, the length of synthetic ones in tokens");
        return -EINVAL;
    }
    w->prompts = xcalloc(n, sizeof(*w->prompts));
    for (size_t i = 0; i < n && r == 0; i++)
        r = take_prompt(json_array_get(v, i), w, p);
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
            return workload_wrong(p, m->name, "an object of durations, as {\"ttft\": \"200ms\"}");
    }
    return json_is_object(v) && n == json_object_size(v)
               ? 0
               : workload_wrong(p, m->name, "an object of ttft, tpot and e2e");
}

#define AT(f) offsetof(struct workload, f)

static const struct member members[] = {
    {"model", take_text, AT(model)},
    {"api", take_word, AT(api), .words = apis,
     .expected = "auto, completions, chat, generate, rtp-llm or template"},
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
    {"arrival", take_word, AT(arrival), .words = arrivals,
     .expected = "closed, constant, poisson, gamma or timestamps"},
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

static int workload_take_members(const json_t *j, struct workload *w, struct problem *p)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)j, key, value) {
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
    return !is_closed(w) && w->arrival != ARRIVAL_TIMESTAMPS && w->rate == 0;
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

static bool is_timed(const struct workload *w)
{
    return w->arrival == ARRIVAL_TIMESTAMPS;
}

static bool rate_of_timestamps(const struct workload *w)
{
    return is_timed(w) && (w->rate != 0 || w->rate_to != 0 || w->repeat > 1);
}

static bool lacks_timestamps(const struct workload *w)
{
    if (!is_timed(w))
        return false;
    for (size_t i = 0; i < w->n_prompts; i++)
        if (w->prompts[i].at_ns < 0)
            return true;
    return !w->prompts || w->requests > (int64_t)w->n_prompts;
}

static bool timestamps_descend(const struct workload *w)
{
    for (size_t i = 1; is_timed(w) && i < w->n_prompts; i++)
        if (w->prompts[i].at_ns < w->prompts[i - 1].at_ns)
            return true;
    return false;
}

static bool messages_without_chat(const struct workload *w)
{
    return w->has_messages && w->api != LOAD_API_CHAT;
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
     "give prompts, or isl, the length of synthetic ones in tokens"},
    {has_both_prompts, "the workload has both prompts and isl",
     "isl is the length of synthetic prompts: leave one out"},
    {prefix_without_isl, "shared_prefix of the workload must be less than isl",
     "the rest of isl differs from prompt to prompt"},
    {lacks_end, "the workload has no end", "give requests or duration"},
    {rate_of_closed, "the workload has a rate, and its arrival is closed",
     "leave out rate, or set arrival to constant, poisson or gamma"},
    {lacks_rate, "the workload's arrival needs a rate", "give rate, in requests a second"},
    {rate_of_timestamps, "the arrival timestamps takes neither a rate nor repeat",
     "each prompt is sent once, at its at_ms: leave rate and repeat out"},
    {lacks_timestamps, "the arrival timestamps needs an at_ms for each request",
     "give each prompt its at_ms, and no more requests than there are prompts"},
    {timestamps_descend, "at_ms of the prompts must not descend", "sort the prompts by at_ms"},
    {messages_without_chat, "prompts with messages need the API chat",
     "set api to chat, or give each prompt as one text"},
    {burstiness_without_gamma, "burstiness requires the arrival gamma",
     "set arrival to gamma, or leave burstiness out"},
    {repeat_without_prompts, "repeat requires given prompts", "give requests instead"},
    {template_without_api, "template and the API template require each other", "give both, or neither"},
    {too_many, "the workload has more than 10000000 requests", "shorten it, or split it into several"},
};

static int workload_check(const struct workload *w, struct problem *p)
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

static void workload_set_defaults(const json_t *j, struct workload *w)
{
    if (!json_object_get(j, "arrival"))
        w->arrival = w->burstiness != 0 ? ARRIVAL_GAMMA : w->rate != 0 ? ARRIVAL_POISSON : ARRIVAL_CLOSED;
    if (!json_object_get(j, "api") && w->template)
        w->api = LOAD_API_TEMPLATE;
    if (!json_object_get(j, "api") && w->has_messages && !w->template)
        w->api = LOAD_API_CHAT;
}

/* Fills in defaults that depend on other members, of a valid workload. */
static void workload_complete(struct workload *w)
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
    int r = workload_take_members(j, &w, p);
    if (r == 0) {
        workload_set_defaults(j, &w);
        r = workload_check(&w, p);
    }
    if (r < 0) {
        workload_done(&w);
        return r;
    }
    workload_complete(&w);
    *ret = w;
    return 0;
}

void workload_done(struct workload *w)
{
    for (size_t i = 0; i < w->n_prompts; i++) {
        free(w->prompts[i].text);
        free(w->prompts[i].answer);
        json_decref((json_t *)w->prompts[i].messages);
    }
    free(w->prompts);
    free(w->model);
    free(w->path);
    free(w->template_text);
    json_decref(w->template);
    *w = (struct workload){0};
}
