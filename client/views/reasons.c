/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/reasons.h"

#include "base/alloc.h"
#include "client/cli/text.h"

/* Limit of printed reasons, as each worker of a fleet may have another one. */
#define PRINTED_MAX 12
/* Named workers of a group; the others are counted. */
#define NAMED_MAX 2

struct reason_group {
    char *text, *remedy;
    char *named[NAMED_MAX];
    size_t n_workers;
};

struct reasons {
    struct reason_group *groups;
    size_t n, cap;
};

struct reasons *reasons_new(void)
{
    return xcalloc(1, sizeof(struct reasons));
}

struct reasons *reasons_free(struct reasons *r)
{
    if (!r)
        return NULL;
    for (size_t i = 0; i < r->n; i++) {
        free(r->groups[i].text);
        free(r->groups[i].remedy);
        for (size_t k = 0; k < NAMED_MAX; k++)
            free(r->groups[i].named[k]);
    }
    free(r->groups);
    free(r);
    return NULL;
}

size_t reasons_count(const struct reasons *r)
{
    return r->n;
}

static struct reason_group *reasons_group(struct reasons *r, const char *text, const char *remedy)
{
    for (size_t i = 0; i < r->n; i++)
        if (streq(r->groups[i].text, text) && streq(r->groups[i].remedy, remedy))
            return &r->groups[i];
    VEC_GROW(r->groups, r->n, r->cap);
    r->groups[r->n] = (struct reason_group){.text = xstrdup(text), .remedy = xstrdup(remedy)};
    return &r->groups[r->n++];
}

void reasons_add(struct reasons *r, const char *worker, const char *text, const char *remedy)
{
    if (!text)
        return;
    _cleanup_(freep) char *clean_text = text_clean(text, true), *clean_remedy = text_clean(remedy, true);
    struct reason_group *g = reasons_group(r, clean_text, clean_remedy);
    if (!worker)
        return;
    if (g->n_workers < NAMED_MAX)
        g->named[g->n_workers] = text_clean(worker, false);
    g->n_workers++;
}

void reasons_add_to(struct document *d, const struct reasons *r, unsigned indent)
{
    for (size_t i = 0; i < MIN(r->n, (size_t)PRINTED_MAX); i++) {
        const struct reason_group *g = &r->groups[i];
        _cleanup_(freep) char *text = NULL;
        for (size_t k = 0; k < MIN(g->n_workers, (size_t)NAMED_MAX); k++)
            append_str(&text, "%s%s", k > 0 ? ", " : "", g->named[k]);
        if (g->n_workers > NAMED_MAX)
            append_str(&text, " and %zu more", g->n_workers - NAMED_MAX);
        append_str(&text, "%s%s", text ? ": " : "", g->text);
        document_problem(d, indent, text, g->remedy);
    }
    if (r->n > PRINTED_MAX) {
        _cleanup_(freep) char *text = xasprintf("and %zu more problems, in --json", r->n - PRINTED_MAX);
        document_problem(d, indent, text, NULL);
    }
}

void reasons_print(const struct reasons *r, const struct screen *s, unsigned indent)
{
    _cleanup_(document_done) struct document d = {0};

    reasons_add_to(&d, r, indent);
    document_print(&d, s, TABLE_FITTED);
}
