/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that a coordinator on another host leads: their creation, and what the coordinator asks of them. Between these
 * two they are like every other session of this host, except that they wait for session_go_at().
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/session/internal.h"
#include <ctype.h>
#include <errno.h>

/* File names contain it. */
#define PROFILE_ID_MAX 128

/* What a coordinator may ask for: how to record, and nothing that names files, hosts or times. */
static const char *const request_members[] = {
    "steps",      "duration_ns",   "start_step", "prompt",      "model",   "activities",
    "with_stack", "record_shapes", "by_stage",   "require_all", "stagger", "labels",
};

bool session_is_leased(const struct session *s)
{
    return s->record.lease_id != RECORD_NONE;
}

static bool is_request_member(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(request_members); i++)
        if (streq(name, request_members[i]))
            return true;
    return false;
}

static bool is_profile_id(const char *id)
{
    size_t n = id ? strlen(id) : 0;

    if (n == 0 || n > PROFILE_ID_MAX || id[0] == '.')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isascii((unsigned char)id[i]) || (!isalnum((unsigned char)id[i]) && !strchr("-_.", id[i])))
            return false;
    return true;
}

static int check_members(const struct lease_start *start, struct problem *p)
{
    const char *name;
    json_t *value;

    if (!json_is_object(start->request))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "request must be a JSON object");
    json_object_foreach(start->request, name, value)
        if (!is_request_member(name))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"%s\" is not an option of a leased session",
                               name);
    if (start->n_workers == 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "workers is empty");
    for (size_t i = 0; i < start->n_workers; i++)
        if (!is_profile_id(start->workers[i].profile_id))
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                               "profile_id of %s is not a name of letters, digits, '-', '_' and '.'",
                               start->workers[i].url);
    return 0;
}

/* The options of the session, as its row has them: whom to record is a list of URLs. */
static json_t *lease_options(const struct lease_start *start)
{
    json_t *options = json_copy(start->request), *urls = json_array();

    for (size_t i = 0; i < start->n_workers; i++)
        json_array_append_new(urls, json_text(start->workers[i].url));
    json_object_set_new(options, "workers", urls);
    return options;
}

int session_create_leased(struct sessions *all, const struct lease_start *start,
                          void (*done)(const struct job_created *created, void *arg), void *arg,
                          struct job_creation **ret, struct problem *p)
{
    struct job_request request;

    int r = check_members(start, p);
    if (r < 0)
        return r;
    _cleanup_json_ options = lease_options(start);
    r = session_request_parse(options, &request, p);
    if (r < 0)
        return r;
    request.lease = lease_start_copy(start);
    /* Its coordinator has looked at its workers, and chosen among them. */
    request.include_unhealthy = request.allow_uncollected = true;
    request.source.here_only = true;
    *ret = job_create(&all->jobs, &request, options, start->actor, done, arg);
    return 0;
}

const struct lease_worker *lease_worker_find(const struct lease_start *lease, const char *worker_url)
{
    for (size_t i = 0; lease && i < lease->n_workers; i++)
        if (streq(lease->workers[i].url, worker_url))
            return &lease->workers[i];
    return NULL;
}

void target_set_start_step(struct target *t, int64_t start_step)
{
    t->start_step = start_step;
}

void session_roll_back(struct session *s, const char *why)
{
    if (s->record.state > STATE_RECORDING)
        return;
    s->rolled_back = true;
    session_explain(s, NULL, "%s", why);
    session_stop(s);
}

static bool is_listed(const char *url, const char *const *urls, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (streq(urls[i], url))
            return true;
    return false;
}

void session_stop_workers(struct session *s, const char *const *urls, size_t n)
{
    size_t n_others = 0;

    for (size_t i = 0; i < s->n_targets; i++)
        n_others += s->targets[i].record.state <= STATE_RECORDING && !s->targets[i].stop_asked &&
                    !is_listed(s->targets[i].worker.url, urls, n);
    if (n_others == 0 || !s->starts_left) {
        session_stop(s);
        return;
    }
    for (size_t i = 0; i < s->n_targets; i++) {
        struct target *t = &s->targets[i];
        if (!is_listed(t->worker.url, urls, n))
            continue;
        if (t->record.state == STATE_RECORDING)
            target_stop(t);
        else if (t->record.state == STATE_STARTING)
            t->stop_asked = true; /* when its start was answered */
    }
    session_check_stopped(s);
}
