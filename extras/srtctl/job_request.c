/* SPDX-License-Identifier: Apache-2.0 */
/* The member "job" of a session's request: the phases of a job of srtctl, one for each role, and its folder. */
#include "daemon/jobs/request.h"

#include "base/alloc.h"
#include <errno.h>

#define FOLDER_BYTES_MAX 128

static int job_refuse(struct problem *p, const char *member, const char *expected)
{
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s must be %s", member, expected);
}

/* A name of one directory, in which nothing needs to be quoted; one with an underscore is no session's. */
static bool job_is_folder_name(const char *name)
{
    return name && *name != '.' && *name != '-' && strlen(name) <= FOLDER_BYTES_MAX && strchr(name, '_') &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == strlen(name);
}

static int job_take(const json_t *value, struct job_request *r, struct problem *p)
{
    const char *folder = json_get_str(value, "folder");
    const json_t *phases = json_object_get(value, "phases");
    size_t n = 0;

    if (json_object_size(value) != 2 || !job_is_folder_name(folder) || !json_is_object(phases))
        return job_refuse(p, "job",
                          "{\"folder\": a name of letters, digits, '.', '-' and '_', with a '_', "
                          "\"phases\": steps of prefill, decode or aggregated}");
    replace_str(&r->job.folder, folder);
    r->recording.steps = 0;
    for (int i = 0; i < _JOB_PHASE_MAX; i++) {
        const json_t *phase = json_object_get(phases, job_phase_name((enum job_phase)i)),
                     *steps = json_object_get(phase, "steps"), *first = json_object_get(phase, "start_step");
        if (!phase)
            continue;
        if (!json_is_integer(steps) || json_integer_value(steps) < 1 ||
            (first && (!json_is_integer(first) || json_integer_value(first) < 0)) ||
            json_object_size(phase) != (size_t)(first ? 2 : 1))
            return job_refuse(p, "a phase of job", "{\"start_step\": at least 0, \"steps\": at least 1}");
        r->job.phases[i].start_step = json_integer_value(first);
        r->job.phases[i].steps = json_integer_value(steps);
        r->recording.steps = MAX(r->recording.steps, json_integer_value(steps));
        n++;
    }
    if (n == 0 || n != json_object_size(phases))
        return job_refuse(p, "phases of job", "some of prefill, decode and aggregated");
    return 0;
}

const struct request_extension extra_request_members[] = {{"job", job_take}, {NULL, NULL}};
