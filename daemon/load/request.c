/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/request.h"

#include "base/alloc.h"
#include "base/clock.h"
#include <errno.h>

/* A longer pause would look like a run that hangs. */
#define RETRY_AFTER_MAX_S 60

static void on_sent(void *arg, int64_t now_ns)
{
    struct request *r = arg;
    r->record.sent_ns = now_ns;
}

static void on_head(void *arg, int status, const char *content_type)
{
    struct request *r = arg;
    answer_head(&r->answer, status, content_type);
}

static bool on_body(void *arg, const char *bytes, size_t size, int64_t now_ns)
{
    struct request *r = arg;
    int64_t before = answer_tokens_seen(&r->answer);
    bool more = answer_feed(&r->answer, bytes, size, now_ns);

    if (r->tokens_seen)
        *r->tokens_seen += answer_tokens_seen(&r->answer) - before;
    return more;
}

static void take_tokens(struct request *r)
{
    struct request_record *record = &r->record;
    struct answer *a = &r->answer;

    record->output_tokens = answer_output_tokens(a, &record->output_source);
    r->target->counts |= record->output_source == TOKENS_USAGE;
    if (a->input_tokens > 0) {
        record->input_tokens = a->input_tokens;
        record->input_source = TOKENS_USAGE;
    }
}

static void on_done(void *arg, const struct wire_end *end)
{
    struct request *r = arg;
    struct request_record *record = &r->record;
    struct answer *a = &r->answer;

    record->end_ns = mono_ns();
    a->now_ns = record->end_ns;
    if (end->err == 0)
        answer_end(a);
    else if (!a->error[0])
        snprintf(a->error, sizeof(a->error), "%s", end->error);
    record->outcome = answer_outcome(a);
    record->status = a->status;
    record->first_ns = answer_tokens_seen(a) > 0 ? a->first_ns : -1;
    record->last_ns = answer_tokens_seen(a) > 0 ? a->last_ns : -1;
    record->gaps_us = TAKE_PTR(a->gaps_us);
    record->n_gaps = a->n_gaps;
    record->error = a->error[0] ? a->error : NULL;
    take_tokens(r);
    r->retry_after_ns = MIN(end->retry_after_s, INT64_C(1) * RETRY_AFTER_MAX_S) * NS_PER_S;
    r->done(r, r->arg);
}

const struct wire_ops request_ops = {.sent = on_sent, .head = on_head, .body = on_body, .done = on_done};

int request_send(struct wires *wires, const struct request_order *o)
{
    struct request *r = xcalloc(1, sizeof(*r));
    const struct workload *w = o->prompts->workload;

    r->target = o->target;
    r->tokens_seen = o->tokens_seen;
    r->done = o->done;
    r->arg = o->arg;
    r->answer.api = o->target->api;
    r->answer.workload = w;
    r->answer.keep_text = o->target->api->tokenize_path && !o->target->counts;
    r->record = (struct request_record){.index = o->index,
                                        .prompt = prompts_of_request(o->prompts, o->index),
                                        .target = o->target_index,
                                        .cold = !o->target->is_known,
                                        .intended_ns = o->intended_ns,
                                        .sent_ns = -1};
    _cleanup_(freep) char *prompt =
        prompts_text(o->prompts, r->record.prompt, &r->record.input_tokens, &r->record.input_source);
    if (r->record.input_tokens < 0) {
        r->record.input_tokens = estimated_tokens(strlen(prompt));
        r->record.input_source = TOKENS_ESTIMATED;
    }
    _cleanup_json_ body =
        o->target->api->body(&(struct api_request){.workload = w,
                                                   .model = o->model,
                                                   .prompt = prompt,
                                                   .messages = prompts_messages(o->prompts, r->record.prompt),
                                                   .osl = prompts_osl(o->prompts, r->record.prompt)});
    char *text = json_dumps(body, JSON_COMPACT);
    int err = text ? wires_send(wires, o->target->place, text, strlen(text), w->timeout_ns, r) : -EINVAL;
    if (err < 0)
        request_free(r);
    return err;
}

void request_free(struct request *r)
{
    answer_done(&r->answer);
    free(r->record.gaps_us);
    free(r);
}
