/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/process_query.h"

#include "base/alloc.h"
#include <errno.h>
#include <fnmatch.h>

#define SERVICE_SUFFIX ".service"
#define UNIT_BYTES_MAX 256

static int query_take_numbers(const json_t *list, const char *member, int64_t **ret, size_t *ret_n,
                              struct problem *p)
{
    size_t i, n = json_array_size(list);
    json_t *item;

    if (!json_is_array(list) || n > PROCESS_QUERY_MAX)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "kineto.%s must be a list of at most %d numbers",
                           member, PROCESS_QUERY_MAX);
    *ret = xcalloc(MAX(n, 1u), sizeof(**ret));
    json_array_foreach((json_t *)list, i, item) {
        if (!json_is_integer(item) || json_integer_value(item) < 0)
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "kineto.%s must be a list of numbers",
                               member);
        (*ret)[(*ret_n)++] = json_integer_value(item);
    }
    return 0;
}

static int query_take_units(const json_t *list, struct process_query *q, struct problem *p)
{
    size_t i, n = json_array_size(list);
    json_t *item;

    if (!json_is_array(list) || n > PROCESS_QUERY_MAX)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "kineto.units must be a list of at most %d names",
                           PROCESS_QUERY_MAX);
    q->units = xcalloc(MAX(n, 1u), sizeof(*q->units));
    json_array_foreach((json_t *)list, i, item) {
        size_t size = json_string_length(item);
        if (size == 0 || size > UNIT_BYTES_MAX)
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               "kineto.units must be a list of names of units");
        q->units[q->n_units++] = xstrdup(json_string_value(item));
    }
    return 0;
}

int process_query_parse(const json_t *j, struct process_query *ret, struct problem *p)
{
    struct process_query q = {.wanted = true};
    const struct {
        const char *name;
        int64_t **items;
        size_t *n;
    } numbers[] = {
        {"pids", &q.pids, &q.n_pids}, {"slurm_jobs", &q.jobs, &q.n_jobs}, {"uids", &q.uids, &q.n_uids}};
    const char *name;
    json_t *value;
    int r = 0;

    if (!json_is_object(j))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "kineto must be an object");
    json_object_foreach((json_t *)j, name, value) {
        size_t i = 0;
        while (i < ARRAY_SIZE(numbers) && !streq(name, numbers[i].name))
            i++;
        if (i < ARRAY_SIZE(numbers))
            r = query_take_numbers(value, name, numbers[i].items, numbers[i].n, p);
        else if (streq(name, "units"))
            r = query_take_units(value, &q, p);
        else
            r = problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "kineto has no member \"%s\"", name);
        if (r < 0)
            break;
    }
    if (r < 0) {
        process_query_done(&q);
        return r;
    }
    *ret = q;
    return 0;
}

static int64_t *numbers_copy(const int64_t *items, size_t n)
{
    int64_t *copy = xcalloc(MAX(n, 1u), sizeof(*copy));

    if (n > 0)
        memcpy(copy, items, n * sizeof(*copy));
    return copy;
}

void process_query_copy(const struct process_query *q, struct process_query *ret)
{
    *ret = *q;
    ret->pids = numbers_copy(q->pids, q->n_pids);
    ret->jobs = numbers_copy(q->jobs, q->n_jobs);
    ret->uids = numbers_copy(q->uids, q->n_uids);
    ret->units = xcalloc(MAX(q->n_units, 1u), sizeof(*ret->units));
    for (size_t i = 0; i < q->n_units; i++)
        ret->units[i] = xstrdup(q->units[i]);
}

void process_query_done(struct process_query *q)
{
    free(q->pids);
    free(q->jobs);
    free(q->uids);
    for (size_t i = 0; i < q->n_units; i++)
        free(q->units[i]);
    free(q->units);
    *q = (struct process_query){0};
}

static bool numbers_have(const int64_t *items, size_t n, int64_t value)
{
    for (size_t i = 0; i < n; i++)
        if (items[i] == value)
            return true;
    return n == 0;
}

static bool units_match(const struct process_query *q, const char *unit)
{
    for (size_t i = 0; i < q->n_units && unit; i++) {
        _cleanup_(freep) char *service = xasprintf("%s" SERVICE_SUFFIX, q->units[i]);
        if (fnmatch(q->units[i], unit, 0) == 0 || fnmatch(service, unit, 0) == 0)
            return true;
    }
    return q->n_units == 0;
}

bool process_query_selects(const struct process_query *q, const struct process_facts *f)
{
    return q->wanted && numbers_have(q->pids, q->n_pids, f->pid) &&
           numbers_have(q->jobs, q->n_jobs, f->job) && numbers_have(q->uids, q->n_uids, f->uid) &&
           units_match(q, f->unit);
}

bool process_query_may_record(const struct process_query *q, uid_t uid)
{
    return q->may_all || (q->has_uid && q->uid == uid);
}

bool process_query_names(const struct process_query *q, pid_t pid)
{
    return q->n_pids > 0 && numbers_have(q->pids, q->n_pids, pid);
}
