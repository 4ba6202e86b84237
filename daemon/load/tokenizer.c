/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/tokenizer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/url.h"

#define ASK_TIMEOUT_NS    (10 * NS_PER_S)
#define TOKENS_ANSWER_MAX (64u << 20) /* SGLang's has the number of every token */
#define ERROR_TEXT_MAX    300
#define MODEL_MAX         1024 /* bytes; each request repeats it */
#define PARALLEL          16   /* texts that are counted at a time */

/* -- The model ---------------------------------------------------------------------------------------- */

struct model_query {
    void (*done)(const char *model, const char *error, void *arg);
    void *arg;
};

static void model_on_result(const struct call_result *r, void *arg)
{
    static const struct json_wanted first = {{"data", "0", "id"}};
    _cleanup_(freep) struct model_query *q = arg;
    char text[ERROR_TEXT_MAX], error[200];
    struct json_found id;

    if (r->err != 0 || r->status != 200) {
        q->done(NULL, call_result_text(r, text, sizeof(text)), q->arg);
        return;
    }
    if (json_scan(r->body, r->body_size, &first, 1, &id) < 0 || !json_found_text(&id) ||
        id.size > MODEL_MAX) {
        q->done(NULL, "its response has no data[0].id of at most 1024 bytes", q->arg);
        return;
    }
    _cleanup_json_ body = json_parse(r->body, r->body_size, error);
    const char *model = json_get_str(json_array_get(json_object_get(body, "data"), 0), "id");
    q->done(model, model ? NULL : error, q->arg);
}

void model_ask(struct caller *c, const struct load_spec *spec, const char *url,
               void (*done)(const char *model, const char *error, void *arg), void *arg)
{
    _cleanup_(freep) char *models_url = url_join(url, "/v1/models");
    struct model_query *q = xcalloc(1, sizeof(*q));

    *q = (struct model_query){done, arg};
    call_start(c,
               &(struct call_request){.method = "GET",
                                      .url = models_url,
                                      .credentials = &spec->credentials,
                                      .deadline_ns = mono_ns() + ASK_TIMEOUT_NS},
               model_on_result, q);
}

/* -- Tokens of one text ------------------------------------------------------------------------------- */

struct token_query {
    const char *text;
    const json_t *messages; /* instead of the text; NULL: none */
    bool is_plain;          /* without the template of a chat */
    void (*done)(int64_t tokens, void *arg);
    void *arg;
};

static void token_query_on_result(const struct call_result *r, void *arg)
{
    _cleanup_(freep) struct token_query *q = arg;
    bool ok = r->err == 0 && r->status == 200 && !r->cut;

    q->done(ok ? api_token_count(r->body, r->body_size) : -1, q->arg);
}

/* done() gets the number of tokens, -1 where the worker does not count them. Copies the query. */
static void tokenizer_ask(const struct tokenizer *t, const struct load_target *target,
                          const struct token_query *query)
{
    const struct api_request request = {.workload = &t->spec->workload,
                                        .model = t->model,
                                        .prompt = query->text,
                                        .messages = query->messages};
    _cleanup_(freep) char *url = url_join(target->url, target->api->tokenize_path);
    _cleanup_json_ body =
        query->is_plain ? api_tokenize_prompt(&request) : target->api->tokenize_body(&request);
    _cleanup_(freep) char *text = json_dumps(body, JSON_COMPACT);
    struct token_query *q = xcalloc(1, sizeof(*q));

    *q = *query;
    call_start(t->caller,
               &(struct call_request){.method = "POST",
                                      .url = url,
                                      .body = text ? text : "{}",
                                      .credentials = &t->spec->credentials,
                                      .deadline_ns = mono_ns() + ASK_TIMEOUT_NS,
                                      .answer_max = TOKENS_ANSWER_MAX},
               token_query_on_result, q);
}

/* -- Calibration -------------------------------------------------------------------------------------- */

#define PROBE_PROMPT 0 /* a synthetic prompt that is only counted */

struct calibration_text {
    struct calibration *owner;
    int64_t tokens;
};

struct calibration {
    struct tokenizer tokenizer;
    struct prompts *prompts;
    struct calibration_text once[PROMPT_WORDS], repeated[PROMPT_WORDS];
    size_t pending;
    int64_t probe_tokens;
    void (*done)(bool exact, void *arg);
    void *arg;
};

static void calibration_on_probe(int64_t tokens, void *arg)
{
    struct calibration *c = arg;

    c->prompts->exact = tokens == c->probe_tokens;
    c->done(c->prompts->exact, c->arg);
}

static void calibration_on_tokens(int64_t tokens, void *arg)
{
    struct calibration_text *counted = arg;
    struct calibration *c = counted->owner;
    struct prompts measured = *c->prompts;
    enum token_source source;

    counted->tokens = tokens;
    if (--c->pending > 0)
        return;
    for (size_t i = 0; i < PROMPT_WORDS; i++)
        prompts_calibrate(&measured, i, c->once[i].tokens, c->repeated[i].tokens);
    if (!measured.exact) {
        c->done(false, c->arg);
        return;
    }
    *c->prompts = measured;
    _cleanup_(freep) char *text = prompts_text(c->prompts, PROBE_PROMPT, &c->probe_tokens, &source);
    tokenizer_ask(&c->tokenizer, c->tokenizer.target,
                  &(struct token_query){.text = text, .done = calibration_on_probe, .arg = c});
}

static void calibration_ask(struct calibration *c, const char *text, struct calibration_text *counted)
{
    counted->owner = c;
    tokenizer_ask(&c->tokenizer, c->tokenizer.target,
                  &(struct token_query){.text = text, .done = calibration_on_tokens, .arg = counted});
}

struct calibration *calibration_start(const struct tokenizer *t, struct prompts *prompts,
                                      void (*done)(bool exact, void *arg), void *arg)
{
    struct calibration *c = xcalloc(1, sizeof(*c));

    *c = (struct calibration){
        .tokenizer = *t, .prompts = prompts, .pending = 2 * PROMPT_WORDS, .done = done, .arg = arg};
    for (size_t i = 0; i < PROMPT_WORDS; i++) {
        const char *word = prompts_word(i);
        _cleanup_(freep) char *repeated = xcalloc(strlen(word) * PROMPT_REPEATS + 1, 1);
        char *end = repeated;
        for (size_t k = 0; k < PROMPT_REPEATS; k++)
            end = stpcpy(end, word);
        calibration_ask(c, word, &c->once[i]);
        calibration_ask(c, repeated, &c->repeated[i]);
    }
    return c;
}

struct calibration *calibration_free(struct calibration *c)
{
    free(c);
    return NULL;
}

/* -- Many texts, PARALLEL at a time ------------------------------------------------------------------- */

/* A text that is being counted: an answer of a prompt, the output of a record, or its input. */
struct token_count {
    struct token_counts *owner;
    struct workload_prompt *prompt;
    struct request_record *output, *input;
};

struct token_counts {
    struct tokenizer tokenizer;
    struct token_count counts[PARALLEL];
    size_t n_busy;
    int64_t until_ns;
    bool failed; /* of answers: one that is not counted */
    void (*done)(bool counted, void *arg);
    void *arg;
    /* Starts the next one; false: no more. */
    bool (*next)(struct token_counts *c);
    size_t next_prompt, next_output, next_input;
    /* Of records: */
    struct load_records *records;
    const struct load_target *targets;
    int64_t *inputs; /* tokens of each given prompt, 0 not counted; NULL where prompts are synthetic */
};

static void token_counts_fill(struct token_counts *c);
static void record_tokens_finish(struct token_counts *c);

static void token_counts_on_tokens(int64_t tokens, void *arg)
{
    struct token_count *count = arg;
    struct token_counts *c = count->owner;

    if (count->prompt && tokens > 0)
        count->prompt->osl = MIN(tokens, (int64_t)WORKLOAD_TOKENS_MAX);
    else if (count->prompt)
        c->failed = true;
    if (count->input && tokens > 0)
        c->inputs[count->input->prompt] = tokens;
    if (count->output && tokens > 0) {
        count->output->output_tokens = tokens;
        count->output->output_source = TOKENS_TOKENIZED;
    }
    *count = (struct token_count){0};
    c->n_busy--;
    token_counts_fill(c);
}

static void token_counts_start(struct token_counts *c, const struct load_target *target,
                               struct token_count what, struct token_query query)
{
    struct token_count *count = c->counts;

    while (count->owner)
        count++;
    *count = what;
    count->owner = c;
    c->n_busy++;
    query.done = token_counts_on_tokens;
    query.arg = count;
    tokenizer_ask(&c->tokenizer, target, &query);
}

static void token_counts_fill(struct token_counts *c)
{
    bool in_time = mono_ns() < c->until_ns;

    c->failed |= !in_time;
    while (in_time && (c->records || !c->failed) && c->n_busy < PARALLEL && c->next(c))
        ;
    if (c->n_busy > 0)
        return;
    if (c->records)
        record_tokens_finish(c);
    c->done(!c->failed, c->arg);
}

static struct token_counts *token_counts_new(const struct tokenizer *t, int64_t limit_ns,
                                             bool (*next)(struct token_counts *c),
                                             void (*done)(bool counted, void *arg), void *arg)
{
    struct token_counts *c = xcalloc(1, sizeof(*c));

    *c = (struct token_counts){
        .tokenizer = *t, .until_ns = mono_ns() + limit_ns, .next = next, .done = done, .arg = arg};
    return c;
}

struct token_counts *token_counts_free(struct token_counts *c)
{
    if (!c)
        return NULL;
    free(c->inputs);
    free(c);
    return NULL;
}

/* -- Output lengths of answers ------------------------------------------------------------------------ */

static bool output_lengths_next(struct token_counts *c)
{
    struct workload *w = &c->tokenizer.spec->workload;

    while (c->next_prompt < w->n_prompts && !w->prompts[c->next_prompt].answer)
        c->next_prompt++;
    if (c->next_prompt == w->n_prompts)
        return false;
    struct workload_prompt *prompt = &w->prompts[c->next_prompt++];
    token_counts_start(c, c->tokenizer.target, (struct token_count){.prompt = prompt},
                       (struct token_query){.text = prompt->answer, .is_plain = true});
    return true;
}

struct token_counts *output_lengths_count(const struct tokenizer *t, void (*done)(bool counted, void *arg),
                                          void *arg)
{
    struct token_counts *c = token_counts_new(t, OUTPUT_LENGTHS_NS, output_lengths_next, done, arg);

    token_counts_fill(c);
    return c;
}

/* -- Tokens of records -------------------------------------------------------------------------------- */

static bool record_output_next(struct token_counts *c)
{
    struct load_records *rs = c->records;

    while (c->next_output < rs->n_kept) {
        const struct kept_text *k = &rs->kept[c->next_output++];
        struct request_record *record = &rs->items[k->index];
        _cleanup_(freep) char *quoted = xasprintf("\"%.*s\"", (int)k->size, k->text);
        _cleanup_json_ text = json_loads(quoted, JSON_DECODE_ANY, NULL);
        if (!json_is_string(text))
            continue;
        token_counts_start(c, &c->targets[record->target], (struct token_count){.output = record},
                           (struct token_query){.text = json_string_value(text)});
        return true;
    }
    return false;
}

static bool record_input_next(struct token_counts *c)
{
    const struct workload *w = &c->tokenizer.spec->workload;
    struct load_records *rs = c->records;

    while (c->inputs && c->next_input < rs->n_kept) {
        struct request_record *record = &rs->items[rs->kept[c->next_input++].index];
        if (record->input_source != TOKENS_ESTIMATED || c->inputs[record->prompt] != 0)
            continue;
        c->inputs[record->prompt] = -1;
        const struct workload_prompt *prompt = &w->prompts[record->prompt];
        token_counts_start(c, &c->targets[record->target], (struct token_count){.input = record},
                           (struct token_query){.text = prompt->text, .messages = prompt->messages});
        return true;
    }
    return false;
}

static bool record_tokens_next(struct token_counts *c)
{
    return record_output_next(c) || record_input_next(c);
}

static void record_tokens_finish(struct token_counts *c)
{
    struct load_records *rs = c->records;

    for (size_t i = 0; i < rs->n_kept && c->inputs; i++) {
        struct request_record *record = &rs->items[rs->kept[i].index];
        if (record->input_source != TOKENS_ESTIMATED || c->inputs[record->prompt] <= 0)
            continue;
        record->input_tokens = c->inputs[record->prompt];
        record->input_source = TOKENS_TOKENIZED;
    }
    load_records_release_texts(rs);
}

struct token_counts *record_tokens_count(const struct tokenizer *t, struct load_records *records,
                                         const struct load_target *targets,
                                         void (*done)(bool counted, void *arg), void *arg)
{
    struct token_counts *c = token_counts_new(t, RECORD_TOKENS_NS, record_tokens_next, done, arg);
    const struct workload *w = &t->spec->workload;

    c->records = records;
    c->targets = targets;
    if (w->prompts)
        c->inputs = xcalloc(w->n_prompts, sizeof(*c->inputs));
    token_counts_fill(c);
    return c;
}
