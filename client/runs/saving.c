/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/saving.h"

#include "base/alloc.h"
#include "client/runs/requests.h"
#include "client/runs/save_as.h"
#include "client/text/run.h"
#include "client/traces/output.h"
#include <errno.h>

int saving_check(const struct saving *s, struct problem *p)
{
    if (!s->format)
        return s->output ? problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--output is for --save-as") : 0;
    for (size_t i = 0; save_as_formats[i]; i++)
        if (streq(save_as_formats[i], s->format))
            return 0;
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--save-as: there is no format %s", s->format);
    problem_remedy(p, "--save-as vllm-bench or --save-as aiperf, with --output FILE");
    return -EINVAL;
}

static int write_json(const char *path, const json_t *j, struct problem *p)
{
    _cleanup_(output_done) struct output out = {0};
    int r = output_open(path, &out, p);

    if (r < 0)
        return r;
    if (json_dumpf(j, out.file, JSON_INDENT(2)) < 0 || fputc('\n', out.file) == EOF)
        return problem_set(p, -EIO, PROBLEM_STORAGE, "cannot write %s", path);
    return output_keep(&out, p);
}

int saving_write(struct client *c, const struct saving *s, const json_t *run)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ requests = NULL;
    char ref[RUN_REF_MAX];
    int status = requests_get(c, run_ref(ref, run), &requests);

    if (status != EXIT_DONE)
        return status;
    _cleanup_json_ j = save_as(s->format, run, requests, &p);
    _cleanup_(freep) char *path = s->output ? xstrdup(s->output) : xasprintf("%s.%s.json", ref, s->format);
    if (!j || write_json(path, j, &p) < 0)
        return client_fail(c, &p);
    if (!streq(path, "-"))
        client_say(c, "%s: %s as %s writes it", path, ref, s->format);
    return EXIT_DONE;
}
