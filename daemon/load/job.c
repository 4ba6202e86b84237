/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/job.h"

#include "base/alloc.h"
#include "daemon/fleet/url.h"
#include <errno.h>

/* Each prompt consists of a few JSON values. */
#define VALUES_MAX (8 * WORKLOAD_PROMPTS_MAX)

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

static int load_job_fill(const json_t *j, struct load_job *job, struct problem *p)
{
    const json_t *targets = json_object_get(j, "targets"), *warm = json_object_get(j, "warm"),
                 *watched = json_object_get(j, "workers"), *credentials = json_object_get(j, "credentials");
    const char *allow = json_get_str(json_object_get(j, "network"), "allow");
    _cleanup_(freep) char *reason = NULL;

    int r = workload_parse(json_object_get(j, "workload"), &job->workload, p);
    if (r == 0)
        r = load_workers_parse(targets, &job->targets, p);
    if (r == 0)
        r = load_workers_parse(warm ? warm : targets, &job->warm, p);
    if (r == 0)
        r = load_workers_parse(watched ? watched : warm ? warm : targets, &job->watched, p);
    if (r < 0)
        return r;
    if (network_add(&job->policy, allow ? allow : NETWORK_DEFAULT, &reason) < 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "network: %s", reason);
    job->credentials =
        (struct call_credentials){.token_file = xstrdup(json_get_str(credentials, "token_file")),
                                  .ca_file = xstrdup(json_get_str(credentials, "ca_file")),
                                  .cert_file = xstrdup(json_get_str(credentials, "cert_file")),
                                  .key_file = xstrdup(json_get_str(credentials, "key_file"))};
    return 0;
}

int load_job_parse(const char *text, size_t size, struct load_job *ret, struct problem *p)
{
    struct load_job job = {0};
    char error[200];

    _cleanup_json_ j = json_parse_bounded(text, size, VALUES_MAX, error);
    if (!json_is_object(j))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "the job is not a JSON object: %s",
                           j ? "it is another value" : error);
    int r = load_job_fill(j, &job, p);
    if (r < 0)
        load_job_done(&job);
    else
        *ret = job;
    return r;
}

void load_job_done(struct load_job *job)
{
    struct load_workers *const lists[] = {&job->targets, &job->warm, &job->watched};

    for (size_t k = 0; k < ARRAY_SIZE(lists); k++) {
        for (size_t i = 0; i < lists[k]->n; i++) {
            free(lists[k]->items[i].url);
            free(lists[k]->items[i].engine);
        }
        free(lists[k]->items);
    }
    workload_done(&job->workload);
    network_done(&job->policy);
    credentials_done(&job->credentials);
    *job = (struct load_job){0};
}
