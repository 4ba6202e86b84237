/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/workload.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/fleet/url.h"
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
/* Of a specification: each prompt consists of a few. */
#define JSON_VALUES_OF_RUN_MAX (8 * WORKLOAD_PROMPTS_MAX)

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

struct workload_rule;
typedef int workload_take_fn(const struct workload_rule *m, const json_t *v, struct workload *w,
                             struct problem *p);
struct workload_rule {
    const char *name;
    workload_take_fn *take;
    size_t offset;
    double least, most;       /* of numbers */
    const char *const *words; /* of enumerations, in order */
    const char *expected;
};

#define MEMBER(w, m, type) ((type *)(void *)((char *)(w) + (m)->offset))

static int workload_take_text(const struct workload_rule *m, const json_t *v, struct workload *w,
                              struct problem *p)
{
    if (!json_is_string(v) || json_string_length(v) == 0)
        return workload_wrong(p, m->name, "a text that is not empty");
    replace_str(MEMBER(w, m, char *), json_string_value(v));
    return 0;
}

static int workload_take_path(const struct workload_rule *m, const json_t *v, struct workload *w,
                              struct problem *p)
{
    if (!json_is_string(v) || *json_string_value(v) != '/')
        return workload_wrong(p, m->name, "a text that begins with /");
    return workload_take_text(m, v, w, p);
}

static int workload_take_count(const struct workload_rule *m, const json_t *v, struct workload *w,
                               struct problem *p)
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

static int workload_take_number(const struct workload_rule *m, const json_t *v, struct workload *w,
                                struct problem *p)
{
    if (!json_is_number(v) || json_number_value(v) < m->least || json_number_value(v) > m->most)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s of the workload must be a number, %g to %g",
                           m->name, m->least, m->most);
    *MEMBER(w, m, double) = json_number_value(v);
    return 0;
}

static int workload_take_bool(const struct workload_rule *m, const json_t *v, struct workload *w,
                              struct problem *p)
{
    if (!json_is_boolean(v))
        return workload_wrong(p, m->name, "true or false");
    *MEMBER(w, m, bool) = json_is_true(v);
    return 0;
}

static bool workload_duration(const json_t *v, int64_t *ret)
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

static int workload_take_duration(const struct workload_rule *m, const json_t *v, struct workload *w,
                                  struct problem *p)
{
    return workload_duration(v, MEMBER(w, m, int64_t))
               ? 0
               : workload_wrong(p, m->name, "a duration, as \"60s\", of at most a week");
}

/* Enumerations are stored as int. */
static int workload_take_word(const struct workload_rule *m, const json_t *v, struct workload *w,
                              struct problem *p)
{
    _Static_assert(sizeof(w->api) == sizeof(int) && sizeof(w->arrival) == sizeof(int), "as stored");

    for (size_t i = 0; json_is_string(v) && m->words[i]; i++)
        if (streq(m->words[i], json_string_value(v))) {
            *MEMBER(w, m, int) = (int)i;
            return 0;
        }
    return workload_wrong(p, m->name, m->expected);
}

static int workload_take_template(const struct workload_rule *m, const json_t *v, struct workload *w,
                                  struct problem *p)
{
    if (!json_is_object(v))
        return workload_wrong(p, m->name, "an object, the body of a request");
    json_decref(w->template);
    w->template = json_deep_copy(v);
    return 0;
}

/* Writes the texts of messages, a line each, for estimates; false where one is not a message. Other members of
 * messages (tool calls, parts without text) are sent unchanged. */
static bool workload_write_messages(const json_t *messages, FILE *out)
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

static int workload_take_messages(const json_t *messages, struct workload_prompt *prompt, struct problem *p)
{
    size_t size;
    FILE *out = xmemstream(&prompt->text, &size);
    bool are_messages = workload_write_messages(messages, out);

    fclose(out);
    if (!are_messages)
        return workload_wrong(p, "messages of a prompt", "a list of objects with a role, at least one");
    prompt->messages = json_incref((json_t *)messages);
    return 0;
}

#define AT_MS_MAX ((double)DURATION_MAX_NS / (double)NS_PER_MS)

static int workload_take_prompt(const json_t *v, struct workload *w, struct problem *p)
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
        int r = workload_take_messages(messages, prompt, p);
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

static int workload_take_prompts(const struct workload_rule *m, const json_t *v, struct workload *w,
                                 struct problem *p)
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
        r = workload_take_prompt(json_array_get(v, i), w, p);
    return r;
}

static int workload_take_goodput(const struct workload_rule *m, const json_t *v, struct workload *w,
                                 struct problem *p)
{
    const struct {
        const char *name;
        int64_t *ns;
    } goals[] = {{"ttft", &w->goal.ttft_ns}, {"tpot", &w->goal.tpot_ns}, {"e2e", &w->goal.e2e_ns}};
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(goals); i++) {
        const json_t *goal = json_object_get(v, goals[i].name);
        n += goal != NULL;
        if (goal && !workload_duration(goal, goals[i].ns))
            return workload_wrong(p, m->name, "an object of durations, as {\"ttft\": \"200ms\"}");
    }
    return json_is_object(v) && n == json_object_size(v)
               ? 0
               : workload_wrong(p, m->name, "an object of ttft, tpot and e2e");
}

#define AT(f) offsetof(struct workload, f)

static const struct workload_rule members[] = {
    {"model", workload_take_text, AT(model)},
    {"api", workload_take_word, AT(api), .words = apis,
     .expected = "auto, completions, chat, generate, rtp-llm or template"},
    {"path", workload_take_path, AT(path)},
    {"template", workload_take_template},
    {"template_text", workload_take_path, AT(template_text)},
    {"prompts", workload_take_prompts},
    {"isl", workload_take_count, AT(isl), 1, WORKLOAD_TOKENS_MAX},
    {"osl", workload_take_count, AT(osl), 1, WORKLOAD_TOKENS_MAX},
    {"shared_prefix", workload_take_count, AT(shared_prefix), 0, WORKLOAD_TOKENS_MAX},
    {"requests", workload_take_count, AT(requests), 1, WORKLOAD_REQUESTS_MAX},
    {"duration", workload_take_duration, AT(duration_ns)},
    {"repeat", workload_take_count, AT(repeat), 1, REPEAT_MAX},
    {"concurrency", workload_take_count, AT(concurrency), 1, WORKLOAD_CONCURRENCY_MAX},
    {"arrival", workload_take_word, AT(arrival), .words = arrivals,
     .expected = "closed, constant, poisson, gamma or timestamps"},
    {"rate", workload_take_number, AT(rate), 1e-3, RATE_MAX},
    {"rate_to", workload_take_number, AT(rate_to), 1e-3, RATE_MAX},
    {"burstiness", workload_take_number, AT(burstiness), BURSTINESS_MIN, BURSTINESS_MAX},
    {"warmup", workload_take_count, AT(warmup), 0, WARMUP_MAX},
    {"seed", workload_take_count, AT(seed), 0, 9007199254740992.0}, /* what all JSON readers keep exactly */
    {"stream", workload_take_bool, AT(stream)},
    {"timeout", workload_take_duration, AT(timeout_ns)},
    {"drain", workload_take_duration, AT(drain_ns)},
    {"goodput", workload_take_goodput},
};

static int workload_take_members(const json_t *j, struct workload *w, struct problem *p)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)j, key, value) {
        const struct workload_rule *m = NULL;
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

static bool workload_has_timestamps(const struct workload *w)
{
    for (size_t i = 0; i < w->n_prompts; i++)
        if (w->prompts[i].at_ns < 0)
            return false;
    return w->prompts && w->requests <= (int64_t)w->n_prompts;
}

static bool workload_timestamps_descend(const struct workload *w)
{
    for (size_t i = 1; i < w->n_prompts; i++)
        if (w->prompts[i].at_ns < w->prompts[i - 1].at_ns)
            return true;
    return false;
}

/* The first combination that is wrong is the problem. */
static int workload_check(const struct workload *w, struct problem *p)
{
    bool is_closed = w->arrival == ARRIVAL_CLOSED, is_timed = w->arrival == ARRIVAL_TIMESTAMPS,
         has_rate = w->rate != 0 || w->rate_to != 0;
    double by_rate =
               (w->rate + (w->rate_to != 0 ? w->rate_to : w->rate)) / 2 * ((double)w->duration_ns / 1e9),
           by_prompts = (double)w->n_prompts * (double)MAX(w->repeat, INT64_C(1));
    const struct {
        bool is_wrong;
        const char *what, *remedy;
    } combinations[] = {
        {!w->prompts && w->isl == 0, "the workload has no prompts",
         "give prompts, or isl, the length of synthetic ones in tokens"},
        {w->prompts && w->isl != 0, "the workload has both prompts and isl",
         "isl is the length of synthetic prompts: leave one out"},
        {w->shared_prefix > 0 && w->shared_prefix >= w->isl,
         "shared_prefix of the workload must be less than isl",
         "the rest of isl differs from prompt to prompt"},
        {!w->prompts && w->requests == 0 && w->duration_ns == 0, "the workload has no end",
         "give requests or duration"},
        {is_closed && has_rate, "the workload has a rate, and its arrival is closed",
         "leave out rate, or set arrival to constant, poisson or gamma"},
        {!is_closed && !is_timed && w->rate == 0, "the workload's arrival needs a rate",
         "give rate, in requests a second"},
        {is_timed && (has_rate || w->repeat > 1), "the arrival timestamps takes neither a rate nor repeat",
         "each prompt is sent once, at its at_ms: leave rate and repeat out"},
        {is_timed && !workload_has_timestamps(w), "the arrival timestamps needs an at_ms for each request",
         "give each prompt its at_ms, and no more requests than there are prompts"},
        {is_timed && workload_timestamps_descend(w), "at_ms of the prompts must not descend",
         "sort the prompts by at_ms"},
        {w->has_messages && w->api != LOAD_API_CHAT, "prompts with messages need the API chat",
         "set api to chat, or give each prompt as one text"},
        {w->burstiness != 0 && w->arrival != ARRIVAL_GAMMA, "burstiness requires the arrival gamma",
         "set arrival to gamma, or leave burstiness out"},
        {w->repeat != 0 && !w->prompts, "repeat requires given prompts", "give requests instead"},
        {(w->template != NULL) != (w->api == LOAD_API_TEMPLATE) || (w->template_text && !w->template),
         "template and the API template require each other", "give both, or neither"},
        {(!is_closed && by_rate > WORKLOAD_REQUESTS_MAX) || by_prompts > WORKLOAD_REQUESTS_MAX,
         "the workload has more than 10000000 requests", "shorten it, or split it into several"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(combinations); i++) {
        if (!combinations[i].is_wrong)
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
    if (w->arrival == ARRIVAL_CLOSED && w->concurrency == 0)
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

/* -- The specification of a run -- */

static int load_worker_parse(const json_t *v, struct load_worker *ret, struct problem *p)
{
    const char *text = json_get_str(v, "url"), *reason = "it is missing";
    struct url url;

    if (!text || url_parse(text, &url, &reason) < 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "url of a target: %s", reason);
    if (!url_is_http(&url))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "cannot send requests to %.200s: it is not an HTTP server", text);
    *ret = (struct load_worker){.url = url_format(&url),
                                .engine = xstrdup(json_get_str(v, "engine")),
                                .pid = (pid_t)json_get_int(v, "pid", 0)};
    return 0;
}

static int load_workers_parse(const json_t *list, struct load_workers *ret, struct problem *p)
{
    size_t n = json_array_size(list);
    int r = 0;

    if (n == 0 || n > LOAD_WORKERS_MAX)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "targets must be a list of 1 to 10000 workers");
    ret->items = xcalloc(n, sizeof(*ret->items));
    for (; ret->n < n && r == 0; ret->n++)
        r = load_worker_parse(json_array_get(list, ret->n), &ret->items[ret->n], p);
    return r;
}

static int load_spec_fill(const json_t *j, struct load_spec *spec, struct problem *p)
{
    const json_t *targets = json_object_get(j, "targets"), *warm = json_object_get(j, "warm"),
                 *watched = json_object_get(j, "workers"), *credentials = json_object_get(j, "credentials");
    const char *allow = json_get_str(json_object_get(j, "network"), "allow");
    _cleanup_(freep) char *reason = NULL;

    int r = workload_parse(json_object_get(j, "workload"), &spec->workload, p);
    if (r == 0)
        r = load_workers_parse(targets, &spec->targets, p);
    if (r == 0)
        r = load_workers_parse(warm ? warm : targets, &spec->warm, p);
    if (r == 0)
        r = load_workers_parse(watched ? watched : warm ? warm : targets, &spec->watched, p);
    if (r < 0)
        return r;
    if (network_add(&spec->policy, allow ? allow : NETWORK_DEFAULT, &reason) < 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "network: %s", reason);
    spec->credentials =
        (struct call_credentials){.token_file = xstrdup(json_get_str(credentials, "token_file")),
                                  .ca_file = xstrdup(json_get_str(credentials, "ca_file")),
                                  .cert_file = xstrdup(json_get_str(credentials, "cert_file")),
                                  .key_file = xstrdup(json_get_str(credentials, "key_file"))};
    return 0;
}

int load_spec_parse(const char *text, size_t size, struct load_spec *ret, struct problem *p)
{
    struct load_spec spec = {0};
    char error[200];

    _cleanup_json_ j = json_parse_bounded(text, size, JSON_VALUES_OF_RUN_MAX, error);
    if (!json_is_object(j))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "the specification of the run is not a JSON object: %s",
                           j ? "it is another value" : error);
    int r = load_spec_fill(j, &spec, p);
    if (r < 0)
        load_spec_done(&spec);
    else
        *ret = spec;
    return r;
}

void load_spec_done(struct load_spec *spec)
{
    struct load_workers *const lists[] = {&spec->targets, &spec->warm, &spec->watched};

    for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
        for (size_t i = 0; i < lists[k]->n; i++) {
            free(lists[k]->items[i].url);
            free(lists[k]->items[i].engine);
        }
        free(lists[k]->items);
    }
    workload_done(&spec->workload);
    network_done(&spec->policy);
    call_credentials_done(&spec->credentials);
    *spec = (struct load_spec){0};
}
