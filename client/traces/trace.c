/* SPDX-License-Identifier: Apache-2.0 */
#include "client/traces/trace.h"

#include "base/alloc.h"
#include "client/cli/text.h"
#include "trace/columns/schema.h"

/* Traces in one answer: what openapi.yaml allows. */
#define PAGE_MAX 1000

char *trace_rank(const json_t *trace, bool in_short)
{
    static const char *const groups[] = {"dp", "pp", "tp", "ep"};
    const json_t *ranks = json_object_get(trace, "ranks");
    const char *stage = json_get_str(trace, "stage"), *kind = json_get_str(trace, "kind"), *gap = "";
    int64_t rank = json_get_int(ranks, "rank", -1);
    /* A frontend's process says "rank 0" of itself, and has none. */
    bool has_rank = !kind || streq(kind, "trace");
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);

    if (!out)
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(groups) && has_rank; i++) {
        int64_t place = json_get_int(ranks, groups[i], -1);
        bool is_dull = in_short && place == 0 && !streq(groups[i], "tp");
        if (place < 0 || is_dull)
            continue;
        fprintf(out, "%s%s%lld", gap, groups[i], (long long)place);
        gap = " ";
    }
    if (!*gap && rank >= 0 && has_rank) {
        fprintf(out, "rank %lld", (long long)rank);
        gap = " ";
    }
    if (stage)
        fprintf(out, "%s%s", gap, stage);
    fclose(out);
    if (size > 0)
        return text;
    free(text);
    return NULL;
}

/* Where the text ends too early, nobody knows how many they are, and the state says so. */
static bool loses_events(const char *name)
{
    for (int kind = 0; kind < _DEFECT_MAX; kind++)
        if (streq(defect_name((enum defect_kind)kind), name))
            return kind != DEFECT_truncated && kind != DEFECT_corrupt_stream &&
                   defect_loses_data((enum defect_kind)kind);
    return false;
}

char *trace_losses(const json_t *trace)
{
    int64_t n = 0;
    char number[32];
    size_t i;
    json_t *defect;

    json_array_foreach(json_object_get(trace, "defects"), i, defect) {
        const char *kind = json_get_str(defect, "kind");
        int64_t count = json_get_int(defect, "count", 0);
        if (kind && loses_events(kind))
            n += MIN(MAX(count, INT64_C(0)), INT64_MAX - n);
    }
    return n > 0 ? xasprintf("%s event%s lost", text_number(number, n), n == 1 ? "" : "s") : NULL;
}

char *trace_state(const json_t *trace)
{
    const char *state = json_get_str(trace, "state"), *reason = json_get_str(trace, "reason");
    const char *kind = json_get_str(trace, "kind");
    bool is_claimed = json_get_str(trace, "session"), is_plain = !kind || streq(kind, "trace");
    _cleanup_(freep) char *losses = trace_losses(trace);

    return xasprintf("%s%s%s%s%s%s%s%s", state ? state : "?", losses ? ", " : "", losses ? losses : "",
                     is_plain ? "" : ", ", is_plain ? "" : kind, is_claimed ? "" : ", unclaimed",
                     reason ? ": " : "", reason ? reason : "");
}

enum colour trace_colour(const json_t *trace)
{
    int state = trace_state_from_name(json_get_str(trace, "state"));
    _cleanup_(freep) char *losses = trace_losses(trace);

    return state == TRACE_COMPLETE                                ? losses ? COLOUR_WARN : COLOUR_NONE
           : state == TRACE_DUPLICATE || state == TRACE_TRUNCATED ? COLOUR_WARN
                                                                  : COLOUR_BAD;
}

int traces_fetch(struct client *c, const char *path, int64_t limit, json_t **ret)
{
    _cleanup_json_ whole = NULL;
    _cleanup_(freep) char *next = NULL;

    for (;;) {
        _cleanup_json_ page = NULL;
        _cleanup_(freep) char *url = xstrdup(path);
        int64_t have = (int64_t)json_array_size(json_object_get(whole, "traces"));
        url_add_int(&url, "limit", MIN(limit - have, (int64_t)PAGE_MAX));
        url_add(&url, "before", next);
        int status = client_get(c, url, "listing traces", &page);
        if (status != EXIT_DONE)
            return status;
        replace_str(&next, json_get_str(page, "next"));
        size_t n = json_array_size(json_object_get(page, "traces"));
        if (!whole) {
            whole = json_incref(page);
        } else {
            json_array_extend(json_object_get(whole, "traces"), json_object_get(page, "traces"));
            json_object_del(whole, "next");
            json_put_str(whole, "next", next);
        }
        have = (int64_t)json_array_size(json_object_get(whole, "traces"));
        if (!next || n == 0 || have >= limit)
            break;
    }
    *ret = TAKE_PTR(whole);
    return EXIT_DONE;
}
