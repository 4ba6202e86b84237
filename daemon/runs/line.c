/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/runs/line.h"

#include "base/alloc.h"
#include "daemon/load/workload.h"
#include <errno.h>

#define WORD_MAX 32
/* What all JSON readers keep exactly, and what can be added to a time of the wall: in ns 104 days. */
#define NUMBER_MAX (INT64_C(1) << 53)
/* From one token to the next no answer takes longer than this. */
#define GAP_MAX_US UINT32_MAX

static char *line_wrong(const char *kind, const char *member)
{
    return xasprintf("\"%s\" of a line \"%s\"", member, kind);
}

/* Absent, null and a negative moment are "did not come". */
static bool line_take_number(const json_t *j, const char *name, int64_t *ret)
{
    const json_t *v = json_object_get(j, name);

    *ret = RECORD_NONE;
    if (!v || json_is_null(v))
        return true;
    if (!json_is_integer(v) || json_integer_value(v) > NUMBER_MAX)
        return false;
    if (json_integer_value(v) >= 0)
        *ret = json_integer_value(v);
    return true;
}

/* An absent one is NULL, a long one is cut between two characters. */
static bool line_take_text(const json_t *j, const char *name, size_t max, char **ret)
{
    const json_t *v = json_object_get(j, name);

    *ret = NULL;
    if (!v || json_is_null(v))
        return true;
    if (!json_is_string(v))
        return false;
    const char *text = json_string_value(v);
    size_t n = MIN(json_string_length(v), max);
    while (n > 0 && n < json_string_length(v) && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    *ret = xstrndup(text, n);
    return true;
}

/* -- Requests ----------------------------------------------------------------------------------------- */

#define NUMBER(member)                                                                                       \
    {                                                                                                        \
#member, offsetof(struct request_row, member)                                                        \
    }

static const struct {
    const char *name;
    size_t offset;
} numbers[] = {
    {"index", offsetof(struct request_row, number)},
    NUMBER(prompt),
    NUMBER(intended_ns),
    NUMBER(sent_ns),
    NUMBER(first_ns),
    NUMBER(last_ns),
    NUMBER(end_ns),
    NUMBER(ttft_ns),
    NUMBER(tpot_ns),
    NUMBER(e2e_ns),
    NUMBER(lateness_ns),
    NUMBER(input_tokens),
    NUMBER(output_tokens),
    NUMBER(status),
};

static const struct {
    const char *name;
    size_t offset, max;
} texts[] = {
    {"target", offsetof(struct request_row, target), LOAD_URL_MAX},
    {"input_source", offsetof(struct request_row, input_source), WORD_MAX},
    {"output_source", offsetof(struct request_row, output_source), WORD_MAX},
    {"outcome", offsetof(struct request_row, outcome), WORD_MAX},
    {"error", offsetof(struct request_row, error), LOAD_TEXT_MAX},
};

static bool is_outcome(const char *word)
{
    return word && (streq(word, "success") || streq(word, "incomplete") || streq(word, "error"));
}

static bool line_take_gaps(const json_t *j, char **ret)
{
    const json_t *gaps = json_object_get(j, "gaps_us"), *gap;
    size_t i;

    *ret = NULL;
    if (!gaps || json_is_null(gaps))
        return true;
    if (!json_is_array(gaps))
        return false;
    json_array_foreach((json_t *)gaps, i, gap) {
        if (!json_is_integer(gap) || json_integer_value(gap) < 0 || json_integer_value(gap) > GAP_MAX_US)
            return false;
    }
    *ret = i > 0 ? json_dumps(gaps, JSON_COMPACT) : NULL;
    return true;
}

static char *line_take_request(const json_t *j, struct load_line *l)
{
    struct request_row *r = &l->request;

    request_row_init(r);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (!line_take_number(j, numbers[i].name, (int64_t *)(void *)((char *)r + numbers[i].offset)))
            return line_wrong("request", numbers[i].name);
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (!line_take_text(j, texts[i].name, texts[i].max, (char **)(void *)((char *)r + texts[i].offset)))
            return line_wrong("request", texts[i].name);
    r->cold = json_get_bool(j, "cold", false);
    if (r->number == RECORD_NONE || r->number >= WORKLOAD_REQUESTS_MAX)
        return line_wrong("request", "index");
    if (r->prompt == RECORD_NONE || r->intended_ns == RECORD_NONE)
        return line_wrong("request", r->prompt == RECORD_NONE ? "prompt" : "intended_ns");
    if (!r->target)
        return line_wrong("request", "target");
    if (!is_outcome(r->outcome))
        return line_wrong("request", "outcome");
    return line_take_gaps(j, &r->gaps_us) ? NULL : line_wrong("request", "gaps_us");
}

/* -- The others --------------------------------------------------------------------------------------- */

/* Copies the named members that are numbers, or null. */
static json_t *line_take_figures(const json_t *j, const char *const *names, size_t n)
{
    json_t *figures = json_object();

    for (size_t i = 0; i < n; i++) {
        json_t *v = json_object_get(j, names[i]);
        if (json_is_number(v) || json_is_null(v))
            json_object_set(figures, names[i], v);
    }
    return figures;
}

static char *line_take_warmed(const json_t *j, struct load_line *l)
{
    static const char *const figures[] = {"sent", "failed", "mean_ms"};
    _cleanup_(freep) char *url = NULL, *error = NULL;

    if (!line_take_text(j, "url", LOAD_URL_MAX, &url) || !url ||
        !line_take_text(j, "error", LOAD_TEXT_MAX, &error))
        return line_wrong("warmed", url ? "error" : "url");
    l->object = line_take_figures(j, figures, ARRAY_SIZE(figures));
    json_put_str(l->object, "url", url);
    json_put_str(l->object, "error", error);
    return NULL;
}

static char *line_take_live(const json_t *j, struct load_line *l)
{
    static const char *const figures[] = {
        "sent",        "in_flight",   "done",       "errors",     "output_tokens_per_s",
        "ttft_p50_ms", "ttft_p99_ms", "e2e_p50_ms", "e2e_p99_ms", "elapsed_ns",
        "planned"};
    l->object = line_take_figures(j, figures, ARRAY_SIZE(figures));
    return NULL;
}

static char *line_take_ready(const json_t *j, struct load_line *l)
{
    return line_take_text(j, "model", LOAD_TEXT_MAX, &l->text) ? NULL : line_wrong("ready", "model");
}

static char *line_take_saying(const json_t *j, struct load_line *l)
{
    bool right = line_take_text(j, "text", LOAD_TEXT_MAX, &l->text) && l->text &&
                 line_take_text(j, "remedy", LOAD_TEXT_MAX, &l->remedy);
    return right ? NULL : line_wrong(json_get_str(j, "t"), l->text ? "remedy" : "text");
}

static char *line_take_end(const json_t *j, struct load_line *l)
{
    json_t *summary = json_object_get(j, "summary");

    if (!json_is_object(summary))
        return line_wrong("end", "summary");
    l->object = json_incref(summary);
    return NULL;
}

static const struct {
    const char *name;
    char *(*take)(const json_t *j, struct load_line *l); /* what is wrong, or NULL */
} kinds[_LOAD_LINE_MAX] = {
    [LOAD_LINE_WARMED] = {"warmed", line_take_warmed},
    [LOAD_LINE_READY] = {"ready", line_take_ready},
    [LOAD_LINE_REQUEST] = {"request", line_take_request},
    [LOAD_LINE_LIVE] = {"live", line_take_live},
    [LOAD_LINE_NOTE] = {"note", line_take_saying},
    [LOAD_LINE_FAILED] = {"failed", line_take_saying},
    [LOAD_LINE_END] = {"end", line_take_end},
};

static char *line_take(const json_t *j, struct load_line *l)
{
    const char *kind = json_get_str(j, "t");

    for (int i = 0; kind && i < _LOAD_LINE_MAX; i++) {
        if (!streq(kinds[i].name, kind))
            continue;
        l->kind = (enum load_line_kind)i;
        return kinds[i].take(j, l);
    }
    return xstrdup("a line of no kind");
}

int load_line_parse(const char *text, size_t size, struct load_line *ret, char **ret_reason)
{
    struct load_line l = {0};
    char error[200];
    _cleanup_json_ j = json_parse(text, size, error);

    *ret_reason =
        json_is_object(j) ? line_take(j, &l) : xasprintf("no JSON object: %s", j ? "another value" : error);
    if (*ret_reason) {
        load_line_done(&l);
        return -EINVAL;
    }
    *ret = l;
    return 0;
}

void load_line_done(struct load_line *l)
{
    json_decref(l->object);
    if (l->kind == LOAD_LINE_REQUEST)
        request_row_done(&l->request);
    free(l->text);
    free(l->remedy);
    *l = (struct load_line){0};
}
