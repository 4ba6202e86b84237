/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/event_stream.h"

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/clock.h"
#include <errno.h>
#include <poll.h>

/* profd sends a comment every 15 s: a stream that is silent for three of them is dead. */
#define SILENCE_S   45L
#define REFUSAL_MAX 4096

static const struct backoff stream_retry = {.first_ns = 200 * NS_PER_MS, .max_ns = 3 * NS_PER_S};

struct event_stream {
    const struct connection *connection;
    char *path;
    CURLM *multi; /* NULL before the first try */
    CURL *curl;   /* NULL between two tries */
    struct curl_slist *headers;
    struct sse sse;
    void (*fn)(const struct sse_event *event, void *arg);
    void *arg;
    int64_t retry_at, lost_since;
    unsigned n_failures;       /* in a row */
    char refusal[REFUSAL_MAX]; /* the body of an answer that is no stream */
    size_t refusal_size;
    int error;
};

struct event_stream *event_stream_new(const struct connection *d, const char *path,
                                      void (*fn)(const struct sse_event *event, void *arg), void *arg)
{
    struct event_stream *s = xcalloc(1, sizeof(*s));
    s->connection = d;
    s->path = xstrdup(path);
    s->fn = fn;
    s->arg = arg;
    return s;
}

static void stream_disconnect(struct event_stream *s)
{
    if (s->curl) {
        curl_multi_remove_handle(s->multi, s->curl);
        curl_easy_cleanup(s->curl);
    }
    s->curl = NULL;
    curl_slist_free_all(s->headers);
    s->headers = NULL;
}

struct event_stream *event_stream_free(struct event_stream *s)
{
    if (!s)
        return NULL;
    stream_disconnect(s);
    if (s->multi)
        curl_multi_cleanup(s->multi);
    sse_done(&s->sse);
    free(s->path);
    free(s);
    return NULL;
}

static size_t stream_on_bytes(char *data, size_t one, size_t n, void *arg)
{
    struct event_stream *s = arg;
    long status = 0;

    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 300) {
        size_t take = MIN(n, sizeof(s->refusal) - s->refusal_size);
        memcpy(s->refusal + s->refusal_size, data, take);
        s->refusal_size += take;
        return n;
    }
    s->error = sse_feed(&s->sse, data, n, s->fn, s->arg);
    return s->error < 0 ? 0 : n;
}

/* The status line proves that profd answers; the first event may come much later. */
static size_t stream_on_header(char *data, size_t one, size_t n, void *arg)
{
    struct event_stream *s = arg;
    long status = 0;

    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && status < 300) {
        s->lost_since = 0;
        s->n_failures = 0;
    }
    return n;
}

static void stream_connect(struct event_stream *s)
{
    s->curl = curl_easy_init();
    if (!s->multi)
        s->multi = curl_multi_init();
    if (!s->curl || !s->multi)
        abort();
    sse_restart(&s->sse);
    s->refusal_size = 0;
    connection_prepare(s->connection, s->curl, s->path);
    s->headers = curl_slist_append(NULL, "Accept: text/event-stream");
    if (s->sse.id && *s->sse.id) {
        _cleanup_(freep) char *last = xasprintf("Last-Event-ID: %s", s->sse.id);
        s->headers = curl_slist_append(s->headers, last);
    }
    curl_easy_setopt(s->curl, CURLOPT_HTTPHEADER, s->headers);
    curl_easy_setopt(s->curl, CURLOPT_HEADERFUNCTION, stream_on_header);
    curl_easy_setopt(s->curl, CURLOPT_HEADERDATA, s);
    curl_easy_setopt(s->curl, CURLOPT_WRITEFUNCTION, stream_on_bytes);
    curl_easy_setopt(s->curl, CURLOPT_WRITEDATA, s);
    curl_easy_setopt(s->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(s->curl, CURLOPT_LOW_SPEED_TIME, SILENCE_S);
    curl_multi_add_handle(s->multi, s->curl);
}

/* A permanent refusal ends the stream; anything else is retried. */
static int stream_check_ended(struct event_stream *s, struct problem *p)
{
    int n_left, r = 0;

    while (s->curl && curl_multi_info_read(s->multi, &n_left)) {
        long status = 0;
        curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
        if (status >= 400 && status < 500)
            r = problem_from_answer(status, s->refusal, s->refusal_size, p);
        if (s->error == -EMSGSIZE)
            r = problem_set(p, -EPROTO, PROBLEM_UPSTREAM, "an event of profd is larger than %u KiB",
                            SSE_DATA_MAX >> 10);
        stream_disconnect(s);
        if (!s->lost_since)
            s->lost_since = mono_ns();
        s->retry_at = mono_ns() + backoff_ns(&stream_retry, ++s->n_failures, backoff_random());
    }
    return r;
}

static int stream_wait_without_events(int extra_fd, int64_t deadline_ns)
{
    struct pollfd fd = {.fd = extra_fd, .events = POLLIN};
    struct timespec left = {0};
    int64_t left_ns = deadline_ns - mono_ns();

    if (left_ns > 0)
        left = (struct timespec){left_ns / NS_PER_S, left_ns % NS_PER_S};
    return ppoll(&fd, 1, &left, NULL) > 0;
}

int event_stream_wait(struct event_stream *s, int extra_fd, int64_t deadline_ns, struct problem *p)
{
    struct curl_waitfd extra = {.fd = extra_fd, .events = CURL_WAIT_POLLIN};
    int running, n_ready;

    if (!connection_has_events(s->connection))
        return stream_wait_without_events(extra_fd, deadline_ns);

    if (!s->curl && mono_ns() >= s->retry_at)
        stream_connect(s);
    curl_multi_perform(s->multi, &running);
    int r = stream_check_ended(s, p);
    if (r < 0)
        return r;
    if (!s->curl)
        deadline_ns = MIN(deadline_ns, s->retry_at);
    int64_t left_ms = (deadline_ns - mono_ns() + NS_PER_MS - 1) / NS_PER_MS;
    int timeout_ms = left_ms < 0 ? 0 : left_ms > 60000 ? 60000 : (int)left_ms;
    curl_multi_poll(s->multi, &extra, extra_fd >= 0, timeout_ms, &n_ready);
    curl_multi_perform(s->multi, &running);
    r = stream_check_ended(s, p);
    return r < 0 ? r : extra_fd >= 0 && (extra.revents & CURL_WAIT_POLLIN) ? 1 : 0;
}

int64_t event_stream_lost_since(const struct event_stream *s)
{
    return s->lost_since;
}
