/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/process_options.h"

#include "base/alloc.h"
#include <errno.h>
#include <pwd.h>

bool process_options_wanted(const struct process_options *o)
{
    return o->kineto || o->pids.n + o->jobs.n + o->uids.n > 0;
}

static int process_parse_number(const char *text, int64_t *ret)
{
    char *end;

    errno = 0;
    *ret = strtoll(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && errno == 0 ? 0 : -EINVAL;
}

static int process_parse_uid(const char *text, int64_t *ret)
{
    if (process_parse_number(text, ret) == 0)
        return 0;
    const struct passwd *user = getpwnam(text);
    if (!user)
        return -ENOENT;
    *ret = (int64_t)user->pw_uid;
    return 0;
}

static int process_options_add_list(const struct option_list *list, const char *option, const char *member,
                                    int (*parse)(const char *text, int64_t *ret), json_t *request,
                                    struct problem *p)
{
    int64_t value;

    if (list->n == 0)
        return 0;
    json_t *numbers = json_array();
    for (size_t i = 0; i < list->n; i++) {
        if (parse(list->items[i], &value) < 0) {
            json_decref(numbers);
            if (streq(option, "slurm-job"))
                problem_remedy(p, "Each element of an array has a number of its own: squeue --me --array "
                                  "--format '%%i %%A'");
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               parse == process_parse_uid ? "--%s: there is no user %s"
                                                          : "--%s must be a number, not %s",
                               option, list->items[i]);
        }
        json_array_append_new(numbers, json_integer(value));
    }
    json_object_set_new(request, member, numbers);
    return 0;
}

int process_options_to_json(const struct process_options *o, const struct option_list *units, json_t **ret,
                            struct problem *p)
{
    _cleanup_json_ request = json_object();

    *ret = NULL;
    if (!process_options_wanted(o))
        return 0;
    int r = process_options_add_list(&o->pids, "pid", "pids", process_parse_number, request, p);
    if (r == 0)
        r = process_options_add_list(&o->jobs, "slurm-job", "slurm_jobs", process_parse_number, request, p);
    if (r == 0)
        r = process_options_add_list(&o->uids, "uid", "uids", process_parse_uid, request, p);
    if (r < 0)
        return r;
    if (units->n > 0) {
        json_t *names = json_array();
        for (size_t i = 0; i < units->n; i++)
            json_array_append_new(names, json_text(units->items[i]));
        json_object_set_new(request, "units", names);
    }
    *ret = TAKE_PTR(request);
    return 0;
}

void process_options_to_query(const json_t *kineto, json_t *members)
{
    static const struct {
        const char *member, *parameter;
    } names[] = {{"pids", "pid"}, {"slurm_jobs", "slurm_job"}, {"uids", "uid"}, {"units", "unit"}};

    json_object_set_new(members, "kineto", json_true());
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const json_t *list = json_object_get(kineto, names[i].member), *value;
        json_t *texts = json_array();
        size_t k;
        json_array_foreach((json_t *)list, k, value) {
            _cleanup_(freep) char *text = json_is_integer(value)
                                              ? xasprintf("%lld", (long long)json_integer_value(value))
                                              : xstrdup(json_string_value(value));
            json_array_append_new(texts, json_text(text));
        }
        if (json_array_size(texts) > 0)
            json_object_set(members, names[i].parameter, texts);
        json_decref(texts);
    }
}
