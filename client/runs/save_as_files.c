/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/save_as_files.h"

#include "base/alloc.h"
#include "client/cli/output.h"
#include "client/runs/requests.h"
#include "client/runs/save_as.h"
#include "client/views/run.h"
#include <errno.h>
#include <sys/stat.h>

int save_as_check(const struct save_as_options *s, struct problem *p)
{
    if (!s->format)
        return s->output ? problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--output requires --save-as") : 0;
    for (size_t i = 0; save_as_formats[i]; i++)
        if (streq(save_as_formats[i], s->format))
            return 0;
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--save-as: unknown format %s", s->format);
    problem_remedy(p, "--save-as vllm-bench or --save-as aiperf, with --output FILE");
    return -EINVAL;
}

static int save_json(const char *path, const json_t *j, struct problem *p)
{
    _cleanup_(output_done) struct output out = {0};
    int r = output_open(path, &out, p);

    if (r < 0)
        return r;
    if (json_dumpf(j, out.file, JSON_INDENT(2)) < 0 || fputc('\n', out.file) == EOF)
        return problem_set(p, -EIO, PROBLEM_STORAGE, "cannot write %s", path);
    return output_keep(&out, p);
}

static int save_records(const char *path, const json_t *run, const json_t *requests, struct problem *p)
{
    _cleanup_(output_done) struct output out = {0};
    size_t i;
    json_t *row;
    int r = output_open(path, &out, p);

    if (r < 0)
        return r;
    json_array_foreach(requests, i, row) {
        _cleanup_json_ record = save_as_aiperf_record(run, row);
        if (json_dumpf(record, out.file, JSON_COMPACT) < 0 || fputc('\n', out.file) == EOF)
            return problem_set(p, -EIO, PROBLEM_STORAGE, "cannot write %s", path);
    }
    return output_keep(&out, p);
}

/* The directory that AIPerf writes, with the file names that its plotter expects. */
static int save_aiperf_directory(const char *directory, const json_t *j, const json_t *run,
                                 const json_t *requests, struct problem *p)
{
    _cleanup_(freep) char *summary = xasprintf("%s/profile_export_aiperf.json", directory),
                          *records = xasprintf("%s/profile_export.jsonl", directory);

    if (mkdir(directory, 0777) < 0 && errno != EEXIST)
        return problem_set(p, -errno, PROBLEM_STORAGE, "cannot create the directory %s: %s", directory,
                           strerror(errno));
    int r = save_json(summary, j, p);
    return r < 0 ? r : save_records(records, run, requests, p);
}

int save_as_write(struct client *c, const struct save_as_options *s, const json_t *run)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ requests = NULL;
    char ref[RUN_REF_MAX];
    int status = requests_get(c, run_ref(ref, run), &requests);

    if (status != EXIT_DONE)
        return status;
    _cleanup_json_ j = save_as(s->format, run, requests, &p);
    bool is_file = !streq(s->format, "aiperf") ||
                   (s->output && (streq(s->output, "-") || ends_with(s->output, ".json")));
    _cleanup_(freep) char *path =
        s->output ? xstrdup(s->output) : xasprintf("%s.%s%s", ref, s->format, is_file ? ".json" : "");
    int r = !j        ? -ENODATA
            : is_file ? save_json(path, j, &p)
                      : save_aiperf_directory(path, j, run, requests, &p);
    if (r < 0)
        return client_fail(c, &p);
    if (!is_file)
        client_note(c, "%s: %s for `aiperf plot %s` (profile_export_aiperf.json, profile_export.jsonl)", path,
                    ref, path);
    else if (!streq(path, "-"))
        client_note(c, "%s: %s in the format of %s", path, ref, s->format);
    return EXIT_DONE;
}
