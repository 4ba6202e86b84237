/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/workload_file.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "base/units.h"
#include "base/yaml_json.h"
#include "client/cli/text.h"
#include "client/runs/goals.h"
#include "client/runs/prompts.h"
#include <errno.h>
#include <fcntl.h>

static bool is_text(const json_t *v)
{
    return json_string_length(v) > 0;
}

static bool is_count(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 1;
}

static bool is_whole(const json_t *v)
{
    return json_is_integer(v) && json_integer_value(v) >= 0;
}

static bool is_rate(const json_t *v)
{
    return json_is_number(v) && json_number_value(v) > 0;
}

static bool is_time(const json_t *v)
{
    int64_t ns = 0;
    return json_is_string(v) ? parse_duration(json_string_value(v), &ns) == 0 && ns > 0 : is_rate(v);
}

static bool is_flag(const json_t *v)
{
    return json_is_boolean(v);
}

static bool is_object(const json_t *v)
{
    return json_is_object(v);
}

static bool is_list(const json_t *v)
{
    return json_array_size(v) > 0;
}

static bool is_one_of(const json_t *v, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (json_is_string(v) && streq(words[i], json_string_value(v)))
            return true;
    return false;
}

static bool is_api(const json_t *v)
{
    static const char *const words[] = {"auto", "completions", "chat", "generate", "rtp-llm", "template"};
    return is_one_of(v, words, ARRAY_SIZE(words));
}

static bool is_arrival(const json_t *v)
{
    static const char *const words[] = {"closed", "constant", "poisson", "gamma", "timestamps"};
    return is_one_of(v, words, ARRAY_SIZE(words));
}

#define COUNT "a whole number of at least 1"
#define WHOLE "a whole number of at least 0"
#define TIME  "a time, such as 60s"

static const struct member {
    const char *name;
    bool (*fits)(const json_t *v);
    const char *expected;
} members[] = {
    {"model", is_text, "a text"},
    {"api", is_api, "one of auto, completions, chat, generate, rtp-llm, template"},
    {"path", is_text, "a path, such as /v1/completions"},
    {"template", is_object, "the body of a request"},
    {"template_text", is_text, "a JSON pointer, such as /choices/0/text"},
    {"prompts", is_list, "a list of prompts"},
    {"prompts_file", is_text, "the name of a file"},
    {"isl", is_count, COUNT},
    {"osl", is_count, COUNT},
    {"shared_prefix", is_whole, WHOLE},
    {"requests", is_count, COUNT},
    {"duration", is_time, TIME},
    {"repeat", is_count, COUNT},
    {"concurrency", is_count, COUNT},
    {"arrival", is_arrival, "one of closed, constant, poisson, gamma, timestamps"},
    {"rate", is_rate, "requests a second, more than 0"},
    {"rate_to", is_rate, "requests a second, more than 0"},
    {"burstiness", is_rate, "a number above 0"},
    {"warmup", is_whole, WHOLE},
    {"seed", is_whole, WHOLE},
    {"stream", is_flag, "true or false"},
    {"timeout", is_time, TIME},
    {"drain", is_time, TIME},
    {"goodput", is_object, "{ttft: TIME, tpot: TIME, e2e: TIME}"},
};

static const struct member *find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        if (streq(members[i].name, name))
            return &members[i];
    return NULL;
}

struct file {
    const char *name;
    json_t *lines;
};

static void file_done(struct file *f)
{
    json_decref(f->lines);
}

static int line_of(const struct file *f, const char *member, const char *below)
{
    _cleanup_(freep) char *place = xasprintf("/%s%s%s", member, below ? "/" : "", below ? below : "");
    return (int)json_get_int(f->lines, place, 1);
}

static int unknown_member(const struct file *f, const char *name, struct problem *p)
{
    const char *names[ARRAY_SIZE(members)];

    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        names[i] = members[i].name;
    const char *near = nearest_name(name, names, ARRAY_SIZE(members));
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s, line %d: a workload has no member %.64s", f->name,
                line_of(f, name, NULL), name);
    problem_remedy(p, near ? "Is it %s? docs/workload.md has them all." : "docs/workload.md has them all.",
                   near);
    return -EINVAL;
}

static int check_goals(const struct file *f, const json_t *goals, struct problem *p)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)goals, name, value) {
        if (!goal_is_known(name))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               "%s, line %d: goodput is of ttft, tpot and e2e, not of %.64s", f->name,
                               line_of(f, "goodput", name), name);
        if (!is_time(value))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               "%s, line %d: %s of goodput must be a time, such as 200ms", f->name,
                               line_of(f, "goodput", name), name);
    }
    return 0;
}

static int check(const struct file *f, const json_t *workload, struct problem *p)
{
    const char *name;
    json_t *value;

    if (!json_is_object(workload))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s is no workload: it has no members", f->name);
    json_object_foreach((json_t *)workload, name, value) {
        const struct member *m = find(name);
        if (!m)
            return unknown_member(f, name, p);
        if (!m->fits(value))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s, line %d: %s must be %s", f->name,
                               line_of(f, name, NULL), name, m->expected);
    }
    if (json_object_get(workload, "prompts") && json_object_get(workload, "prompts_file"))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "%s, line %d: prompts and prompts_file exclude each other", f->name,
                           line_of(f, "prompts_file", NULL));
    return check_goals(f, json_object_get(workload, "goodput"), p);
}

int workload_parse_text(const char *data, size_t size, const char *name, json_t **ret, struct problem *p)
{
    char error[200];
    _cleanup_(file_done) struct file f = {.name = name};
    _cleanup_json_ workload = yaml_parse_with_lines(data, size, error, &f.lines, NULL);

    if (!workload)
        return problem_set(p, -EBADMSG, PROBLEM_BAD_REQUEST, "cannot read %s: %s", name, error);
    int r = check(&f, workload, p);
    if (r == 0)
        *ret = TAKE_PTR(workload);
    return r;
}

static int read_text(const char *path, char **ret, size_t *ret_size, struct problem *p)
{
    int r = read_file(AT_FDCWD, path, WORKLOAD_FILE_MAX, ret, ret_size);

    if (r == -EFBIG)
        return problem_set(p, r, PROBLEM_TOO_LARGE, "%s is larger than %d MiB", path,
                           WORKLOAD_FILE_MAX >> 20);
    return r < 0 ? problem_set(p, r, PROBLEM_BAD_REQUEST, "cannot read %s: %s", path, strerror(-r)) : 0;
}

/* A relative name is looked for where the workload lies. */
static int add_prompts(const char *path, json_t *workload, struct problem *p)
{
    const char *name = json_get_str(workload, "prompts_file"), *slash = strrchr(path, '/');
    json_t *prompts;

    if (!name)
        return 0;
    _cleanup_(freep) char *where =
        *name == '/' || !slash ? xstrdup(name) : xasprintf("%.*s%s", (int)(slash + 1 - path), path, name);
    int r = prompts_read(where, json_get_int(workload, "requests", 0), &prompts, p);
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
    int r = read_text(path, &data, &size, p);

    if (r == 0)
        r = workload_parse_text(data, size, path, &workload, p);
    if (r == 0)
        r = add_prompts(path, workload, p);
    if (r == 0)
        *ret = TAKE_PTR(workload);
    return r;
}

int template_read(const char *path, json_t **ret, struct problem *p)
{
    _cleanup_(freep) char *data = NULL;
    char error[200];
    size_t size;
    int r = read_text(path, &data, &size, p);

    if (r < 0)
        return r;
    json_t *body = yaml_parse(data, size, error);
    if (!body)
        return problem_set(p, -EBADMSG, PROBLEM_BAD_REQUEST, "cannot read %s: %s", path, error);
    if (!json_is_object(body)) {
        json_decref(body);
        return problem_set(p, -EBADMSG, PROBLEM_BAD_REQUEST, "%s is no body of a request: no object", path);
    }
    *ret = body;
    return 0;
}
