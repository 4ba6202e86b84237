/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/emit.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/load/sample.h"
#include <errno.h>
#include <event2/buffer.h>
#include <event2/util.h>
#include <inttypes.h>
#include <poll.h>

#define ROOM (1u << 20)

struct emit {
    int fd;
    struct evbuffer *out;
    struct event *writable;
    bool broken;
    void (*on_room)(void *arg);
    void *arg;
};

static const char *const outcomes[_OUTCOME_MAX] = {
    [OUTCOME_SUCCESS] = "success",
    [OUTCOME_INCOMPLETE] = "incomplete",
    [OUTCOME_ERROR] = "error",
};

static const char *const sources[] = {
    [TOKENS_UNKNOWN] = "unknown", [TOKENS_USAGE] = "usage",         [TOKENS_TOKENIZED] = "tokenized",
    [TOKENS_CHUNKS] = "chunks",   [TOKENS_ESTIMATED] = "estimated",
};

static void write_some(struct emit *e)
{
    while (evbuffer_get_length(e->out) > 0 && !e->broken) {
        int n = evbuffer_write(e->out, e->fd);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            break;
        e->broken = n <= 0;
    }
    if (e->broken)
        evbuffer_drain(e->out, evbuffer_get_length(e->out));
}

static void watch(struct emit *e)
{
    if (evbuffer_get_length(e->out) > 0)
        event_add(e->writable, NULL);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct emit *e = arg;

    write_some(e);
    watch(e);
    if (emit_has_room(e) || e->broken)
        e->on_room(e->arg);
}

int emit_new(struct event_base *base, int fd, void (*on_room)(void *arg), void *arg, struct emit **ret)
{
    struct emit *e = xcalloc(1, sizeof(*e));

    *e = (struct emit){.fd = fd, .on_room = on_room, .arg = arg, .out = evbuffer_new()};
    /* epoll takes no regular file; writing to one does not wait. */
    e->writable = event_new(base, fd, EV_WRITE, on_writable, e);
    if (!e->out || !e->writable || evutil_make_socket_nonblocking(fd) < 0) {
        emit_free(e);
        return -ENOMEM;
    }
    *ret = e;
    return 0;
}

struct emit *emit_free(struct emit *e)
{
    if (!e)
        return NULL;
    if (e->writable)
        event_free(e->writable);
    if (e->out)
        evbuffer_free(e->out);
    free(e);
    return NULL;
}

bool emit_has_room(const struct emit *e)
{
    return evbuffer_get_length(e->out) < ROOM;
}

bool emit_is_broken(const struct emit *e)
{
    return e->broken;
}

static void line_ends(struct emit *e)
{
    evbuffer_add(e->out, "\n", 1);
    write_some(e);
    watch(e);
    if (e->broken)
        event_active(e->writable, EV_WRITE, 0);
}

void emit_line(struct emit *e, json_t *line)
{
    _cleanup_(freep) char *text = json_dumps(line, JSON_COMPACT);

    json_decref(line);
    if (!text || e->broken)
        return;
    evbuffer_add(e->out, text, strlen(text));
    line_ends(e);
}

void emit_note(struct emit *e, const char *text, const char *remedy)
{
    json_t *line = json_object();

    json_put_str(line, "t", "note");
    json_put_str(line, "text", text);
    json_put_str(line, "remedy", remedy);
    emit_line(e, line);
}

static void put_text(struct evbuffer *out, const char *name, const char *value)
{
    _cleanup_json_ text = value ? json_text(value) : json_null();
    _cleanup_(freep) char *dumped = json_dumps(text, JSON_ENCODE_ANY);
    evbuffer_add_printf(out, ",\"%s\":%s", name, dumped ? dumped : "null");
}

static void put_number(struct evbuffer *out, const char *name, int64_t value, bool known)
{
    if (known)
        evbuffer_add_printf(out, ",\"%s\":%" PRId64, name, value);
    else
        evbuffer_add_printf(out, ",\"%s\":null", name);
}

static void put_gaps(struct evbuffer *out, const struct request_record *r)
{
    evbuffer_add_printf(out, ",\"gaps_us\":[");
    for (uint32_t i = 0; i < r->n_gaps; i++)
        evbuffer_add_printf(out, i ? ",%" PRIu32 : "%" PRIu32, r->gaps_us[i]);
    evbuffer_add_printf(out, "]}");
}

/* By hand: as jansson's values the gaps of a long answer would take a hundred times their size. */
void emit_request(struct emit *e, const struct request_record *r, const char *target_url)
{
    int64_t tpot_ns = 0;
    bool success = r->outcome == OUTCOME_SUCCESS, tpot = success && figure_of(FIGURE_TPOT, r, &tpot_ns);
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

    if (e->broken)
        return;
    evbuffer_add_printf(e->out, "{\"t\":\"request\",\"index\":%" PRId64, r->index);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        put_number(e->out, numbers[i].name, numbers[i].value, numbers[i].known);
    put_text(e->out, "target", target_url);
    evbuffer_add_printf(e->out, ",\"cold\":%s", r->cold ? "true" : "false");
    put_text(e->out, "input_source", sources[r->input_source]);
    put_text(e->out, "output_source", sources[r->output_source]);
    put_text(e->out, "outcome", outcomes[r->outcome]);
    put_text(e->out, "error", r->error);
    put_gaps(e->out, r);
    line_ends(e);
}

void emit_flush(struct emit *e, int64_t deadline_ns)
{
    for (;;) {
        write_some(e);
        int64_t left_ms = (deadline_ns - mono_ns()) / NS_PER_MS;
        struct pollfd fd = {.fd = e->fd, .events = POLLOUT};
        if (evbuffer_get_length(e->out) == 0 || left_ms <= 0 || poll(&fd, 1, (int)left_ms) < 0)
            return;
    }
}
