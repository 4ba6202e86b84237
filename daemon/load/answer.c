/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/answer.h"

#include "base/alloc.h"
#include "base/http_reason.h"
#include "daemon/fleet/excerpt.h"
#include "daemon/load/prompts.h"
#include <strings.h>

#define EVENT_MAX      (1u << 20)
#define ERROR_BODY_MAX (16u << 10)
#define QUOTED_MAX     160
#define GAP_ROUNDING   500

static const struct {
    const char *type;
    enum answer_form form;
} forms[] = {
    {"text/event-stream", ANSWER_EVENTS},
    {"application/x-ndjson", ANSWER_LINES},
    {"application/jsonl", ANSWER_LINES},
    {"application/json-lines", ANSWER_LINES},
};

void answer_done(struct answer *a)
{
    sse_done(&a->sse);
    free(a->body);
    free(a->gaps_us);
    free(a->text);
    *a = (struct answer){0};
}

void answer_head(struct answer *a, int status, const char *content_type)
{
    a->status = status;
    a->form = ANSWER_WHOLE;
    a->sse.max = EVENT_MAX;
    for (size_t i = 0; i < ARRAY_SIZE(forms) && content_type && status < 300; i++)
        if (strncasecmp(content_type, forms[i].type, strlen(forms[i].type)) == 0)
            a->form = forms[i].form;
}

/* The first one counts: what follows it is often its consequence. */
static void fail(struct answer *a, const char *what, const char *words, size_t size)
{
    char quoted[QUOTED_MAX];

    if (a->error[0])
        return;
    excerpt(words, size, quoted, sizeof(quoted));
    snprintf(a->error, sizeof(a->error), "%s%s%s", what, quoted[0] ? ": " : "", quoted);
}

static void append(char **buf, size_t *size, size_t *room, const char *bytes, size_t n)
{
    if (*size + n > *room) {
        *room = MAX(2 * *room, *size + n);
        *buf = xrealloc(*buf, *room, 1);
    }
    if (n > 0)
        memcpy(*buf + *size, bytes, n);
    *size += n;
}

static void note_token(struct answer *a)
{
    if (a->first_ns == 0) {
        a->first_ns = a->now_ns;
    } else if (a->n_gaps < ANSWER_GAPS_MAX) {
        int64_t gap_us = (a->now_ns - a->last_ns + GAP_ROUNDING) / 1000;
        VEC_GROW(a->gaps_us, a->n_gaps, a->gaps_room);
        a->gaps_us[a->n_gaps++] = (uint32_t)MIN(gap_us, (int64_t)UINT32_MAX);
    }
    a->last_ns = a->now_ns;
}

static void note_text(struct answer *a, const struct api_event *e)
{
    bool more = e->whole_text ? e->text.size > a->text_bytes || e->output_tokens > a->output_tokens
                              : json_found_text(&e->text);

    if (!json_found_text(&e->text) || !more)
        return;
    note_token(a);
    if (e->whole_text)
        a->text_bytes = a->text_size = 0;
    a->text_bytes += e->text.size;
    if (a->keep_text && a->text_size + e->text.size <= ANSWER_TEXT_MAX)
        append(&a->text, &a->text_size, &a->text_room, e->text.at, e->text.size);
}

static void note_event(struct answer *a, const char *text, size_t size)
{
    struct api_event e;

    if (a->error[0])
        return; /* what came in one piece with it counts no more than what comes later */
    if (a->api->event(a->workload, text, size, &e) < 0) {
        fail(a, "an event is no JSON", text, size);
        return;
    }
    if (e.error.kind != JSON_ABSENT) {
        fail(a, "the server reports an error", e.error.at, e.error.size);
        return;
    }
    note_text(a, &e);
    a->input_tokens = MAX(a->input_tokens, e.input_tokens);
    a->output_tokens = MAX(a->output_tokens, e.output_tokens);
    a->finished |= e.finished;
}

static void on_event(const struct sse_event *event, void *arg)
{
    struct answer *a = arg;

    if (api_is_last(event->data))
        a->last_event = true;
    else
        note_event(a, event->data, strlen(event->data));
}

static void feed_lines(struct answer *a, const char *bytes, size_t size)
{
    while (size > 0 && a->body_size <= EVENT_MAX) {
        const char *end = memchr(bytes, '\n', size);
        size_t n = end ? (size_t)(end - bytes) : size;

        append(&a->body, &a->body_size, &a->body_room, bytes, n);
        if (!end)
            return;
        if (a->body_size > 0)
            note_event(a, a->body, a->body_size);
        a->body_size = 0;
        bytes += n + 1;
        size -= n + 1;
    }
}

bool answer_feed(struct answer *a, const char *bytes, size_t size, int64_t now_ns)
{
    size_t whole_max = a->status < 300 ? ANSWER_BYTES_MAX : ERROR_BODY_MAX;

    a->now_ns = now_ns;
    a->bytes += size;
    if (a->bytes > ANSWER_BYTES_MAX) {
        fail(a, "the answer is longer than 64 MiB", "", 0);
        return false;
    }
    switch (a->form) {
    case ANSWER_EVENTS:
        if (sse_feed(&a->sse, bytes, size, on_event, a) < 0)
            fail(a, "an event is longer than 1 MiB", "", 0);
        break;
    case ANSWER_LINES:
        feed_lines(a, bytes, size);
        if (a->body_size > EVENT_MAX)
            fail(a, "a line is longer than 1 MiB", "", 0);
        break;
    case ANSWER_WHOLE:
        append(&a->body, &a->body_size, &a->body_room, bytes,
               MIN(size, whole_max - MIN(whole_max, a->body_size)));
        break;
    }
    return !a->error[0];
}

void answer_end(struct answer *a)
{
    char status[64];

    if (a->status >= 300) {
        snprintf(status, sizeof(status), "%d %s", a->status, http_reason(a->status));
        fail(a, status, a->body ? a->body : "", a->body_size);
        return;
    }
    if (a->form != ANSWER_EVENTS && a->body_size > 0)
        note_event(a, a->body, a->body_size);
    /* HTTP said that this was all of it. */
    a->last_event |= a->form != ANSWER_EVENTS;
}

enum outcome answer_outcome(struct answer *a)
{
    if (a->error[0])
        return a->first_ns ? OUTCOME_INCOMPLETE : OUTCOME_ERROR;
    if (a->first_ns == 0) {
        fail(a, "the answer has no tokens", "", 0);
        return OUTCOME_ERROR;
    }
    if (!a->finished && !a->last_event) {
        fail(a, "the stream ended before the generation did", "", 0);
        return OUTCOME_INCOMPLETE;
    }
    return OUTCOME_SUCCESS;
}

int64_t answer_tokens_seen(const struct answer *a)
{
    return a->form == ANSWER_WHOLE || a->first_ns == 0 ? 0 : (int64_t)a->n_gaps + 1;
}

int64_t answer_output_tokens(const struct answer *a, enum token_source *ret)
{
    *ret = TOKENS_UNKNOWN;
    if (a->output_tokens > 0) {
        *ret = TOKENS_USAGE;
        return a->output_tokens;
    }
    if (a->first_ns == 0)
        return 0;
    *ret = a->form == ANSWER_WHOLE ? TOKENS_ESTIMATED : TOKENS_CHUNKS;
    return a->form == ANSWER_WHOLE ? estimated_tokens(a->text_bytes) : answer_tokens_seen(a);
}
