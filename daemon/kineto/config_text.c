/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/kineto/config_text.h"

#include "base/alloc.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

static bool config_text_has_control(const char *s)
{
    for (; *s; s++)
        if (iscntrl((unsigned char)*s))
            return true;
    return false;
}

/* Why Kineto would write another file; NULL: it would not. */
static const char *config_text_wrong_file(const char *path)
{
    const char *end = strstr(path, ".json");

    if (path[0] != '/')
        return "is not absolute";
    if (strlen(path) > KINETO_PATH_MAX)
        return "is longer than 1024 bytes";
    /* A second '=' ends the reading of the text, '#' begins a comment. */
    if (strpbrk(path, "=#") || config_text_has_control(path))
        return "contains \"=\", \"#\" or a control character";
    if (isspace((unsigned char)path[strlen(path) - 1]))
        return "ends in a space";
    if (strstr(path, ".."))
        return "contains \"..\", which Kineto refuses";
    /* The process id goes before the first ".json" or ".pt.trace.json", wherever that is. */
    if (!end || end[strlen(".json")] != '\0')
        return "does not have its only \".json\" at the end";
    return NULL;
}

static bool config_text_is_below(const char *path, const char *root)
{
    size_t n = strlen(root);

    while (n > 0 && root[n - 1] == '/')
        n--;
    return strncmp(path, root, n) == 0 && path[n] == '/';
}

static bool config_text_is_list(const char *types)
{
    return *types && strspn(types, "abcdefghijklmnopqrstuvwxyz_,") == strlen(types);
}

static bool config_text_is_id(const char *id)
{
    size_t n = id ? strlen(id) : 0;
    size_t good = 0;

    while (good < n && (strchr(letters, id[good]) || strchr("._-", id[good])))
        good++;
    return n > 0 && n <= KINETO_TRACE_ID_MAX && good == n;
}

static int config_text_check(const struct kineto_recording *r, struct problem *p)
{
    const char *reason = r->trace_file ? config_text_wrong_file(r->trace_file) : "is not set";

    if (reason) {
        problem_remedy(
            p, "Choose another directory with KINETO_ONDEMAND_TRACE_DIR in the environment of the process.");
        return problem_set(p, -EINVAL, PROBLEM_UNSUPPORTED, "Kineto cannot write to %s: the path %s",
                           r->trace_file ? r->trace_file : "a file", reason);
    }
    if (r->trace_root && !config_text_is_below(r->trace_file, r->trace_root)) {
        problem_remedy(p, "Start the process with KINETO_ONDEMAND_TRACE_DIR set to the directory.");
        return problem_set(p, -EINVAL, PROBLEM_UNSUPPORTED, "Kineto writes below %s only, not to %s",
                           r->trace_root, r->trace_file);
    }
    if (!config_text_is_id(r->trace_id))
        return problem_set(p, -EINVAL, PROBLEM_INTERNAL, "the id of the trace is not valid");
    if (r->duration_ms < 1 || r->duration_ms > KINETO_DURATION_MAX_MS)
        return problem_set(p, -EINVAL, PROBLEM_UNSUPPORTED,
                           "a recording by Kineto needs a duration from 1 ms to %" PRId64 " ms",
                           KINETO_DURATION_MAX_MS);
    if (r->start_ms < 1)
        return problem_set(p, -EINVAL, PROBLEM_INTERNAL, "a recording by Kineto needs a start time");
    if (r->warmup_s < 0 || r->warmup_s > KINETO_WARMUP_MAX_S)
        return problem_set(p, -EINVAL, PROBLEM_UNSUPPORTED, "a warm-up of Kineto takes 0 s to %d s",
                           KINETO_WARMUP_MAX_S);
    if (r->types && !config_text_is_list(r->types))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "%s is not a list of activity types such as cpu_op,kernel", r->types);
    if (r->buffer_mib < 0 || r->buffer_mib > KINETO_BUFFER_MAX_MIB)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "a buffer for GPU events has 1 MiB to %d MiB",
                           KINETO_BUFFER_MAX_MIB);
    return 0;
}

char *kineto_config_text(const struct kineto_recording *r, struct problem *p)
{
    const struct {
        const char *key;
        bool is_on;
    } options[] = {
        {"PROFILE_REPORT_INPUT_SHAPES", r->with_shapes}, {"PROFILE_PROFILE_MEMORY", r->with_memory},
        {"PROFILE_WITH_STACK", r->with_stack},           {"PROFILE_WITH_FLOPS", r->with_flops},
        {"PROFILE_WITH_MODULES", r->with_modules},
    };
    char *text = NULL;

    if (config_text_check(r, p) < 0)
        return NULL;
    append_str(&text,
               "ACTIVITIES_LOG_FILE=%s\nREQUEST_TRACE_ID=%s\nPROFILE_START_TIME=%" PRId64
               "\nACTIVITIES_DURATION_MSECS=%" PRId64 "\nACTIVITIES_WARMUP_PERIOD_SECS=%" PRId64 "\n",
               r->trace_file, r->trace_id, r->start_ms, r->duration_ms, r->warmup_s);
    if (r->types)
        append_str(&text, "ACTIVITY_TYPES=%s\n", r->types);
    if (r->buffer_mib > 0)
        append_str(&text, "ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB=%" PRId64 "\n", r->buffer_mib);
    for (size_t i = 0; i < ARRAY_SIZE(options); i++)
        append_str(&text, "%s=%s\n", options[i].key, options[i].is_on ? "true" : "false");
    return text;
}

char *kineto_written_file(const char *trace_file, pid_t inner_pid)
{
    const char *at = strstr(trace_file, ".pt.trace.json");

    if (!at)
        at = strstr(trace_file, ".json");
    if (!at)
        return xstrdup(trace_file);
    return xasprintf("%.*s_%d%s", (int)(at - trace_file), trace_file, (int)inner_pid, at);
}
