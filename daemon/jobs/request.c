/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/request.h"

#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>
#include <inttypes.h>

static const struct {
    const char *name;
    unsigned bit;
} activities[] = {
    {"cpu", ACTIVITY_CPU},
    {"cuda", ACTIVITY_CUDA},
    {"mem", ACTIVITY_MEM},
    {"cuda-profiler", ACTIVITY_CUDA_PROFILER},
};

static int request_wrong(struct problem *p, const char *member, const char *expected)
{
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s must be %s", member, expected);
}

static int request_take_text(const json_t *v, const char *member, void *field, struct problem *p)
{
    if (!json_is_string(v) || json_string_length(v) == 0)
        return request_wrong(p, member, "a text that is not empty");
    replace_str(field, json_string_value(v));
    return 0;
}

static int request_take_bool(const json_t *v, const char *member, void *field, struct problem *p)
{
    if (!json_is_boolean(v))
        return request_wrong(p, member, "true or false");
    *(bool *)field = json_is_true(v);
    return 0;
}

static int request_take_count(const json_t *v, const char *member, void *field, struct problem *p)
{
    if (!json_is_integer(v) || json_integer_value(v) < 1)
        return request_wrong(p, member, "a whole number, at least 1");
    *(int64_t *)field = json_integer_value(v);
    return 0;
}

static int request_take_port(const json_t *v, const char *member, void *field, struct problem *p)
{
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > UINT16_MAX)
        return request_wrong(p, member, "a port, 1 to 65535");
    *(int64_t *)field = json_integer_value(v);
    return 0;
}

static int request_take_role(const json_t *v, const char *member, void *field, struct problem *p)
{
    int role = role_from_name(json_string_value(v));
    if (role < 0)
        return request_wrong(p, member, "regular, prefill, decode, encode or unknown");
    *(int *)field = role;
    return 0;
}

static int request_take_activities(const json_t *v, const char *member, void *field, struct problem *p)
{
    size_t i, k;
    json_t *word;

    json_array_foreach((json_t *)v, i, word) {
        for (k = 0; k < ARRAY_SIZE(activities) && !streq(activities[k].name, json_string_value(word)); k++)
            ;
        if (k == ARRAY_SIZE(activities))
            break;
        *(unsigned *)field |= activities[k].bit;
    }
    if (!json_is_array(v) || i < json_array_size(v))
        return request_wrong(p, member, "a list of cpu, cuda, mem, cuda-profiler");
    return 0;
}

static int request_take_workers(const json_t *v, const char *member, void *field, struct problem *p)
{
    struct job_request *r = field;
    size_t i;
    json_t *url;

    if (!json_is_array(v) || json_array_size(v) > REQUEST_WORKERS_MAX)
        return request_wrong(p, member, "a list of at most 10000 URLs");
    json_array_foreach((json_t *)v, i, url) {
        if (!json_is_string(url))
            return request_wrong(p, member, "a list of at most 10000 URLs");
        r->only = xrealloc(r->only, r->n_only + 1, sizeof(*r->only));
        r->only[r->n_only++] = xstrdup(json_string_value(url));
    }
    return 0;
}

/* Text, or of targets the list that a file has. */
static int request_take_source(const json_t *v, const char *member, void *field, struct problem *p)
{
    _cleanup_(freep) char *content = json_is_array(v) ? json_dumps(v, JSON_COMPACT) : NULL;
    const char *value = content ? content : json_string_value(v);
    struct source_config *by = field;
    char *reason = NULL;

    if (!value || !*value || strlen(value) > SOURCE_VALUE_MAX || (content && !streq(member, "targets")))
        return request_wrong(p, member, "a text that is not empty, of at most 1 MiB");
    if (source_config_set(by, source_find(member), value, &reason) == 0)
        return 0;
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s", reason);
    free(reason);
    return -EINVAL;
}

static int request_take_labels(const json_t *v, const char *member, void *field, struct problem *p)
{
    const char *key;
    json_t *value;

    if (!json_is_object(v) || json_object_size(v) > REQUEST_LABELS_MAX)
        return request_wrong(p, member, "an object of at most 32 texts");
    json_object_foreach((json_t *)v, key, value)
        if (!json_is_string(value) || strlen(key) > REQUEST_LABEL_BYTES_MAX ||
            json_string_length(value) > REQUEST_LABEL_BYTES_MAX)
            return request_wrong(p, member, "an object of texts of at most 256 bytes");
    json_decref(*(json_t **)field);
    *(json_t **)field = json_deep_copy(v);
    return 0;
}

static int request_take_workload(const json_t *v, const char *member, void *field, struct problem *p)
{
    if (!json_is_object(v))
        return request_wrong(p, member, "an object");
    json_decref(*(json_t **)field);
    *(json_t **)field = json_incref((json_t *)v);
    return 0;
}

static int request_take_through(const json_t *v, const char *member, void *field, struct problem *p)
{
    const char *word = json_string_value(v);

    if (!word || (!streq(word, "router") && !streq(word, "workers")))
        return request_wrong(p, member, "router or workers");
    *(int *)field = streq(word, "router") ? LOAD_THROUGH_ROUTER : LOAD_THROUGH_WORKERS;
    return 0;
}

static int request_take_load(const json_t *v, const char *member, void *field, struct problem *p)
{
    const json_t *through = json_object_get(v, "through"), *until = json_object_get(v, "until");
    const char *word = json_string_value(until);
    struct job_request *r = field;

    if (!json_is_object(v) || json_object_size(v) > (size_t)((through != NULL) + (until != NULL)))
        return request_wrong(p, member, "an object with \"through\" and \"until\"");
    if (until && (!word || (!streq(word, "end") && !streq(word, "recorded"))))
        return request_wrong(p, "until", "end or recorded");
    r->load_ends_with_recording = streq(word, "recorded");
    return through ? request_take_through(through, "through", &r->through, p) : 0;
}

static const char *const job_phases[_JOB_PHASE_MAX] = {
    [JOB_PREFILL] = "prefill",
    [JOB_DECODE] = "decode",
    [JOB_AGGREGATED] = "aggregated",
};

const char *job_phase_name(enum job_phase phase)
{
    return job_phases[phase];
}

enum job_phase job_phase_of(enum role role)
{
    return role == ROLE_PREFILL ? JOB_PREFILL : role == ROLE_DECODE ? JOB_DECODE : JOB_AGGREGATED;
}

struct recording job_request_recording(const struct job_request *r, enum role role)
{
    struct recording recording = r->recording;
    enum job_phase phase = job_phase_of(role);

    if (r->job.folder) {
        recording.steps = r->job.phases[phase].steps;
        recording.start_step = r->job.phases[phase].start_step;
    }
    return recording;
}

bool job_request_matches(const struct job_request *r, const struct worker *w)
{
    /* The request chose the processes already; roles and URLs are those of servers. */
    if (worker_is_on_demand(w))
        return true;
    if (r->role >= 0 && (int)w->role != r->role)
        return false;
    if (r->job.folder && r->job.phases[job_phase_of(w->role)].steps == 0)
        return false;
    if (r->n_only == 0)
        return true;
    for (size_t i = 0; i < r->n_only; i++) {
        size_t n = strlen(r->only[i]);
        while (n > 0 && r->only[i][n - 1] == '/')
            n--;
        if ((strlen(w->url) == n && strncmp(w->url, r->only[i], n) == 0) || streq(w->listed_url, r->only[i]))
            return true;
    }
    return false;
}

static int request_take_processes(const json_t *v, const char *member, void *field, struct problem *p)
{
    (void)member;
    return process_query_parse(v, field, p);
}

#define FIELD(f)                                offsetof(struct job_request, f)

#define MEMBER_OF_SOURCE(key, value, help, arg) {#key, request_take_source, FIELD(source.by), OF_ALL},
#define MEMBER_OF_SETTING(member, option, value, help, of, arg)                                              \
    {#member, request_take_text, FIELD(source.by.member), OF_ALL},

enum {
    OF_SESSIONS = 1,
    OF_RUNS = 2,
    OF_BOTH = OF_SESSIONS | OF_RUNS,
    OF_FLEETS = 4,
    OF_ALL = OF_BOTH | OF_FLEETS
};

static const struct {
    const char *name;
    int (*take)(const json_t *v, const char *member, void *field, struct problem *p);
    size_t offset;
    unsigned whose;
} members[] = {
    {"router", request_take_text, FIELD(source.router), OF_ALL},
    {"fleet", request_take_text, FIELD(source.fleet), OF_ALL},
    FLEET_SOURCES(MEMBER_OF_SOURCE, )
        SOURCE_MEMBERS(MEMBER_OF_SETTING, ){"dialect", request_take_text, FIELD(source.dialect), OF_ALL},
    {"system_port", request_take_port, FIELD(source.system_port), OF_ALL},
    {"trace_dir", request_take_text, FIELD(source.trace_dir), OF_SESSIONS | OF_FLEETS},
    {"workers", request_take_workers, 0, OF_ALL},
    {"kineto", request_take_processes, FIELD(source.processes), OF_SESSIONS | OF_FLEETS},
    {"steps", request_take_count, FIELD(recording.steps), OF_SESSIONS},
    {"duration_ns", request_take_count, FIELD(recording.duration_ns), OF_SESSIONS},
    {"start_step", request_take_count, FIELD(recording.start_step), OF_SESSIONS},
    {"start_at", request_take_count, FIELD(start_at), OF_SESSIONS},
    {"prompt", request_take_text, FIELD(prompt), OF_SESSIONS},
    {"model", request_take_text, FIELD(model), OF_SESSIONS},
    {"activities", request_take_activities, FIELD(recording.activities), OF_SESSIONS},
    {"with_stack", request_take_bool, FIELD(recording.with_stack), OF_SESSIONS},
    {"record_shapes", request_take_bool, FIELD(recording.record_shapes), OF_SESSIONS},
    {"by_stage", request_take_bool, FIELD(recording.by_stage), OF_SESSIONS},
    {"role", request_take_role, FIELD(role), OF_BOTH},
    {"count", request_take_count, FIELD(count), OF_BOTH},
    {"one_per_role", request_take_bool, FIELD(one_per_role), OF_SESSIONS},
    {"include_unhealthy", request_take_bool, FIELD(include_unhealthy), OF_BOTH},
    {"stagger", request_take_bool, FIELD(stagger), OF_SESSIONS},
    {"when_running", request_take_count, FIELD(when_running), OF_SESSIONS},
    {"when_timeout_ns", request_take_count, FIELD(when_timeout_ns), OF_SESSIONS},
    {"require_all", request_take_bool, FIELD(require_all), OF_SESSIONS},
    {"queue", request_take_bool, FIELD(queue), OF_SESSIONS},
    {"allow_uncollected", request_take_bool, FIELD(allow_uncollected), OF_SESSIONS},
    {"labels", request_take_labels, FIELD(labels), OF_BOTH},
    {"workload", request_take_workload, FIELD(workload), OF_BOTH},
    {"load_through", request_take_through, FIELD(through), OF_RUNS},
    {"load", request_take_load, 0, OF_SESSIONS},
};

static const char *const request_nouns[] = {
    [OF_SESSIONS] = "a session", [OF_RUNS] = "a run", [OF_FLEETS] = "a list of workers"};

static int request_take_member(struct job_request *r, unsigned whose, const char *name, const json_t *value,
                               struct problem *p)
{
    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        if (streq(members[i].name, name) && (members[i].whose & whose))
            return members[i].take(value, name, (char *)r + members[i].offset, p);
    for (const struct request_extension *e = extra_request_members; e->name && whose == OF_SESSIONS; e++)
        if (streq(e->name, name))
            return e->take(value, r, p);
    return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"%s\" is not an option of %s", name,
                       request_nouns[whose]);
}

/* Workers alone are a static list; in addition to a router or fleet they select from its workers. */
static void settle_source(struct job_request *r)
{
    if (r->source.router || r->source.fleet || r->source.by.source)
        return;
    r->source.workers = TAKE_PTR(r->only);
    r->source.n_workers = r->n_only;
    r->n_only = 0;
}

static int check_combination(struct job_request *r, struct problem *p)
{
    struct recording *rec = &r->recording;

    rec->from_load = r->workload != NULL;
    if (rec->steps > REQUEST_STEPS_MAX)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "steps is %" PRId64 ", more than %d", rec->steps,
                           REQUEST_STEPS_MAX);
    /* The engine of PyTorch processes refuses stages with a reason of its own. */
    if (rec->by_stage && rec->steps == 0 && !r->source.processes.wanted) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                    "by_stage needs steps: without them SGLang's scheduler crashes");
        problem_remedy(p, "Add --steps N: N prefill and N decode steps are recorded.");
        return -EINVAL;
    }
    if (r->model && !r->prompt)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "model is for a prompt");
    if (r->prompt && strlen(r->prompt) > REQUEST_PROMPT_MAX)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "prompt is longer than %d bytes",
                           REQUEST_PROMPT_MAX);
    rec->prompt = r->prompt;
    rec->model = r->model;
    if (fleet_query_check(&r->source, p) < 0)
        return -EINVAL;
    if (rec->steps == 0 && rec->duration_ns == 0 && !r->workload)
        rec->duration_ns = REQUEST_DURATION_NS;
    if (rec->activities & ACTIVITY_CUDA_PROFILER)
        r->require_all = true;
    return 0;
}

static int job_request_parse(const json_t *j, unsigned whose, struct job_request *ret, struct problem *p)
{
    struct job_request r = {.role = -1, .when_timeout_ns = REQUEST_WHEN_TIMEOUT_NS, .labels = json_object()};
    const char *name;
    json_t *value;
    int err = 0;

    if (!json_is_object(j))
        err = problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "the request's body must be a JSON object");
    else
        json_object_foreach((json_t *)j, name, value) {
            err = request_take_member(&r, whose, name, value, p);
            if (err < 0)
                break;
        }
    if (err == 0)
        err = check_combination(&r, p);
    if (err == 0 && whose == OF_RUNS && !r.workload)
        err = problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "a run needs a workload");
    if (err < 0) {
        job_request_done(&r);
        return err;
    }
    settle_source(&r);
    *ret = r;
    return 0;
}

int session_request_parse(const json_t *j, struct job_request *ret, struct problem *p)
{
    return job_request_parse(j, OF_SESSIONS, ret, p);
}

int run_request_parse(const json_t *j, struct job_request *ret, struct problem *p)
{
    return job_request_parse(j, OF_RUNS, ret, p);
}

int fleet_request_parse(const json_t *j, struct fleet_query *ret, struct problem *p)
{
    struct job_request r;
    int err = job_request_parse(j, OF_FLEETS, &r, p);

    if (err < 0)
        return err;
    fleet_query_copy(&r.source, ret);
    job_request_done(&r);
    return 0;
}

json_t *workload_kept(const json_t *workload)
{
    json_t *kept = json_copy((json_t *)workload);
    const json_t *prompts = json_object_get(workload, "prompts");

    if (prompts) {
        json_put_int(kept, "n_prompts", (int64_t)json_array_size(prompts));
        json_object_del(kept, "prompts");
    }
    return kept;
}

struct lease_start *lease_start_copy(const struct lease_start *l)
{
    struct lease_start *copy = xcalloc(1, sizeof(*copy));

    *copy = (struct lease_start){.lease_id = l->lease_id,
                                 .session_uuid = xstrdup(l->session_uuid),
                                 .coordinator = xstrdup(l->coordinator),
                                 .coordinator_name = xstrdup(l->coordinator_name),
                                 .actor = xstrdup(l->actor),
                                 .deadline_boot_ns = l->deadline_boot_ns,
                                 .workers = xcalloc(l->n_workers, sizeof(*l->workers)),
                                 .n_workers = l->n_workers,
                                 .request = json_deep_copy(l->request)};
    for (size_t i = 0; i < l->n_workers; i++)
        copy->workers[i] = (struct lease_worker){.url = xstrdup(l->workers[i].url),
                                                 .profile_id = xstrdup(l->workers[i].profile_id),
                                                 .shares_dir = l->workers[i].shares_dir,
                                                 .ranks = l->workers[i].ranks,
                                                 .role = l->workers[i].role};
    return copy;
}

static void lease_start_free(struct lease_start *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->n_workers; i++) {
        free(l->workers[i].url);
        free(l->workers[i].profile_id);
    }
    free(l->workers);
    free(l->session_uuid);
    free(l->coordinator);
    free(l->coordinator_name);
    free(l->actor);
    json_decref(l->request);
    free(l);
}

void job_request_done(struct job_request *r)
{
    for (size_t i = 0; i < r->n_only; i++)
        free(r->only[i]);
    free(r->only);
    free(r->prompt);
    free(r->model);
    fleet_query_done(&r->source);
    json_decref(r->labels);
    json_decref(r->workload);
    free(r->job.folder);
    lease_start_free(r->lease);
    *r = (struct job_request){0};
}
