/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/goals.h"

#include "base/alloc.h"
#include "base/units.h"
#include "base/words.h"
#include <errno.h>

static const char *const names[] = {"ttft", "tpot", "e2e"};

bool goal_is_known(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (streq(name, names[i]))
            return true;
    return false;
}

static int refuse(const char *word, const char *why, struct problem *p)
{
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--goodput: '%s' %s", word, why);
    problem_remedy(p, "--goodput ttft:200ms,tpot:30ms,e2e:2s, or some of these");
    return -EINVAL;
}

static int add_goal(json_t *goals, char *word, struct problem *p)
{
    char *colon = strchr(word, ':');
    int64_t ns;

    if (!colon)
        return refuse(word, "is not NAME:TIME", p);
    /* Other programs take a bare number for milliseconds, profctl elsewhere for seconds. */
    if (parse_duration(colon + 1, &ns) < 0 || ns <= 0 || ns == INT64_MAX ||
        strspn(colon + 1, "0123456789.") == strlen(colon + 1))
        return refuse(word, "has no time with a unit, such as 200ms", p);
    *colon = '\0';
    if (!goal_is_known(word))
        return refuse(word, "is none of ttft, tpot and e2e", p);
    if (json_object_get(goals, word))
        return refuse(word, "stands twice", p);
    json_put_str(goals, word, colon + 1);
    return 0;
}

int goals_parse(const char *text, json_t **ret, struct problem *p)
{
    _cleanup_json_ goals = json_object();
    const char *rest = text, *start;

    for (size_t n; (n = words_next(&rest, &start)) > 0;) {
        _cleanup_(freep) char *word = xstrndup(start, n);
        int r = add_goal(goals, word, p);
        if (r < 0)
            return r;
    }
    if (json_object_size(goals) == 0)
        return refuse(text, "names no goal", p);
    *ret = TAKE_PTR(goals);
    return 0;
}
