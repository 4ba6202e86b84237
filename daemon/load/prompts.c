/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/prompts.h"

#include "base/alloc.h"
#include "daemon/load/random.h"

#define STREAM_OF_PREFIX  2
#define STREAM_OF_PROMPTS (UINT64_C(1) << 32)
#define BYTES_PER_TOKEN   4
/* Up to this number of remaining tokens, a table has the numbers that words can add up to. Larger ones always
 * can. */
#define REST_MAX 64

static const char *const prompt_words[PROMPT_WORDS] = {
    " a",     " is",    " on",    " the",   " and",    " one",    " time",    " work",
    " road",  " hand",  " light", " wind",  " house",  " water",  " green",   " stone",
    " table", " paper", " music", " river", " summer", " window", " morning", " between",
};

/* Numbers of tokens that words can add up to. */
struct prompt_rests {
    bool can[REST_MAX + 1];
};

void prompts_init(struct prompts *p, const struct workload *w, uint64_t nonce)
{
    *p = (struct prompts){.workload = w, .seed = w->seed ? (uint64_t)w->seed : nonce};
    for (size_t i = 0; i < PROMPT_WORDS; i++)
        p->cost[i] = 1;
}

const char *prompts_word(size_t i)
{
    return prompt_words[i];
}

void prompts_calibrate(struct prompts *p, size_t word, int64_t once, int64_t repeated)
{
    int64_t more = repeated - once;
    bool adds_up = once > 0 && more > 0 && more % (PROMPT_REPEATS - 1) == 0;

    p->cost[word] = adds_up ? more / (PROMPT_REPEATS - 1) : 0;
    if (!adds_up || once < p->cost[word])
        return;
    p->exact = true;
    p->extra = once - p->cost[word];
}

static struct prompt_rests prompt_rests_of(const struct prompts *p)
{
    struct prompt_rests r = {.can = {true}};

    for (int64_t rest = 1; rest <= REST_MAX; rest++)
        for (size_t i = 0; i < PROMPT_WORDS; i++)
            r.can[rest] |= p->cost[i] > 0 && p->cost[i] <= rest && r.can[rest - p->cost[i]];
    return r;
}

/* A random word after which the rest can be made of words; -1 without one. */
static int prompt_pick_word(const struct prompts *p, const struct prompt_rests *rests, struct random *r,
                            int64_t left)
{
    uint64_t first = random_below(r, PROMPT_WORDS);

    for (size_t i = 0; i < PROMPT_WORDS; i++) {
        size_t word = (first + i) % PROMPT_WORDS;
        int64_t rest = left - p->cost[word];
        if (p->cost[word] > 0 && rest >= 0 && (rest > REST_MAX || rests->can[rest]))
            return (int)word;
    }
    return -1;
}

/* Returns the number of tokens that could not be made. */
static int64_t prompt_add_words(const struct prompts *p, const struct prompt_rests *rests, struct random *r,
                                int64_t left, FILE *out)
{
    for (int word; left > 0 && (word = prompt_pick_word(p, rests, r, left)) >= 0; left -= p->cost[word])
        fputs(prompt_words[word], out);
    return left;
}

static char *prompt_synthetic(const struct prompts *p, int64_t prompt, int64_t *ret_tokens)
{
    const struct workload *w = p->workload;
    struct prompt_rests rests = prompt_rests_of(p);
    struct random r;
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);

    random_init(&r, p->seed, STREAM_OF_PREFIX);
    int64_t left = prompt_add_words(p, &rests, &r, w->shared_prefix, out);
    random_init(&r, p->seed, STREAM_OF_PROMPTS + (uint64_t)prompt);
    left = prompt_add_words(p, &rests, &r, left + MAX(w->isl - w->shared_prefix - p->extra, INT64_C(1)), out);
    fclose(out);
    *ret_tokens = w->isl - left;
    return text;
}

int64_t prompts_of_request(const struct prompts *p, int64_t request)
{
    return p->workload->prompts && request >= 0 ? request % (int64_t)p->workload->n_prompts : request;
}

char *prompts_text(const struct prompts *p, int64_t prompt, int64_t *ret_tokens,
                   enum token_source *ret_source)
{
    const struct workload *w = p->workload;

    if (!w->prompts) {
        *ret_source = p->exact ? TOKENS_TOKENIZED : TOKENS_ESTIMATED;
        return prompt_synthetic(p, prompt, ret_tokens);
    }
    *ret_tokens = -1;
    *ret_source = TOKENS_UNKNOWN;
    return xstrdup(w->prompts[MAX(prompt, INT64_C(0))].text);
}

const json_t *prompts_messages(const struct prompts *p, int64_t prompt)
{
    const struct workload *w = p->workload;

    return w->prompts ? w->prompts[MAX(prompt, INT64_C(0))].messages : NULL;
}

int64_t prompts_osl(const struct prompts *p, int64_t prompt)
{
    const struct workload *w = p->workload;
    int64_t of_prompt = w->prompts && prompt >= 0 ? w->prompts[prompt].osl : 0;
    return of_prompt ? of_prompt : w->osl;
}

int64_t estimated_tokens(size_t bytes)
{
    return ((int64_t)bytes + BYTES_PER_TOKEN - 1) / BYTES_PER_TOKEN;
}
