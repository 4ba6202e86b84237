/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/request.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/http_reason.h"
#include "daemon/fleet/answer_text.h"
#include <errno.h>
#include <strings.h>

#define EVENT_MAX      (1u << 20)
#define ERROR_BODY_MAX (16u << 10)
#define QUOTED_MAX     160
#define GAP_ROUNDING   500
/* A longer pause would look like a run that hangs. */
#define RETRY_AFTER_MAX_S 60

static const struct {
    const char *type;
    enum response_form form;
} forms[] = {
    {"text/event-stream", RESPONSE_EVENTS},
    {"application/x-ndjson", RESPONSE_LINES},
    {"application/jsonl", RESPONSE_LINES},
    {"application/json-lines", RESPONSE_LINES},
};

/* -- The response ------------------------------------------------------------------------------------- */

void response_done(struct response *a)
{
    sse_done(&a->sse);
    free(a->body);
    free(a->gaps_us);
    free(a->text);
    *a = (struct response){0};
}

void response_head(struct response *a, int status, const char *content_type)
{
    a->status = status;
    a->form = RESPONSE_COMPLETE;
    a->sse.max = EVENT_MAX;
    for (size_t i = 0; i < ARRAY_SIZE(forms) && content_type && status < 300; i++)
        if (strncasecmp(content_type, forms[i].type, strlen(forms[i].type)) == 0)
            a->form = forms[i].form;
}

/* Keeps the first error: later ones are often its consequences. */
static void response_fail(struct response *a, const char *what, const char *text, size_t size)
{
    char quoted[QUOTED_MAX];

    if (a->error[0])
        return;
    excerpt(text, size, quoted, sizeof(quoted));
    snprintf(a->error, sizeof(a->error), "%s%s%s", what, quoted[0] ? ": " : "", quoted);
}

static void response_append(char **buf, size_t *size, size_t *cap, const char *bytes, size_t n)
{
    if (!ARRAY_RESERVE(*buf, *cap, *size + n))
        out_of_memory();
    if (n > 0)
        memcpy(*buf + *size, bytes, n);
    *size += n;
}

static void response_note_token(struct response *a)
{
    if (a->first_ns == 0) {
        a->first_ns = a->now_ns;
    } else if (a->n_gaps < RESPONSE_GAPS_MAX) {
        int64_t gap_us = (a->now_ns - a->last_ns + GAP_ROUNDING) / 1000;
        VEC_GROW(a->gaps_us, a->n_gaps, a->gaps_cap);
        a->gaps_us[a->n_gaps++] = (uint32_t)MIN(gap_us, (int64_t)UINT32_MAX);
    }
    a->last_ns = a->now_ns;
}

static void response_note_text(struct response *a, const struct api_event *e)
{
    bool more = e->is_cumulative ? e->text.size > a->text_bytes || e->output_tokens > a->output_tokens
                                 : json_found_text(&e->text);

    if (!json_found_text(&e->text) || !more)
        return;
    response_note_token(a);
    if (e->is_cumulative)
        a->text_bytes = a->text_size = 0;
    a->text_bytes += e->text.size;
    if (a->keep_text && a->text_size + e->text.size <= RESPONSE_TEXT_MAX)
        response_append(&a->text, &a->text_size, &a->text_cap, e->text.at, e->text.size);
}

static void response_note_event(struct response *a, const char *text, size_t size)
{
    struct api_event e;

    if (a->error[0])
        return;
    if (api_read_event(a->api, a->workload, text, size, &e) < 0) {
        response_fail(a, "an event is not JSON", text, size);
        return;
    }
    if (e.error.kind != JSON_ABSENT) {
        response_fail(a, "the server reports an error", e.error.at, e.error.size);
        return;
    }
    response_note_text(a, &e);
    a->input_tokens = MAX(a->input_tokens, e.input_tokens);
    a->output_tokens = MAX(a->output_tokens, e.output_tokens);
    a->finished |= e.finished;
}

static void response_take_data(struct response *a, const char *data, size_t size)
{
    if (api_is_last(data, size))
        a->last_event = true;
    else
        response_note_event(a, data, size);
}

static void response_on_event(const struct sse_event *event, void *arg)
{
    response_take_data(arg, event->data, strlen(event->data));
}

/* Events of one line are read where they lie; only what is cut or has further fields is copied. */
static int response_feed_events(struct response *a, const char *bytes, size_t size)
{
    const char *data;
    size_t n;

    while ((data = sse_take(&a->sse, &bytes, &size, &n)))
        response_take_data(a, data, n);
    return sse_feed(&a->sse, bytes, size, response_on_event, a);
}

static void response_feed_lines(struct response *a, const char *bytes, size_t size)
{
    while (size > 0 && a->body_size <= EVENT_MAX) {
        const char *end = memchr(bytes, '\n', size);
        size_t n = end ? (size_t)(end - bytes) : size;

        response_append(&a->body, &a->body_size, &a->body_cap, bytes, n);
        if (!end)
            return;
        if (a->body_size > 0)
            response_note_event(a, a->body, a->body_size);
        a->body_size = 0;
        bytes += n + 1;
        size -= n + 1;
    }
}

bool response_feed(struct response *a, const char *bytes, size_t size, int64_t now_ns)
{
    size_t body_max = a->status < 300 ? RESPONSE_BYTES_MAX : ERROR_BODY_MAX;

    a->now_ns = now_ns;
    a->bytes += size;
    if (a->bytes > RESPONSE_BYTES_MAX) {
        response_fail(a, "the response is longer than 64 MiB", "", 0);
        return false;
    }
    switch (a->form) {
    case RESPONSE_EVENTS:
        if (response_feed_events(a, bytes, size) < 0)
            response_fail(a, "an event is longer than 1 MiB", "", 0);
        break;
    case RESPONSE_LINES:
        response_feed_lines(a, bytes, size);
        if (a->body_size > EVENT_MAX)
            response_fail(a, "a line is longer than 1 MiB", "", 0);
        break;
    case RESPONSE_COMPLETE:
        response_append(&a->body, &a->body_size, &a->body_cap, bytes,
                        MIN(size, body_max - MIN(body_max, a->body_size)));
        break;
    }
    return !a->error[0];
}

void response_end(struct response *a)
{
    char status[64];

    if (a->status >= 300) {
        snprintf(status, sizeof(status), "%d %s", a->status, http_reason(a->status));
        response_fail(a, status, a->body ? a->body : "", a->body_size);
        return;
    }
    if (a->form != RESPONSE_EVENTS && a->body_size > 0)
        response_note_event(a, a->body, a->body_size);
    /* HTTP marks the end of a response that is not a stream of events. */
    a->last_event |= a->form != RESPONSE_EVENTS;
}

enum outcome response_outcome(struct response *a)
{
    if (a->error[0])
        return a->first_ns ? OUTCOME_INCOMPLETE : OUTCOME_ERROR;
    if (a->first_ns == 0) {
        response_fail(a, "the response has no tokens", "", 0);
        return OUTCOME_ERROR;
    }
    if (!a->finished && !a->last_event) {
        response_fail(a, "the stream ended before the generation did", "", 0);
        return OUTCOME_INCOMPLETE;
    }
    return OUTCOME_SUCCESS;
}

int64_t response_tokens_seen(const struct response *a)
{
    return a->form == RESPONSE_COMPLETE || a->first_ns == 0 ? 0 : (int64_t)a->n_gaps + 1;
}

int64_t response_output_tokens(const struct response *a, enum token_source *ret)
{
    *ret = TOKENS_UNKNOWN;
    if (a->output_tokens > 0) {
        *ret = TOKENS_USAGE;
        return a->output_tokens;
    }
    if (a->first_ns == 0)
        return 0;
    *ret = a->form == RESPONSE_COMPLETE ? TOKENS_ESTIMATED : TOKENS_CHUNKS;
    return a->form == RESPONSE_COMPLETE ? estimated_tokens(a->text_bytes) : response_tokens_seen(a);
}

/* -- The request -------------------------------------------------------------------------------------- */

static void request_on_sent(void *arg, int64_t now_ns)
{
    struct request *r = arg;
    r->record.sent_ns = now_ns;
}

static void request_on_head(void *arg, int status, const char *content_type)
{
    struct request *r = arg;
    response_head(&r->response, status, content_type);
}

static bool request_on_body(void *arg, const char *bytes, size_t size, int64_t now_ns)
{
    struct request *r = arg;
    int64_t before = response_tokens_seen(&r->response);
    bool more = response_feed(&r->response, bytes, size, now_ns);

    if (r->setup.tokens_seen)
        *r->setup.tokens_seen += response_tokens_seen(&r->response) - before;
    return more;
}

static void request_take_tokens(struct request *r)
{
    struct request_record *record = &r->record;
    struct response *a = &r->response;

    record->output_tokens = response_output_tokens(a, &record->output_source);
    r->target->counts_tokens |= record->output_source == TOKENS_USAGE;
    if (a->input_tokens > 0) {
        record->input_tokens = a->input_tokens;
        record->input_source = TOKENS_USAGE;
    }
}

static void request_on_done(void *arg, const struct http_end *end)
{
    struct request *r = arg;
    struct request_record *record = &r->record;
    struct response *a = &r->response;

    record->end_ns = mono_ns();
    a->now_ns = record->end_ns;
    if (end->err == 0)
        response_end(a);
    else if (!a->error[0])
        snprintf(a->error, sizeof(a->error), "%s", end->error);
    record->outcome = response_outcome(a);
    record->status = a->status;
    record->first_ns = response_tokens_seen(a) > 0 ? a->first_ns : -1;
    record->last_ns = response_tokens_seen(a) > 0 ? a->last_ns : -1;
    record->gaps_us = TAKE_PTR(a->gaps_us);
    record->n_gaps = a->n_gaps;
    record->error = a->error[0] ? a->error : NULL;
    request_take_tokens(r);
    r->retry_after_ns = MIN(end->retry_after_s, INT64_C(1) * RETRY_AFTER_MAX_S) * NS_PER_S;
    r->setup.done(r, r->setup.arg);
}

const struct http_pool_ops request_ops = {
    .sent = request_on_sent, .head = request_on_head, .body = request_on_body, .done = request_on_done};

struct request *request_new(const struct request_setup *o)
{
    struct request *r = xcalloc(1, sizeof(*r));
    const struct workload *w = o->prompts->workload;

    r->setup = *o;
    r->response.api = o->api;
    r->response.workload = w;
    r->record = (struct request_record){.index = o->index,
                                        .prompt = prompts_of_request(o->prompts, o->index),
                                        .sent_ns = -1,
                                        .first_ns = -1,
                                        .last_ns = -1,
                                        .output_tokens = -1};
    _cleanup_(freep) char *prompt =
        prompts_text(o->prompts, r->record.prompt, &r->record.input_tokens, &r->record.input_source);
    if (r->record.input_tokens < 0) {
        r->record.input_tokens = estimated_tokens(strlen(prompt));
        r->record.input_source = TOKENS_ESTIMATED;
    }
    _cleanup_json_ body =
        o->api->body(&(struct api_request){.workload = w,
                                           .model = o->model,
                                           .prompt = prompt,
                                           .messages = prompts_messages(o->prompts, r->record.prompt),
                                           .osl = prompts_osl(o->prompts, r->record.prompt)});
    r->body = json_dumps(body, JSON_COMPACT);
    r->body_size = r->body ? strlen(r->body) : 0;
    return r;
}

bool request_send(struct request *r, struct http_pool *pool, struct load_target *target, int32_t target_index,
                  int64_t intended_ns)
{
    r->target = target;
    r->response.keep_text = target->api->tokenize_path && !target->counts_tokens;
    r->record.target = target_index;
    r->record.cold = !target->is_known;
    r->record.intended_ns = intended_ns;
    int err = r->body ? http_pool_send(pool, target, TAKE_PTR(r->body), r->body_size,
                                       r->setup.prompts->workload->timeout_ns, r)
                      : -EINVAL;
    if (err == 0)
        return true;
    r->record.end_ns = mono_ns();
    r->record.outcome = OUTCOME_ERROR;
    r->record.error = strerror(-err);
    return false;
}

void request_free(struct request *r)
{
    response_done(&r->response);
    free(r->body);
    free(r->record.gaps_us);
    free(r);
}
