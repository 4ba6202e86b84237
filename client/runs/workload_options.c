/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/workload_options.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "client/runs/goals.h"
#include "client/runs/prompts.h"
#include "client/runs/workload_file.h"
#include <errno.h>
#include <inttypes.h>

#define AT(member) offsetof(struct workload_options, member)

/* Options that a workload takes as they are. */
static const struct plain {
    const char *member;
    size_t offset;
} texts[] = {{"model", AT(model)},
             {"api", AT(api)},
             {"path", AT(path)},
             {"arrival", AT(arrival)},
             {"template_text", AT(template_text)}},
  wholes[] = {{"isl", AT(isl)},           {"osl", AT(osl)},
              {"requests", AT(requests)}, {"repeat", AT(repeat)},
              {"warmup", AT(warmup)},     {"shared_prefix", AT(shared_prefix)},
              {"seed", AT(seed)},         {"concurrency", AT(concurrency)}},
  reals[] = {{"rate", AT(rate)}, {"rate_to", AT(ramp)}, {"burstiness", AT(burstiness)}},
  times[] = {{"duration", AT(duration)}, {"timeout", AT(timeout)}};

static const void *value_of(const struct workload_options *o, const struct plain *plain)
{
    return (const char *)o + plain->offset;
}

static int check_tokens(const struct workload_options *o, struct problem *p)
{
    if (o->isl == 0) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--isl 0: a prompt has at least one token");
        problem_remedy(p, "--isl 1 is the shortest; --prompts FILE sends prompts of yours.");
        return -EINVAL;
    }
    if (o->osl == 0) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--osl 0: an answer without a token cannot be measured");
        problem_remedy(p, "--osl 1 measures the first token; without --osl the server ends its answers.");
        return -EINVAL;
    }
    if (o->isl > 0 && o->prompts)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                           "--isl makes synthetic prompts, --prompts names others: one of them");
    if (o->ramp > 0 && o->rate == 0)
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--ramp goes from --rate to its own: give both");
    return 0;
}

/* Exactly, in the largest unit in which it is whole: "90s". */
static json_t *time_text(int64_t ns)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"min", 60 * NS_PER_S}, {"s", NS_PER_S}, {"ms", NS_PER_MS}, {"us", NS_PER_US}, {"ns", 1}};
    char text[40];
    size_t i = 0;

    while (ns % units[i].ns != 0)
        i++;
    snprintf(text, sizeof(text), "%" PRId64 "%s", ns / units[i].ns, units[i].name);
    return json_string(text);
}

static void put_plain(const struct workload_options *o, json_t *w)
{
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        json_put_str(w, texts[i].member, *(const char *const *)value_of(o, &texts[i]));
    for (size_t i = 0; i < ARRAY_SIZE(wholes); i++) {
        int64_t n = *(const int64_t *)value_of(o, &wholes[i]);
        if (n != OPTION_ABSENT)
            json_put_int(w, wholes[i].member, n);
    }
    for (size_t i = 0; i < ARRAY_SIZE(reals); i++) {
        double n = *(const double *)value_of(o, &reals[i]);
        if (n > 0)
            json_object_set_new(w, reals[i].member, json_real(n));
    }
    for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
        int64_t ns = *(const int64_t *)value_of(o, &times[i]);
        if (ns != OPTION_ABSENT)
            json_object_set_new(w, times[i].member, time_text(ns));
    }
}

/* What an option says stands instead of what a file says, and of what would contradict it. */
static void drop_contradicted(const struct workload_options *o, json_t *w)
{
    if (o->isl != OPTION_ABSENT)
        json_object_del(w, "prompts");
    if (o->prompts) {
        json_object_del(w, "isl");
        json_object_del(w, "shared_prefix");
    }
    if (o->template)
        json_object_del(w, "api");
}

static int put_read(const struct workload_options *o, json_t *w, struct problem *p)
{
    json_t *value;
    int r = 0;

    if (o->prompts) {
        int64_t limit = json_get_int(w, "requests", 0);
        r = prompts_read(o->prompts, limit, &value, p);
        if (r == 0)
            json_object_set_new(w, "prompts", value);
    }
    if (r == 0 && o->template) {
        r = template_read(o->template, &value, p);
        if (r == 0)
            json_object_set_new(w, "template", value);
    }
    if (r == 0 && o->goodput) {
        r = goals_parse(o->goodput, &value, p);
        if (r == 0)
            json_object_set_new(w, "goodput", value);
    }
    return r;
}

static void delete_from_prompts(json_t *prompts, const char *member)
{
    size_t i;
    json_t *prompt;

    json_array_foreach(prompts, i, prompt) {
        if (json_is_object(prompt))
            json_object_del(prompt, member);
    }
}

/*
 * Prompts bring their own output lengths and timestamps along: --osl replaces the first, and any osl of the
 * workload that of an answer. The second are replayed where nothing else says when requests are sent, and
 * dropped where an arrival is named; a rate or a concurrency alone may mean either.
 */
static int settle_prompts(const struct workload_options *o, json_t *w, struct problem *p)
{
    json_t *prompts = json_object_get(w, "prompts");
    const char *arrival = json_get_str(w, "arrival");
    bool is_timed = json_object_get(json_array_get(prompts, 0), "at_ms") != NULL, has_messages = false;
    size_t i;
    json_t *prompt;

    json_array_foreach(prompts, i, prompt) {
        has_messages |= json_object_get(prompt, "messages") != NULL;
    }
    if (has_messages && !json_object_get(w, "api") && !json_object_get(w, "template"))
        json_put_str(w, "api", "chat");
    if (o->osl != OPTION_ABSENT)
        delete_from_prompts(prompts, "osl");
    if (json_object_get(w, "osl"))
        delete_from_prompts(prompts, "answer");
    if (is_timed && arrival && !streq(arrival, "timestamps")) {
        delete_from_prompts(prompts, "at_ms");
    } else if (is_timed && !arrival) {
        if (json_object_get(w, "rate") || json_object_get(w, "concurrency")) {
            problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST,
                        "the prompts have timestamps, and %s is given: it is unclear which of them counts",
                        json_object_get(w, "rate") ? "--rate" : "--concurrency");
            problem_remedy(p,
                           "--arrival timestamps replays them (--concurrency limits the requests in flight); "
                           "--arrival closed, constant or poisson ignores them.");
            return -EINVAL;
        }
        json_put_str(w, "arrival", "timestamps");
    }
    return 0;
}

int workload_of_options(const struct workload_options *o, json_t **ret, struct problem *p)
{
    _cleanup_json_ workload = NULL;
    int r = check_tokens(o, p);

    if (r == 0 && o->file)
        r = workload_read(o->file, &workload, p);
    if (r < 0)
        return r;
    if (!workload)
        workload = json_object();
    drop_contradicted(o, workload);
    put_plain(o, workload);
    r = put_read(o, workload, p);
    if (r == 0)
        r = settle_prompts(o, workload, p);
    if (r == 0)
        *ret = TAKE_PTR(workload);
    return r;
}
