/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rollouts, sent to agents of NeMo Gym as ng_collect_rollouts sends them: each line of a JSONL file is one POST of that
 * object to the /run of the agent that it names ("agent_ref": {"name": ...}), or else of a default agent. Each response
 * becomes a line of another file, with the line's _ng_task_index and agent_ref.
 *
 * A session records meanwhile: profd records the servers, and profctl sends the rollouts.
 */
#include "extras/nemo_gym/functions.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "client/cli/output.h"
#include "client/cli/screen.h"
#include "client/cli/text.h"
#include "client/local/user_profd.h"
#include "client/views/follow.h"
#include "client/views/session.h"
#include "version.h"
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#define FILE_MAX             (256 << 20)
#define ROLLOUTS_MAX         100000
#define ROLLOUT_ANSWER_MAX   (64 << 20)
#define ROLLOUTS_AT_ONCE_MAX 1024
#define STATE_INTERVAL_NS    (100 * NS_PER_MS)
#define POLL_MS              1000
#define CONNECT_TIMEOUT_MS   5000L
/* A rollout calls a model again and again. */
#define ROLLOUT_TIMEOUT_S 3600L
#define EXCERPT_MAX       200

#define AGENT_REF         "agent_ref"
#define TASK_INDEX        "_ng_task_index"
#define ROLLOUT_INDEX     "_ng_rollout_index"

struct rollouts_outcome {
    size_t done, failed;
    bool interrupted;
    char *failure; /* the first one; NULL: none */
};

/* -- Reading: rows is an array of objects, each with its agent_ref and indices -- */

static int rollout_take_line(const char *path, size_t number, const char *line, size_t size,
                             const char *agent, json_t *rows, struct problem *p)
{
    char error[200];
    _cleanup_json_ row = json_parse(line, size, error);

    if (!json_is_object(row))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s:%zu: %s", path, number,
                           row ? "not a JSON object" : error);
    if (!json_get_str(json_object_get(row, AGENT_REF), "name")) {
        if (!agent) {
            problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s:%zu names no agent", path, number);
            problem_remedy(p, "--agent NAME names the agent of lines without \"agent_ref\".");
            return -EINVAL;
        }
        json_object_set_new(row, AGENT_REF, json_pack("{s:s}", "name", agent));
    }
    if (!json_object_get(row, TASK_INDEX))
        json_put_int(row, TASK_INDEX, (int64_t)json_array_size(rows));
    if (!json_object_get(row, ROLLOUT_INDEX))
        json_put_int(row, ROLLOUT_INDEX, 0);
    json_array_append(rows, row);
    return 0;
}

static int rollouts_read(const struct rollout_options *o, json_t *rows, struct problem *p)
{
    const size_t most = o->limit > 0 ? MIN((size_t)o->limit, (size_t)ROLLOUTS_MAX) : ROLLOUTS_MAX;
    _cleanup_(freep) char *text = NULL;
    size_t size, number = 1;
    int e = read_file(AT_FDCWD, o->file, FILE_MAX, &text, &size);

    if (e < 0)
        return problem_set(p, e, PROBLEM_BAD_REQUEST, "cannot read %s: %s", o->file, strerror(-e));
    for (const char *line = text; line < text + size && json_array_size(rows) < most; number++) {
        size_t n = strcspn(line, "\n");
        if (strspn(line, " \t\r") < n)
            e = rollout_take_line(o->file, number, line, n, o->agent, rows, p);
        if (e < 0)
            return e;
        line += n + 1;
    }
    return json_array_size(rows) > 0
               ? 0
               : problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s contains no rollouts", o->file);
}

/* -- Sending -- */

struct rollout_call {
    CURL *curl;
    const json_t *row; /* NULL: free */
    char *body, *answer;
    size_t size;
};

struct rollout_sender {
    const json_t *rows, *workers;
    CURLM *multi;
    struct curl_slist *headers;
    struct rollout_call *calls;
    size_t n_calls, n_in_flight, next;
    FILE *out;
    struct rollouts_outcome outcome;
};

static const char *rollout_agent_url(const json_t *fleet, const json_t *row)
{
    const char *name = json_get_str(json_object_get(row, AGENT_REF), "name");
    size_t i;
    json_t *w;

    json_array_foreach(json_object_get(fleet, "workers"), i, w)
        if (streq(json_get_str(w, "model"), name))
            return json_get_str(w, "url");
    return NULL;
}

/* Whether all agents are among the workers, whose models are the names of servers. */
static int rollouts_check(const json_t *rows, const json_t *workers, struct problem *p)
{
    size_t i;
    json_t *row;

    json_array_foreach((json_t *)rows, i, row) {
        if (rollout_agent_url(workers, row))
            continue;
        problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "there is no server %s",
                    json_get_str(json_object_get(row, AGENT_REF), "name"));
        problem_remedy(p, "profctl list-workers --router HEAD shows the names, as MODEL.");
        return -ENOENT;
    }
    return 0;
}

static size_t rollout_on_bytes(char *data, size_t one, size_t n, void *arg)
{
    struct rollout_call *f = arg;

    (void)one;
    if (n > ROLLOUT_ANSWER_MAX - f->size)
        return 0;
    f->answer = xrealloc(f->answer, f->size + n + 1, 1);
    memcpy(f->answer + f->size, data, n);
    f->size += n;
    f->answer[f->size] = '\0';
    return n;
}

static void rollout_launch(struct rollout_sender *s, struct rollout_call *f)
{
    const json_t *row = json_array_get(s->rows, s->next++);
    _cleanup_(freep) char *url = xasprintf("%s/run", rollout_agent_url(s->workers, row));

    f->row = row;
    f->body = json_dumps(row, JSON_COMPACT);
    f->curl = curl_easy_init();
    curl_easy_setopt(f->curl, CURLOPT_URL, url);
    curl_easy_setopt(f->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(f->curl, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(f->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(f->curl, CURLOPT_USERAGENT, "profctl/" PROFD_VERSION);
    curl_easy_setopt(f->curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    curl_easy_setopt(f->curl, CURLOPT_TIMEOUT, ROLLOUT_TIMEOUT_S);
    curl_easy_setopt(f->curl, CURLOPT_HTTPHEADER, s->headers);
    curl_easy_setopt(f->curl, CURLOPT_POSTFIELDS, f->body);
    curl_easy_setopt(f->curl, CURLOPT_WRITEFUNCTION, rollout_on_bytes);
    curl_easy_setopt(f->curl, CURLOPT_WRITEDATA, f);
    curl_easy_setopt(f->curl, CURLOPT_PRIVATE, f);
    curl_multi_add_handle(s->multi, f->curl);
    s->n_in_flight++;
}

static void rollout_clear(struct rollout_sender *s, struct rollout_call *f)
{
    if (!f->row)
        return;
    curl_multi_remove_handle(s->multi, f->curl);
    curl_easy_cleanup(f->curl);
    free(f->body);
    free(f->answer);
    *f = (struct rollout_call){0};
    s->n_in_flight--;
}

/* NULL where it is none. */
static json_t *rollout_result(const struct rollout_call *f)
{
    static const char *const kept[] = {TASK_INDEX, ROLLOUT_INDEX, AGENT_REF};
    char error[200];
    json_t *result = f->answer ? json_parse(f->answer, f->size, error) : NULL;

    for (size_t i = 0; i < ARRAY_SIZE(kept) && json_is_object(result); i++)
        json_object_set(result, kept[i], json_object_get(f->row, kept[i]));
    if (json_is_object(result))
        return result;
    json_decref(result);
    return NULL;
}

static void rollout_land(struct rollout_sender *s, struct rollout_call *f, CURLcode code)
{
    long status = 0;
    curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &status);
    _cleanup_json_ result = code == CURLE_OK && status / 100 == 2 ? rollout_result(f) : NULL;

    if (result) {
        s->outcome.done++;
        if (s->out) {
            json_dumpf(result, s->out, JSON_COMPACT);
            fputc('\n', s->out);
        }
    } else {
        s->outcome.failed++;
        if (!s->outcome.failure && code != CURLE_OK)
            s->outcome.failure = xstrdup(curl_easy_strerror(code));
        else if (!s->outcome.failure)
            s->outcome.failure = xasprintf("%ld %.*s", status, EXCERPT_MAX, f->answer ? f->answer : "");
    }
    rollout_clear(s, f);
}

static void rollouts_land(struct rollout_sender *s)
{
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(s->multi, &left))) {
        struct rollout_call *f;
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&f);
        rollout_land(s, f, code);
    }
}

static void rollouts_send_all(struct rollout_sender *s, int interrupt_fd)
{
    size_t n = json_array_size(s->rows);
    int running;

    while (!s->outcome.interrupted && (s->next < n || s->n_in_flight > 0)) {
        struct curl_waitfd extra = {.fd = interrupt_fd, .events = CURL_WAIT_POLLIN};
        for (size_t i = 0; i < s->n_calls && s->next < n; i++)
            if (!s->calls[i].row)
                rollout_launch(s, &s->calls[i]);
        curl_multi_perform(s->multi, &running);
        rollouts_land(s);
        if (s->n_in_flight > 0)
            curl_multi_poll(s->multi, &extra, interrupt_fd >= 0, POLL_MS, NULL);
        s->outcome.interrupted = extra.revents != 0;
    }
}

/* Writes each response to out (NULL: nowhere) when it arrives. Ends early when interrupt_fd becomes readable. */
static void rollouts_send(const json_t *rows, const json_t *workers, size_t at_once, FILE *out,
                          int interrupt_fd, struct rollouts_outcome *ret)
{
    struct rollout_sender s = {
        .rows = rows, .workers = workers, .out = out, .n_calls = MIN(at_once, (size_t)ROLLOUTS_AT_ONCE_MAX)};

    s.multi = curl_multi_init();
    s.headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (!s.multi || !s.headers)
        abort();
    s.calls = xcalloc(s.n_calls, sizeof(*s.calls));
    rollouts_send_all(&s, interrupt_fd);
    for (size_t i = 0; i < s.n_calls; i++)
        rollout_clear(&s, &s.calls[i]);
    free(s.calls);
    curl_multi_cleanup(s.multi);
    curl_slist_free_all(s.headers);
    *ret = s.outcome;
}

/* -- The session -- */

static int rollout_session_start(struct client *c, const struct source *source, int64_t longest_ns,
                                 char ret[static REF_TEXT_MAX])
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_json_ request = json_object();
    _cleanup_json_ session = NULL;

    json_put_int(request, "duration_ns", longest_ns);
    if (source_to_json(c, source, request, &p) < 0 ||
        connection_call(c->connection, "POST", "/v1/sessions", request, "starting", &session, &p) < 0)
        return client_fail(c, &p);
    const char *id = json_get_str(session, "session");
    if (!id || strlen(id) >= REF_TEXT_MAX)
        return EXIT_FAILED;
    strcpy(ret, id);
    return EXIT_DONE;
}

/* Until it records, or has ended. */
static int rollout_session_wait_recording(struct client *c, const char *id, struct keys *keys)
{
    _cleanup_(freep) char *path = xasprintf("/v1/sessions/%s", id);
    int key = KEY_NONE;

    while (key != KEY_END) {
        _cleanup_json_ session = NULL;
        int status = client_get(c, path, NULL, &session);
        if (status != EXIT_DONE || session_state(session) >= STATE_RECORDING)
            return status;
        key = keys_wait(keys, mono_ns() + STATE_INTERVAL_NS);
    }
    return EXIT_DONE;
}

static int rollout_session_send(struct client *c, const json_t *rows, const json_t *workers,
                                const struct rollout_options *o, int interrupt_fd)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(output_done) struct output out = {0};
    struct rollouts_outcome outcome = {0};

    if (o->output && output_open_as_is(o->output, &out, &p) < 0)
        return client_fail(c, &p);
    rollouts_send(rows, workers, (size_t)o->at_once, o->output ? out.file : NULL, interrupt_fd, &outcome);
    client_note(c, "%zu of %zu rollouts done, %zu failed%s%s%s", outcome.done, json_array_size(rows),
                outcome.failed, outcome.interrupted ? ", interrupted" : "", outcome.failure ? ": " : "",
                outcome.failure ? outcome.failure : "");
    free(outcome.failure);
    if (o->output && output_keep(&out, &p) < 0)
        return client_fail(c, &p);
    return outcome.done == 0 ? EXIT_FAILED : outcome.failed || outcome.interrupted ? EXIT_PARTIAL : EXIT_DONE;
}

/* Also if nothing could be sent. */
static int rollout_session_stop(struct client *c, const char *id)
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xasprintf("/v1/sessions/%s/stop", id);
    _cleanup_json_ session = NULL;

    if (connection_call(c->connection, "POST", path, NULL, NULL, NULL, &p) < 0 &&
        p.kind != PROBLEM_CONFLICT && p.kind != PROBLEM_NOT_FOUND)
        return client_fail(c, &p);
    int status = follow_job(c, id, &c->err, INTERRUPT_LEAVES, NULL, &session);
    if (status != EXIT_DONE)
        return status;
    session_print_outcome(session, &c->err);
    return session_exit_status(session);
}

int rollout_session(struct client *c, const struct source *source, const struct rollout_options *o,
                    char ret[static REF_TEXT_MAX])
{
    _cleanup_(problem_done) struct problem p = {0};
    _cleanup_(freep) char *path = xstrdup("/v1/workers");
    _cleanup_json_ rows = json_array();
    _cleanup_json_ workers = NULL;
    struct keys keys;

    if (rollouts_read(o, rows, &p) < 0)
        return client_fail(c, &p);
    int status = client_need_user_profd(c);
    if (status == EXIT_DONE && source_to_query(c, source, &path, &p) < 0)
        status = client_fail(c, &p);
    if (status == EXIT_DONE)
        status = client_get(c, path, "finding the servers", &workers);
    if (status == EXIT_DONE && rollouts_check(rows, workers, &p) < 0)
        status = client_fail(c, &p);
    if (status == EXIT_DONE)
        status = rollout_session_start(c, source, o->longest_ns, ret);
    if (status != EXIT_DONE)
        return status;
    keys_open(&keys);
    status = rollout_session_wait_recording(c, ret, &keys);
    if (status == EXIT_DONE)
        status = rollout_session_send(c, rows, workers, o, keys.signal_fd);
    keys_close(&keys);
    int stopped = rollout_session_stop(c, ret);
    return stopped != EXIT_DONE ? stopped : status;
}
