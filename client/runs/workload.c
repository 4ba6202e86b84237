/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/workload.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/text.h"
#include "base/units.h"
#include "base/yaml_json.h"
#include "client/cli/text.h"
#include "client/runs/prompts.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

static const char *const goal_names[] = {"ttft", "tpot", "e2e"};

static bool goal_is_known(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(goal_names); i++)
        if (streq(name, goal_names[i]))
            return true;
    return false;
}

static int goal_refuse(const char *word, const char *why, struct problem *p)
{
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--goodput: '%s' %s", word, why);
    problem_remedy(p, "--goodput ttft:200ms,tpot:30ms,e2e:2s, or some of these");
    return -EINVAL;
}

static int goal_add(json_t *goals, char *word, struct problem *p)
{
    char *colon = strchr(word, ':');
    int64_t ns;

    if (!colon)
        return goal_refuse(word, "is not NAME:DURATION", p);
    /* A bare number means milliseconds in other programs, seconds elsewhere in profctl. */
    if (parse_duration(colon + 1, &ns) < 0 || ns <= 0 || ns == INT64_MAX ||
        strspn(colon + 1, "0123456789.") == strlen(colon + 1))
        return goal_refuse(word, "has no duration with a unit, such as 200ms", p);
    *colon = '\0';
    if (!goal_is_known(word))
        return goal_refuse(word, "is not ttft, tpot or e2e", p);
    if (json_object_get(goals, word))
        return goal_refuse(word, "is given twice", p);
    json_put_str(goals, word, colon + 1);
    return 0;
}

int goals_parse(const char *text, json_t **ret, struct problem *p)
{
    _cleanup_json_ goals = json_object();
    const char *rest = text, *start;

    for (size_t n; (n = words_next(&rest, &start)) > 0;) {
        _cleanup_(freep) char *word = xstrndup(start, n);
        int r = goal_add(goals, word, p);
        if (r < 0)
            return r;
    }
    if (json_object_size(goals) == 0)
        return goal_refuse(text, "contains no goal", p);
    *ret = TAKE_PTR(goals);
    return 0;
}

/* -- Files -------------------------------------------------------------------------------------------- */

enum workload_kind {
    WORKLOAD_TEXT,
    WORKLOAD_WORD,
    WORKLOAD_COUNT,
    WORKLOAD_WHOLE,
    WORKLOAD_REAL,
    WORKLOAD_TIME,
    WORKLOAD_FLAG,
    WORKLOAD_OBJECT,
    WORKLOAD_LIST
};

static bool is_time(const json_t *v)
{
    int64_t ns = 0;

    if (json_is_string(v))
        return parse_duration(json_string_value(v), &ns) == 0 && ns > 0;
    return json_is_number(v) && json_number_value(v) > 0;
}

#define COUNT    "a whole number of at least 1"
#define COUNT0   "a whole number of at least 0"
#define DURATION "a duration, such as 60s"

static const struct workload_member {
    const char *name;
    enum workload_kind kind;
    const char *expected;
    const char *words[7]; /* of WORKLOAD_WORD */
} members[] = {
    {"model", WORKLOAD_TEXT, "a text"},
    {"api",
     WORKLOAD_WORD,
     "one of auto, completions, chat, generate, rtp-llm, template",
     {"auto", "completions", "chat", "generate", "rtp-llm", "template"}},
    {"path", WORKLOAD_TEXT, "a path, such as /v1/completions"},
    {"template", WORKLOAD_OBJECT, "the body of a request"},
    {"template_text", WORKLOAD_TEXT, "a JSON pointer, such as /choices/0/text"},
    {"prompts", WORKLOAD_LIST, "a list of prompts"},
    {"prompts_file", WORKLOAD_TEXT, "the name of a file"},
    {"isl", WORKLOAD_COUNT, COUNT},
    {"osl", WORKLOAD_COUNT, COUNT},
    {"shared_prefix", WORKLOAD_WHOLE, COUNT0},
    {"requests", WORKLOAD_COUNT, COUNT},
    {"duration", WORKLOAD_TIME, DURATION},
    {"repeat", WORKLOAD_COUNT, COUNT},
    {"concurrency", WORKLOAD_COUNT, COUNT},
    {"arrival",
     WORKLOAD_WORD,
     "one of closed, constant, poisson, gamma, timestamps",
     {"closed", "constant", "poisson", "gamma", "timestamps"}},
    {"rate", WORKLOAD_REAL, "a number of requests per second above 0"},
    {"rate_to", WORKLOAD_REAL, "a number of requests per second above 0"},
    {"burstiness", WORKLOAD_REAL, "a number above 0"},
    {"warmup", WORKLOAD_WHOLE, COUNT0},
    {"seed", WORKLOAD_WHOLE, COUNT0},
    {"stream", WORKLOAD_FLAG, "true or false"},
    {"timeout", WORKLOAD_TIME, DURATION},
    {"drain", WORKLOAD_TIME, DURATION},
    {"goodput", WORKLOAD_OBJECT, "{ttft: DURATION, tpot: DURATION, e2e: DURATION}"},
};

static bool member_fits(const struct workload_member *m, const json_t *v)
{
    size_t i = 0;

    switch (m->kind) {
    case WORKLOAD_TEXT:
        return json_string_length(v) > 0;
    case WORKLOAD_WORD:
        while (m->words[i] && !streq(m->words[i], json_string_value(v)))
            i++;
        return m->words[i];
    case WORKLOAD_COUNT:
        return json_is_integer(v) && json_integer_value(v) >= 1;
    case WORKLOAD_WHOLE:
        return json_is_integer(v) && json_integer_value(v) >= 0;
    case WORKLOAD_REAL:
        return json_is_number(v) && json_number_value(v) > 0;
    case WORKLOAD_TIME:
        return is_time(v);
    case WORKLOAD_FLAG:
        return json_is_boolean(v);
    case WORKLOAD_OBJECT:
        return json_is_object(v);
    case WORKLOAD_LIST:
        return json_array_size(v) > 0;
    }
    return false;
}

static const struct workload_member *workload_member(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        if (streq(members[i].name, name))
            return &members[i];
    return NULL;
}

struct workload_file {
    const char *name;
    json_t *lines;
};

static void workload_file_done(struct workload_file *f)
{
    json_decref(f->lines);
}

static int file_line(const struct workload_file *f, const char *member, const char *below)
{
    _cleanup_(freep) char *pointer = xasprintf("/%s%s%s", member, below ? "/" : "", below ? below : "");
    return (int)json_get_int(f->lines, pointer, 1);
}

static int file_unknown_member(const struct workload_file *f, const char *name, struct problem *p)
{
    const char *names[ARRAY_SIZE(members)];

    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        names[i] = members[i].name;
    _cleanup_(freep) char *remedy =
        did_you_mean(name, names, ARRAY_SIZE(members), "docs/workload.md lists all members.");
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s, line %d: a workload has no member %.64s", f->name,
                file_line(f, name, NULL), name);
    problem_remedy(p, "%s", remedy);
    return -EINVAL;
}

static int file_check_goals(const struct workload_file *f, const json_t *goals, struct problem *p)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)goals, name, value) {
        if (!goal_is_known(name))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               "%s, line %d: goodput has ttft, tpot and e2e, not %.64s", f->name,
                               file_line(f, "goodput", name), name);
        if (!is_time(value))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               "%s, line %d: %s of goodput must be a duration, such as 200ms", f->name,
                               file_line(f, "goodput", name), name);
    }
    return 0;
}

static int file_check(const struct workload_file *f, const json_t *workload, struct problem *p)
{
    const char *name;
    json_t *value;

    if (!json_is_object(workload))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s is not a workload: it has no members",
                           f->name);
    json_object_foreach((json_t *)workload, name, value) {
        const struct workload_member *m = workload_member(name);
        if (!m)
            return file_unknown_member(f, name, p);
        if (!member_fits(m, value))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s, line %d: %s must be %s", f->name,
                               file_line(f, name, NULL), name, m->expected);
    }
    if (json_object_get(workload, "prompts") && json_object_get(workload, "prompts_file"))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "%s, line %d: prompts and prompts_file exclude each other", f->name,
                           file_line(f, "prompts_file", NULL));
    return file_check_goals(f, json_object_get(workload, "goodput"), p);
}

int workload_parse_text(const char *data, size_t size, const char *name, json_t **ret, struct problem *p)
{
    char error[200];
    _cleanup_(workload_file_done) struct workload_file f = {.name = name};
    _cleanup_json_ workload = yaml_parse_with_lines(data, size, error, &f.lines, NULL);

    if (!workload)
        return problem_set(p, -EBADMSG, PROBLEM_BAD_REQUEST, "cannot read %s: %s", name, error);
    int r = file_check(&f, workload, p);
    if (r == 0)
        *ret = TAKE_PTR(workload);
    return r;
}

static int workload_read_text(const char *path, char **ret, size_t *ret_size, struct problem *p)
{
    int r = read_file(AT_FDCWD, path, WORKLOAD_FILE_MAX, ret, ret_size);

    if (r == -EFBIG)
        return problem_set(p, r, PROBLEM_TOO_LARGE, "%s is larger than %d MiB", path,
                           WORKLOAD_FILE_MAX >> 20);
    return r < 0 ? problem_set(p, r, PROBLEM_BAD_REQUEST, "cannot read %s: %s", path, strerror(-r)) : 0;
}

/* A relative name is relative to the workload's directory. */
static int workload_add_prompts(const char *path, json_t *workload, struct problem *p)
{
    const char *name = json_get_str(workload, "prompts_file"), *slash = strrchr(path, '/');
    json_t *prompts;

    if (!name)
        return 0;
    _cleanup_(freep) char *prompts_path =
        *name == '/' || !slash ? xstrdup(name) : xasprintf("%.*s%s", (int)(slash + 1 - path), path, name);
    int r = prompts_read(prompts_path, json_get_int(workload, "requests", 0), &prompts, p);
    if (r < 0)
        return r;
    json_object_set_new(workload, "prompts", prompts);
    json_object_del(workload, "prompts_file");
    return 0;
}

int workload_read(const char *path, json_t **ret, struct problem *p)
{
    _cleanup_(freep) char *data = NULL;
    _cleanup_json_ workload = NULL;
    size_t size;
    int r = workload_read_text(path, &data, &size, p);

    if (r == 0)
        r = workload_parse_text(data, size, path, &workload, p);
    if (r == 0)
        r = workload_add_prompts(path, workload, p);
    if (r == 0)
        *ret = TAKE_PTR(workload);
    return r;
}

/* JSON or YAML of any shape: the body of --template. */
static int template_read(const char *path, json_t **ret, struct problem *p)
{
    _cleanup_(freep) char *data = NULL;
    char error[200];
    size_t size;
    int r = workload_read_text(path, &data, &size, p);

    if (r < 0)
        return r;
    json_t *body = yaml_parse(data, size, error);
    if (!body)
        return problem_set(p, -EBADMSG, PROBLEM_BAD_REQUEST, "cannot read %s: %s", path, error);
    if (!json_is_object(body)) {
        json_decref(body);
        return problem_set(p, -EBADMSG, PROBLEM_BAD_REQUEST,
                           "%s is not the body of a request: it is not an object", path);
    }
    *ret = body;
    return 0;
}

/* -- Options ------------------------------------------------------------------------------------------ */

/* The options as a table of their own. */
struct own_options {
    struct workload_options workload;
};
static const struct option_def own_options[] = {WORKLOAD_OPTIONS(struct own_options, workload)};

/* Options whose member has another name, and those that are more than a member's value. */
static const struct {
    const char *option, *member;
} other_members[] = {{"ramp", "rate_to"}, {"workload"}, {"prompts"}, {"template"}, {"goodput"}};

static int options_check(const struct workload_options *o, struct problem *p)
{
    if (o->isl == 0) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--isl 0: a prompt has at least one token");
        problem_remedy(p, "--isl 1 is the shortest; --prompts FILE sends your prompts.");
        return -EINVAL;
    }
    if (o->osl == 0) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--osl 0: a response without tokens cannot be measured");
        problem_remedy(
            p,
            "--osl 1 measures the first token; without --osl outputs are as long as the model makes them.");
        return -EINVAL;
    }
    if (o->isl > 0 && o->prompts)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "--isl (synthetic prompts) and --prompts exclude each other");
    if (o->ramp > 0 && o->rate == 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--ramp requires --rate, the rate at its start");
    return 0;
}

/* Exactly, in the largest unit without a fraction: "90s". */
static json_t *duration_json(int64_t ns)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"min", 60 * NS_PER_S}, {"s", NS_PER_S}, {"ms", NS_PER_MS}, {"us", NS_PER_US}, {"ns", 1}};
    char text[40];
    size_t i = 0;

    while (ns % units[i].ns != 0)
        i++;
    snprintf(text, sizeof(text), "%" PRId64 "%s", ns / units[i].ns, units[i].name);
    return json_string(text);
}

/* The member that an option sets unchanged: "shared_prefix" of --shared-prefix; NULL: none. The caller frees. */
static char *option_member_name(const struct option_def *def)
{
    for (size_t i = 0; i < ARRAY_SIZE(other_members); i++)
        if (streq(other_members[i].option, def->name))
            return xstrdup(other_members[i].member);
    char *name = xstrdup(def->name);
    for (char *p = name; *p; p++)
        *p = *p == '-' ? '_' : *p;
    return name;
}

/* NULL: the option was not given. */
static json_t *option_value(const struct option_def *def, const struct workload_options *o)
{
    const void *value = (const char *)o + def->offset;

    if (def->kind == OPTION_TEXT) {
        const char *text = *(const char *const *)value;
        return text ? json_text(text) : NULL;
    }
    if (def->kind == OPTION_REAL)
        return *(const double *)value > 0 ? json_real(*(const double *)value) : NULL;
    int64_t n = *(const int64_t *)value;
    return n == OPTION_ABSENT ? NULL : def->kind == OPTION_DURATION ? duration_json(n) : json_integer(n);
}

static void options_set_members(const struct workload_options *o, json_t *w)
{
    for (size_t i = 0; i < ARRAY_SIZE(own_options); i++) {
        _cleanup_(freep) char *member = option_member_name(&own_options[i]);
        json_t *value = member ? option_value(&own_options[i], o) : NULL;
        if (value)
            json_object_set_new(w, member, value);
    }
}

/* An option replaces the member of a file, and other members that contradict the option. */
static void options_drop_replaced(const struct workload_options *o, json_t *w)
{
    if (o->isl != OPTION_ABSENT)
        json_object_del(w, "prompts");
    if (o->prompts) {
        json_object_del(w, "isl");
        json_object_del(w, "shared_prefix");
    }
    if (o->template)
        json_object_del(w, "api");
}

static int options_read_files(const struct workload_options *o, json_t *w, struct problem *p)
{
    json_t *value;
    int r = 0;

    if (o->prompts) {
        int64_t limit = json_get_int(w, "requests", 0);
        r = prompts_read(o->prompts, limit, &value, p);
        if (r == 0)
            json_object_set_new(w, "prompts", value);
    }
    if (r == 0 && o->template) {
        r = template_read(o->template, &value, p);
        if (r == 0)
            json_object_set_new(w, "template", value);
    }
    if (r == 0 && o->goodput) {
        r = goals_parse(o->goodput, &value, p);
        if (r == 0)
            json_object_set_new(w, "goodput", value);
    }
    return r;
}

static void delete_from_prompts(json_t *prompts, const char *member)
{
    size_t i;
    json_t *prompt;

    json_array_foreach(prompts, i, prompt) {
        if (json_is_object(prompt))
            json_object_del(prompt, member);
    }
}

/*
 * Prompts may have output lengths and timestamps: --osl replaces the lengths, and an osl of the workload those of
 * answers. Timestamps are replayed where nothing else determines when requests are sent, and dropped where an
 * arrival is given; with only a rate or a concurrency the intention is unclear.
 */
static int prompts_resolve(const struct workload_options *o, json_t *w, struct problem *p)
{
    json_t *prompts = json_object_get(w, "prompts");
    const char *arrival = json_get_str(w, "arrival");
    bool is_timed = json_object_get(json_array_get(prompts, 0), "at_ms") != NULL, has_messages = false;
    size_t i;
    json_t *prompt;

    json_array_foreach(prompts, i, prompt) {
        has_messages |= json_object_get(prompt, "messages") != NULL;
    }
    if (has_messages && !json_object_get(w, "api") && !json_object_get(w, "template"))
        json_put_str(w, "api", "chat");
    if (o->osl != OPTION_ABSENT)
        delete_from_prompts(prompts, "osl");
    if (json_object_get(w, "osl"))
        delete_from_prompts(prompts, "answer");
    if (is_timed && arrival && !streq(arrival, "timestamps")) {
        delete_from_prompts(prompts, "at_ms");
    } else if (is_timed && !arrival) {
        if (json_object_get(w, "rate") || json_object_get(w, "concurrency")) {
            problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                        "the prompts have timestamps, and %s is given, which contradict each other",
                        json_object_get(w, "rate") ? "--rate" : "--concurrency");
            problem_remedy(p,
                           "--arrival timestamps replays them (--concurrency limits the requests in flight); "
                           "--arrival closed, constant or poisson ignores them.");
            return -EINVAL;
        }
        json_put_str(w, "arrival", "timestamps");
    }
    return 0;
}

int workload_of_options(const struct workload_options *o, json_t **ret, struct problem *p)
{
    _cleanup_json_ workload = NULL;
    int r = options_check(o, p);

    if (r == 0 && o->file)
        r = workload_read(o->file, &workload, p);
    if (r < 0)
        return r;
    if (!workload)
        workload = json_object();
    options_drop_replaced(o, workload);
    options_set_members(o, workload);
    r = options_read_files(o, workload, p);
    if (r == 0)
        r = prompts_resolve(o, workload, p);
    if (r == 0)
        *ret = TAKE_PTR(workload);
    return r;
}
