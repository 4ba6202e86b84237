/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/reasons.h"

#include "base/alloc.h"
#include "client/cli/text.h"

/* A fleet whose workers each have another reason must not fill the screen. */
#define PRINTED_MAX 12
/* Workers that are named of a group; the others are counted. */
#define NAMED_MAX 2

struct group {
    char *text, *remedy;
    char *named[NAMED_MAX];
    size_t n_workers;
};

struct reasons {
    struct group *groups;
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

static struct group *find(struct reasons *r, const char *text, const char *remedy)
{
    for (size_t i = 0; i < r->n; i++)
        if (streq(r->groups[i].text, text) && streq(r->groups[i].remedy, remedy))
            return &r->groups[i];
    VEC_GROW(r->groups, r->n, r->cap);
    r->groups[r->n] = (struct group){.text = xstrdup(text), .remedy = xstrdup(remedy)};
    return &r->groups[r->n++];
}

void reasons_add(struct reasons *r, const char *worker, const char *text, const char *remedy)
{
    if (!text)
        return;
    _cleanup_(freep) char *clean_text = text_clean(text, true), *clean_remedy = text_clean(remedy, true);
    struct group *g = find(r, clean_text, clean_remedy);
    if (!worker)
        return;
    if (g->n_workers < NAMED_MAX)
        g->named[g->n_workers] = text_clean(worker, false);
    g->n_workers++;
}

static char *who(const struct group *g)
{
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);

    if (!out)
        return xstrdup("");
    for (size_t i = 0; i < MIN(g->n_workers, (size_t)NAMED_MAX); i++)
        fprintf(out, "%s%s", i > 0 ? ", " : "", g->named[i]);
    if (g->n_workers > NAMED_MAX)
        fprintf(out, " and %zu more", g->n_workers - NAMED_MAX);
    if (g->n_workers > 0)
        fputs(": ", out);
    fclose(out);
    return text;
}

void reasons_print(const struct reasons *r, const struct screen *s, unsigned indent)
{
    unsigned width = screen_text_width(s);

    for (size_t i = 0; i < MIN(r->n, (size_t)PRINTED_MAX); i++) {
        const struct group *g = &r->groups[i];
        _cleanup_(freep) char *workers = who(g);
        _cleanup_(freep) char *line = xasprintf("%s%s", workers, g->text);
        _cleanup_(freep) char *wrapped = text_wrap(line, indent + 2, width);
        fprintf(s->file, "%*s%s\n", (int)indent, "", wrapped);
        if (!g->remedy)
            continue;
        _cleanup_(freep) char *remedy = text_wrap(g->remedy, indent + 2, width);
        fprintf(s->file, "%*s%s\n", (int)indent + 2, "", remedy);
    }
    if (r->n > PRINTED_MAX)
        fprintf(s->file, "%*sand %zu more like these; --json has them all\n", (int)indent, "",
                r->n - PRINTED_MAX);
}
