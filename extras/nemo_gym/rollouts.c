/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nemo_gym/rollouts.h"

#include "base/alloc.h"
#include "base/fs.h"
#include "client/cli/text.h"
#include "version.h"
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#define FILE_MAX           (256 << 20)
#define POLL_MS            1000
#define CONNECT_TIMEOUT_MS 5000L
/* A rollout calls a model again and again. */
#define ROLLOUT_TIMEOUT_S 3600L
#define EXCERPT_MAX       200

#define AGENT_REF         "agent_ref"
#define TASK_INDEX        "_ng_task_index"
#define ROLLOUT_INDEX     "_ng_rollout_index"

/* -- Reading -- */

static int take_line(const char *path, size_t number, const char *line, size_t size, const char *agent,
                     struct rollouts *r, struct problem *p)
{
    char error[200];
    _cleanup_json_ row = json_parse(line, size, error);

    if (!json_is_object(row))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s:%zu: %s", path, number,
                           row ? "is no JSON object" : error);
    if (!json_get_str(json_object_get(row, AGENT_REF), "name")) {
        if (!agent) {
            problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s:%zu names no agent", path, number);
            problem_remedy(p, "--agent NAME is that of lines without \"agent_ref\".");
            return -EINVAL;
        }
        json_object_set_new(row, AGENT_REF, json_pack("{s:s}", "name", agent));
    }
    if (!json_object_get(row, TASK_INDEX))
        json_put_int(row, TASK_INDEX, (int64_t)json_array_size(r->rows));
    if (!json_object_get(row, ROLLOUT_INDEX))
        json_put_int(row, ROLLOUT_INDEX, 0);
    json_array_append(r->rows, row);
    return 0;
}

int rollouts_read(const char *path, const char *agent, size_t limit, struct rollouts *ret, struct problem *p)
{
    _cleanup_(rollouts_done) struct rollouts r = {.rows = json_array()};
    _cleanup_(freep) char *text = NULL;
    size_t size, number = 1;
    int e = read_file(AT_FDCWD, path, FILE_MAX, &text, &size);

    if (e < 0)
        return problem_set(p, e, PROBLEM_BAD_REQUEST, "cannot read %s: %s", path, strerror(-e));
    for (const char *line = text; line < text + size; number++) {
        size_t n = strcspn(line, "\n");
        if (json_array_size(r.rows) == (limit > 0 ? MIN(limit, (size_t)ROLLOUTS_MAX) : ROLLOUTS_MAX))
            break;
        if (strspn(line, " \t\r") < n) {
            e = take_line(path, number, line, n, agent, &r, p);
            if (e < 0)
                return e;
        }
        line += n + 1;
    }
    if (json_array_size(r.rows) == 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s has no rollouts", path);
    ret->rows = TAKE_PTR(r.rows);
    return 0;
}

void rollouts_done(struct rollouts *r)
{
    json_decref(r->rows);
    r->rows = NULL;
}

/* -- Sending -- */

struct flight {
    CURL *curl;
    const json_t *row; /* NULL: free */
    char *body, *answer;
    size_t size;
};

struct sending {
    const struct rollouts *rollouts;
    const json_t *workers;
    CURLM *multi;
    struct curl_slist *headers;
    struct flight *flights;
    size_t n_flights, n_under_way, next;
    FILE *out;
    struct rollouts_outcome outcome;
};

static const char *agent_url(const json_t *fleet, const json_t *row)
{
    const char *name = json_get_str(json_object_get(row, AGENT_REF), "name");
    size_t i;
    json_t *w;

    json_array_foreach(json_object_get(fleet, "workers"), i, w)
        if (streq(json_get_str(w, "model"), name))
            return json_get_str(w, "url");
    return NULL;
}

int rollouts_check(const struct rollouts *r, const json_t *workers, struct problem *p)
{
    size_t i;
    json_t *row;

    json_array_foreach(r->rows, i, row) {
        if (agent_url(workers, row))
            continue;
        problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "there is no server %s",
                    json_get_str(json_object_get(row, AGENT_REF), "name"));
        problem_remedy(p, "profctl list-workers --router HEAD shows the names, as MODEL.");
        return -ENOENT;
    }
    return 0;
}

static size_t on_bytes(char *data, size_t one, size_t n, void *arg)
{
    struct flight *f = arg;

    (void)one;
    if (n > ROLLOUT_ANSWER_MAX - f->size)
        return 0;
    f->answer = xrealloc(f->answer, f->size + n + 1, 1);
    memcpy(f->answer + f->size, data, n);
    f->size += n;
    f->answer[f->size] = '\0';
    return n;
}

static void launch(struct sending *s, struct flight *f)
{
    const json_t *row = json_array_get(s->rollouts->rows, s->next++);
    _cleanup_(freep) char *url = xasprintf("%s/run", agent_url(s->workers, row));

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
    curl_easy_setopt(f->curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(f->curl, CURLOPT_WRITEDATA, f);
    curl_easy_setopt(f->curl, CURLOPT_PRIVATE, f);
    curl_multi_add_handle(s->multi, f->curl);
    s->n_under_way++;
}

static void clear(struct sending *s, struct flight *f)
{
    if (!f->row)
        return;
    curl_multi_remove_handle(s->multi, f->curl);
    curl_easy_cleanup(f->curl);
    free(f->body);
    free(f->answer);
    *f = (struct flight){0};
    s->n_under_way--;
}

/* NULL where it is none. */
static json_t *result_of(const struct flight *f)
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

static void land(struct sending *s, struct flight *f, CURLcode code)
{
    long status = 0;
    curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &status);
    _cleanup_json_ result = code == CURLE_OK && status / 100 == 2 ? result_of(f) : NULL;

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
    clear(s, f);
}

static void land_all(struct sending *s)
{
    CURLMsg *m;
    int left;

    while ((m = curl_multi_info_read(s->multi, &left))) {
        struct flight *f;
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&f);
        land(s, f, code);
    }
}

static void send_all(struct sending *s, int interrupt_fd)
{
    size_t n = json_array_size(s->rollouts->rows);
    int running;

    while (!s->outcome.interrupted && (s->next < n || s->n_under_way > 0)) {
        struct curl_waitfd extra = {.fd = interrupt_fd, .events = CURL_WAIT_POLLIN};
        for (size_t i = 0; i < s->n_flights && s->next < n; i++)
            if (!s->flights[i].row)
                launch(s, &s->flights[i]);
        curl_multi_perform(s->multi, &running);
        land_all(s);
        if (s->n_under_way > 0)
            curl_multi_poll(s->multi, &extra, interrupt_fd >= 0, POLL_MS, NULL);
        s->outcome.interrupted = extra.revents != 0;
    }
}

void rollouts_send(const struct rollouts *r, const json_t *workers, size_t at_once, FILE *out,
                   int interrupt_fd, struct rollouts_outcome *ret)
{
    struct sending s = {.rollouts = r,
                        .workers = workers,
                        .out = out,
                        .n_flights = MIN(at_once, (size_t)ROLLOUTS_AT_ONCE_MAX)};

    s.multi = curl_multi_init();
    s.headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (!s.multi || !s.headers)
        abort();
    s.flights = xcalloc(s.n_flights, sizeof(*s.flights));
    send_all(&s, interrupt_fd);
    for (size_t i = 0; i < s.n_flights; i++)
        clear(&s, &s.flights[i]);
    free(s.flights);
    curl_multi_cleanup(s.multi);
    curl_slist_free_all(s.headers);
    *ret = s.outcome;
}
