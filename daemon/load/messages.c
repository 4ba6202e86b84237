/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/messages.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/load/statistics.h"
#include <errno.h>
#include <event2/buffer.h>
#include <event2/util.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>

#define PENDING_MAX     (1u << 20) /* bytes, beyond which no request is accepted */
#define COMMAND_MAX     16
#define GAPS_TEXT_SIZE  1024
#define NUMBER_TEXT_MAX 16 /* of a gap, with its comma */

struct messages {
    int lines_fd;
    struct evbuffer *out;
    struct event *writable, *readable, *term, *interrupt;
    bool broken;
    char command[COMMAND_MAX]; /* the line so far */
    size_t command_size;
    const struct messages_ops *ops;
    void *arg;
};

/* -- Commands ----------------------------------------------------------------------------------------- */

static void messages_on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct messages *m = arg;
    char bytes[64];
    ssize_t n = read(fd, bytes, sizeof(bytes));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        event_del(m->readable);
        m->ops->stop(m->arg);
        return;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (bytes[i] != '\n') {
            if (m->command_size < COMMAND_MAX - 1)
                m->command[m->command_size++] = bytes[i];
            continue;
        }
        m->command[m->command_size] = '\0';
        m->command_size = 0;
        if (streq(m->command, "go"))
            m->ops->go(m->arg);
        else if (streq(m->command, "stop"))
            m->ops->stop(m->arg);
    }
}

static void messages_on_signal(evutil_socket_t fd, short what, void *arg)
{
    struct messages *m = arg;
    m->ops->stop(m->arg);
}

/* -- Lines -------------------------------------------------------------------------------------------- */

static void messages_write(struct messages *m)
{
    while (evbuffer_get_length(m->out) > 0 && !m->broken) {
        int n = evbuffer_write(m->out, m->lines_fd);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        m->broken = n <= 0;
    }
    if (m->broken)
        evbuffer_drain(m->out, evbuffer_get_length(m->out));
    if (evbuffer_get_length(m->out) > 0)
        event_add(m->writable, NULL);
}

static void messages_on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct messages *m = arg;

    messages_write(m);
    if (messages_accept(m) || m->broken)
        m->ops->writable(m->arg);
}

static void messages_end_line(struct messages *m)
{
    evbuffer_add(m->out, "\n", 1);
    messages_write(m);
    if (m->broken)
        event_active(m->writable, EV_WRITE, 0);
}

void messages_send(struct messages *m, json_t *line)
{
    _cleanup_(freep) char *text = json_dumps(line, JSON_COMPACT);

    json_decref(line);
    if (!text || m->broken)
        return;
    evbuffer_add(m->out, text, strlen(text));
    messages_end_line(m);
}

void messages_send_note(struct messages *m, const char *text, const char *remedy)
{
    json_t *line = json_object();

    json_put_str(line, "t", "note");
    json_put_str(line, "text", text);
    json_put_str(line, "remedy", remedy);
    messages_send(m, line);
}

static void messages_add_text(struct evbuffer *out, const char *name, const char *value)
{
    _cleanup_json_ text = value ? json_text(value) : json_null();
    _cleanup_(freep) char *dumped = json_dumps(text, JSON_ENCODE_ANY);
    evbuffer_add_printf(out, ",\"%s\":%s", name, dumped ? dumped : "null");
}

/* With commas between them, without printf(): there are as many as tokens. */
static void messages_add_gaps(struct evbuffer *out, const uint32_t *gaps_us, uint32_t n)
{
    char text[GAPS_TEXT_SIZE], *end = text;

    for (uint32_t i = 0; i < n; i++) {
        char digits[NUMBER_TEXT_MAX];
        size_t n_digits = 0;
        uint32_t value = gaps_us[i];
        do
            digits[n_digits++] = (char)('0' + value % 10);
        while ((value /= 10) > 0);
        if (i > 0)
            *end++ = ',';
        while (n_digits > 0)
            *end++ = digits[--n_digits];
        if (end > text + sizeof(text) - NUMBER_TEXT_MAX || i + 1 == n) {
            evbuffer_add(out, text, (size_t)(end - text));
            end = text;
        }
    }
}

/* Written by hand: as values of jansson the gaps of a long response would take a hundred times their size. */
void messages_send_request(struct messages *m, const struct request_record *r, const char *target_url)
{
    int64_t tpot_ns = 0;
    bool success = r->outcome == OUTCOME_SUCCESS, tpot = success && load_figure_of(FIGURE_TPOT, r, &tpot_ns);
    const struct {
        const char *name;
        int64_t value;
        bool known;
    } numbers[] = {
        {"prompt", r->prompt, true},
        {"intended_ns", r->intended_ns, true},
        {"sent_ns", r->sent_ns, r->sent_ns >= 0},
        {"first_ns", r->first_ns, r->first_ns >= 0},
        {"last_ns", r->last_ns, r->last_ns >= 0},
        {"end_ns", r->end_ns, r->end_ns >= 0},
        {"ttft_ns", r->first_ns - r->intended_ns, r->first_ns >= 0},
        {"tpot_ns", tpot_ns, tpot},
        {"e2e_ns", r->end_ns - r->intended_ns, success},
        {"lateness_ns", r->sent_ns - r->intended_ns, r->sent_ns >= 0},
        {"input_tokens", r->input_tokens, r->input_tokens >= 0},
        {"output_tokens", r->output_tokens, r->output_tokens >= 0},
        {"status", r->status, r->status != 0},
    };

    if (m->broken)
        return;
    evbuffer_add_printf(m->out, "{\"t\":\"request\",\"index\":%" PRId64, r->index);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (numbers[i].known)
            evbuffer_add_printf(m->out, ",\"%s\":%" PRId64, numbers[i].name, numbers[i].value);
        else
            evbuffer_add_printf(m->out, ",\"%s\":null", numbers[i].name);
    messages_add_text(m->out, "target", target_url);
    evbuffer_add_printf(m->out, ",\"cold\":%s", r->cold ? "true" : "false");
    messages_add_text(m->out, "input_source", token_source_words[r->input_source]);
    messages_add_text(m->out, "output_source", token_source_words[r->output_source]);
    messages_add_text(m->out, "outcome", outcome_words[r->outcome]);
    messages_add_text(m->out, "error", r->error);
    evbuffer_add_printf(m->out, ",\"gaps_us\":[");
    messages_add_gaps(m->out, r->gaps_us, r->n_gaps);
    evbuffer_add_printf(m->out, "]}");
    messages_end_line(m);
}

bool messages_accept(const struct messages *m)
{
    return evbuffer_get_length(m->out) < PENDING_MAX;
}

bool messages_are_broken(const struct messages *m)
{
    return m->broken;
}

void messages_flush(struct messages *m, int64_t deadline_ns)
{
    for (;;) {
        messages_write(m);
        int64_t left_ms = (deadline_ns - mono_ns()) / NS_PER_MS;
        struct pollfd fd = {.fd = m->lines_fd, .events = POLLOUT};
        if (evbuffer_get_length(m->out) == 0 || left_ms <= 0 || poll(&fd, 1, (int)left_ms) < 0)
            return;
    }
}

/* -- Its life ----------------------------------------------------------------------------------------- */

int messages_new(struct event_base *base, int lines_fd, int commands_fd, const struct messages_ops *ops,
                 void *arg, struct messages **ret)
{
    struct messages *m = xcalloc(1, sizeof(*m));

    *m = (struct messages){.lines_fd = lines_fd, .ops = ops, .arg = arg, .out = evbuffer_new()};
    /* epoll refuses regular files, but writing to one never waits: the event is added only where it would. */
    m->writable = event_new(base, lines_fd, EV_WRITE, messages_on_writable, m);
    m->readable = event_new(base, commands_fd, EV_READ | EV_PERSIST, messages_on_readable, m);
    m->term = evsignal_new(base, SIGTERM, messages_on_signal, m);
    m->interrupt = evsignal_new(base, SIGINT, messages_on_signal, m);
    if (!m->out || !m->writable || !m->readable || !m->term || !m->interrupt ||
        evutil_make_socket_nonblocking(lines_fd) < 0 || evutil_make_socket_nonblocking(commands_fd) < 0 ||
        event_add(m->readable, NULL) < 0 || event_add(m->term, NULL) < 0 ||
        event_add(m->interrupt, NULL) < 0) {
        messages_free(m);
        return -EIO;
    }
    *ret = m;
    return 0;
}

struct messages *messages_free(struct messages *m)
{
    if (!m)
        return NULL;
    struct event *const events[] = {m->writable, m->readable, m->term, m->interrupt};
    for (size_t i = 0; i < ARRAY_SIZE(events); i++)
        if (events[i])
            event_free(events[i]);
    if (m->out)
        evbuffer_free(m->out);
    free(m);
    return NULL;
}
