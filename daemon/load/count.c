/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/count.h"

#include "base/alloc.h"
#include "base/clock.h"

#define COUNTING_NS (30 * NS_PER_S)
#define PARALLEL    8

/* One text that is being counted. */
struct job {
    struct counting *owner;
    struct request_record *record;
    bool input;
};

struct counting {
    struct counting_setup setup;
    struct event *begin;
    struct job jobs[PARALLEL];
    size_t n_busy, next_kept, next_prompt;
    int64_t *inputs; /* of each given prompt, 0 not counted; NULL where they are synthetic */
    int64_t until_ns;
};

static void fill(struct counting *c);

static void on_counted(int64_t tokens, void *arg)
{
    struct job *job = arg;
    struct counting *c = job->owner;

    if (tokens > 0 && job->input) {
        c->inputs[job->record->prompt] = tokens;
    } else if (tokens > 0) {
        job->record->output_tokens = tokens;
        job->record->output_source = TOKENS_TOKENIZED;
    }
    job->record = NULL;
    c->n_busy--;
    fill(c);
}

static void start(struct counting *c, struct request_record *record, bool input, const char *text)
{
    const struct workload *w = &c->setup.order->workload;
    struct count_order order = {.target = &c->setup.targets[record->target],
                                .workload = w,
                                .model = c->setup.model,
                                .text = text,
                                .messages = input ? w->prompts[record->prompt].messages : NULL};
    struct job *job = c->jobs;

    while (job->record)
        job++;
    *job = (struct job){.owner = c, .record = record, .input = input};
    c->n_busy++;
    ask_tokens(c->setup.caller, c->setup.order, &order, on_counted, job);
}

static bool start_output(struct counting *c)
{
    struct records *rs = c->setup.records;

    while (c->next_kept < rs->n_kept) {
        const struct kept *k = &rs->kept[c->next_kept++];
        _cleanup_(freep) char *quoted = xasprintf("\"%.*s\"", (int)k->size, k->text);
        _cleanup_json_ text = json_loads(quoted, JSON_DECODE_ANY, NULL);
        if (!json_is_string(text))
            continue;
        start(c, &rs->items[k->index], false, json_string_value(text));
        return true;
    }
    return false;
}

static bool start_input(struct counting *c)
{
    struct records *rs = c->setup.records;

    while (c->inputs && c->next_prompt < rs->n_kept) {
        struct request_record *record = &rs->items[rs->kept[c->next_prompt++].index];
        if (record->input_source != TOKENS_ESTIMATED || c->inputs[record->prompt] != 0)
            continue;
        c->inputs[record->prompt] = -1;
        start(c, record, true, c->setup.order->workload.prompts[record->prompt].text);
        return true;
    }
    return false;
}

static void take_inputs(struct counting *c)
{
    struct records *rs = c->setup.records;

    for (size_t i = 0; i < rs->n_kept && c->inputs; i++) {
        struct request_record *record = &rs->items[rs->kept[i].index];
        if (record->input_source != TOKENS_ESTIMATED || c->inputs[record->prompt] <= 0)
            continue;
        record->input_tokens = c->inputs[record->prompt];
        record->input_source = TOKENS_TOKENIZED;
    }
}

static void fill(struct counting *c)
{
    bool in_time = mono_ns() < c->until_ns;

    while (in_time && c->n_busy < PARALLEL && (start_output(c) || start_input(c)))
        ;
    if (c->n_busy > 0)
        return;
    take_inputs(c);
    records_release(c->setup.records);
    c->setup.done(c->setup.arg);
}

static void on_begin(evutil_socket_t fd, short what, void *arg)
{
    fill(arg);
}

struct counting *counting_start(const struct counting_setup *setup)
{
    struct counting *c = xcalloc(1, sizeof(*c));

    c->setup = *setup;
    c->until_ns = mono_ns() + COUNTING_NS;
    if (setup->order->workload.prompts)
        c->inputs = xcalloc(setup->order->workload.n_prompts, sizeof(*c->inputs));
    c->begin = evtimer_new(setup->base, on_begin, c);
    if (!c->begin)
        abort(); /* as base/alloc.h */
    event_active(c->begin, EV_TIMEOUT, 0);
    return c;
}

struct counting *counting_free(struct counting *c)
{
    if (!c)
        return NULL;
    event_free(c->begin);
    free(c->inputs);
    free(c);
    return NULL;
}
