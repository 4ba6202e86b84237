/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/errors.h"

static const char *const outcome_words[_OUTCOME_MAX] = {
    [OUTCOME_SUCCESS] = "success",
    [OUTCOME_INCOMPLETE] = "incomplete",
    [OUTCOME_ERROR] = "error",
};

struct error_kind {
    const char *text;
    int status;
    enum outcome outcome;
    uint64_t count;
};

static int compare(const void *x, const void *y)
{
    const struct error_kind *a = x, *b = y;

    return (a->count < b->count) - (a->count > b->count);
}

/* NULL where there is no room for one more. */
static struct error_kind *kind_of(struct error_kind *kinds, size_t *n, const struct request_record *r)
{
    const char *text = r->error ? r->error : "no reason given";

    for (size_t i = 0; i < *n; i++)
        if (kinds[i].status == r->status && kinds[i].outcome == r->outcome && streq(kinds[i].text, text))
            return &kinds[i];
    if (*n == ERROR_KINDS_MAX)
        return NULL;
    kinds[*n] = (struct error_kind){text, r->status, r->outcome, 0};
    return &kinds[(*n)++];
}

json_t *errors_json(const struct request_record *records, size_t n)
{
    struct error_kind kinds[ERROR_KINDS_MAX] = {0};
    uint64_t others = 0;
    size_t n_kinds = 0;
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        if (records[i].outcome == OUTCOME_SUCCESS)
            continue;
        struct error_kind *kind = kind_of(kinds, &n_kinds, &records[i]);
        ++*(kind ? &kind->count : &others);
    }
    qsort(kinds, n_kinds, sizeof(*kinds), compare);
    for (size_t i = 0; i < n_kinds; i++) {
        json_t *j = json_pack("{s: o, s: I, s: s}", "text", json_text(kinds[i].text), "count",
                              (json_int_t)kinds[i].count, "outcome", outcome_words[kinds[i].outcome]);
        if (kinds[i].status > 0)
            json_put_int(j, "status", kinds[i].status);
        json_array_append_new(list, j);
    }
    if (others > 0)
        json_array_append_new(list, json_pack("{s: s, s: I}", "text", "others", "count", (json_int_t)others));
    return list;
}
