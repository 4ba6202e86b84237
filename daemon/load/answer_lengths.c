/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/answer_lengths.h"

#include "base/alloc.h"
#include "base/clock.h"

#define PARALLEL 16

/* One answer that is being counted. */
struct answer_count {
    struct answer_lengths *owner;
    struct workload_prompt *prompt; /* NULL: this place is free */
};

struct answer_lengths {
    struct caller *caller;
    struct order *order;
    const struct target *target;
    const char *model;
    struct answer_count counts[PARALLEL];
    size_t n_busy, next;
    int64_t until_ns;
    bool failed;
    void (*done)(bool counted, void *arg);
    void *arg;
};

static void answer_lengths_fill(struct answer_lengths *a);

static void answer_lengths_take(int64_t tokens, void *arg)
{
    struct answer_count *count = arg;
    struct answer_lengths *a = count->owner;

    if (tokens > 0)
        count->prompt->osl = MIN(tokens, (int64_t)WORKLOAD_TOKENS_MAX);
    else
        a->failed = true;
    count->prompt = NULL;
    a->n_busy--;
    answer_lengths_fill(a);
}

static struct workload_prompt *answer_lengths_next(struct answer_lengths *a)
{
    struct workload *w = &a->order->workload;

    while (a->next < w->n_prompts && !w->prompts[a->next].answer)
        a->next++;
    return a->next < w->n_prompts ? &w->prompts[a->next++] : NULL;
}

static void answer_lengths_fill(struct answer_lengths *a)
{
    struct workload_prompt *prompt = NULL;

    a->failed |= mono_ns() > a->until_ns;
    while (!a->failed && a->n_busy < PARALLEL && (prompt = answer_lengths_next(a))) {
        struct answer_count *count = a->counts;
        while (count->prompt)
            count++;
        *count = (struct answer_count){a, prompt};
        a->n_busy++;
        ask_tokens(a->caller, a->order,
                   &(struct count_order){.target = a->target,
                                         .workload = &a->order->workload,
                                         .model = a->model,
                                         .text = prompt->answer,
                                         .is_plain = true},
                   answer_lengths_take, count);
    }
    if (a->n_busy == 0)
        a->done(!a->failed, a->arg);
}

struct answer_lengths *answer_lengths_start(struct caller *caller, struct order *order,
                                            const struct target *target, const char *model,
                                            void (*done)(bool counted, void *arg), void *arg)
{
    struct answer_lengths *a = xcalloc(1, sizeof(*a));

    *a = (struct answer_lengths){.caller = caller,
                                 .order = order,
                                 .target = target,
                                 .model = model,
                                 .until_ns = mono_ns() + ANSWER_LENGTHS_NS,
                                 .done = done,
                                 .arg = arg};
    answer_lengths_fill(a);
    return a;
}

struct answer_lengths *answer_lengths_free(struct answer_lengths *a)
{
    free(a);
    return NULL;
}
