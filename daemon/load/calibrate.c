/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/calibrate.h"

#include "base/alloc.h"

/* Of a request that is never sent. */
#define PROBE_PROMPT 0

struct word {
    struct calibration *owner;
    int64_t once, repeated;
};

struct calibration {
    struct caller *caller;
    const struct order *order;
    const struct target *target;
    const char *model;
    struct prompts *prompts;
    struct word words[PROMPT_WORDS];
    size_t waits_for;
    int64_t probe_tokens;
    void (*done)(bool exact, void *arg);
    void *arg;
};

static void count(struct calibration *c, const char *text, void (*done)(int64_t tokens, void *arg), void *arg)
{
    const struct count_order order = {
        .target = c->target, .workload = &c->order->workload, .model = c->model, .text = text};

    ask_tokens(c->caller, c->order, &order, done, arg);
}

static void on_probe(int64_t tokens, void *arg)
{
    struct calibration *c = arg;

    c->prompts->exact = tokens == c->probe_tokens;
    c->done(c->prompts->exact, c->arg);
}

static void check_whole(struct calibration *c)
{
    enum token_source source;
    _cleanup_(freep) char *text = prompts_text(c->prompts, PROBE_PROMPT, &c->probe_tokens, &source);

    count(c, text, on_probe, c);
}

static void one_counted(struct calibration *c)
{
    struct prompts measured = *c->prompts;

    if (--c->waits_for > 0)
        return;
    for (size_t i = 0; i < PROMPT_WORDS; i++)
        prompts_calibrate(&measured, i, c->words[i].once, c->words[i].repeated);
    if (!measured.exact) {
        c->done(false, c->arg);
        return;
    }
    *c->prompts = measured;
    check_whole(c);
}

static void on_once(int64_t tokens, void *arg)
{
    struct word *w = arg;

    w->once = tokens;
    one_counted(w->owner);
}

static void on_repeated(int64_t tokens, void *arg)
{
    struct word *w = arg;

    w->repeated = tokens;
    one_counted(w->owner);
}

static char *repeated(const char *word)
{
    char *text = xcalloc(strlen(word) * PROMPT_REPEATS + 1, 1), *end = text;

    for (size_t i = 0; i < PROMPT_REPEATS; i++)
        end = stpcpy(end, word);
    return text;
}

struct calibration *calibration_start(struct caller *caller, const struct order *order,
                                      const struct target *target, const char *model, struct prompts *prompts,
                                      void (*done)(bool exact, void *arg), void *arg)
{
    struct calibration *c = xcalloc(1, sizeof(*c));

    *c = (struct calibration){.caller = caller,
                              .order = order,
                              .target = target,
                              .model = model,
                              .prompts = prompts,
                              .waits_for = 2 * PROMPT_WORDS,
                              .done = done,
                              .arg = arg};
    for (size_t i = 0; i < PROMPT_WORDS; i++) {
        _cleanup_(freep) char *many = repeated(prompts_word(i));
        c->words[i].owner = c;
        count(c, prompts_word(i), on_once, &c->words[i]);
        count(c, many, on_repeated, &c->words[i]);
    }
    return c;
}

struct calibration *calibration_free(struct calibration *c)
{
    free(c);
    return NULL;
}
