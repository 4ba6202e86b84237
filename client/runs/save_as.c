/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/save_as.h"

#include "client/runs/save_as_internal.h"

#include <errno.h>

const char *const save_as_formats[] = {"vllm-bench", "aiperf", NULL};

static json_t *(*const writers[ARRAY_SIZE(save_as_formats) - 1])(const json_t *, const json_t *) = {
    save_as_vllm,
    save_as_aiperf,
};

json_t *run_value(const json_t *run, const char *object, const char *member)
{
    return json_object_get(object ? json_object_get(run, object) : run, member);
}

double run_number(const json_t *run, const char *object, const char *member, double fallback)
{
    return json_get_number(object ? json_object_get(run, object) : run, member, fallback);
}

double run_duration_s(const json_t *run)
{
    double rate = run_number(run, "throughput", "requests_per_s", 0),
           requests = run_number(run, "requests", "success", 0);

    return run_number(run, NULL, "duration_s", rate > 0 ? requests / rate : 0);
}

json_t *save_as(const char *format, const json_t *run, const json_t *requests, struct problem *p)
{
    size_t i = 0;

    while (save_as_formats[i] && !streq(save_as_formats[i], format))
        i++;
    if (!save_as_formats[i]) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "a run cannot be saved as %s", format);
        problem_remedy(p, "Formats are vllm-bench and aiperf.");
        return NULL;
    }
    if (!json_is_object(json_object_get(run, "metrics"))) {
        problem_set(p, -ENODATA, PROBLEM_CONFLICT, "run %lld has no figures to save",
                    (long long)json_get_int(run, "run", 0));
        problem_remedy(p, "Wait until it has ended; a run that failed before its first request has none.");
        return NULL;
    }
    return writers[i](run, requests);
}
