/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/frame_label.h"

#include "base/alloc.h"
#include "client/cli/text.h"
#include <ctype.h>

/* A shorter common part is not cut. */
#define SHARED_MIN 4
/* A word that would be cut in its middle is shown from its beginning, if that is at most this far. */
#define WORD_MAX 12
/* With fewer columns than these, nothing of the common part is shown. */
#define HEAD_COLUMNS_MIN 24
/* With fewer columns a name is not informative. */
#define COLUMNS_MIN 3

void frame_name_init(struct frame_name *ret, char *take_name)
{
    char *name = take_name ? take_name : xstrdup("");

    *ret = (struct frame_name){.name = name, .label = kernel_name_bare(name)};
}

static int compare_labels(const void *x, const void *y)
{
    const struct frame_name *a = *(const struct frame_name *const *)x,
                            *b = *(const struct frame_name *const *)y;

    return strcmp(a->label, b->label);
}

static size_t common_bytes(const char *a, const char *b)
{
    size_t n = 0;

    while (a[n] && a[n] == b[n])
        n++;
    return n;
}

static bool is_ascii(const char *s)
{
    while (*s && (unsigned char)*s < 0x80)
        s++;
    return !*s;
}

/* In order, the label that has most in common with one is its nearest neighbour that differs from it. */
void frame_names_share(struct frame_name *names, size_t n)
{
    _cleanup_(freep) struct frame_name **order = xcalloc(n + 1, sizeof(*order));

    for (size_t i = 0; i < n; i++)
        order[i] = &names[i];
    qsort(order, n, sizeof(*order), compare_labels);
    for (size_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && streq(order[next]->label, order[i]->label);)
            next++;
        size_t shared = next < n ? common_bytes(order[i]->label, order[next]->label) : 0;
        if (i > 0)
            shared = MAX(shared, common_bytes(order[i]->label, order[i - 1]->label));
        /* The script counts characters otherwise than in bytes. */
        for (size_t k = i; k < next; k++)
            order[k]->shared = is_ascii(order[i]->label) ? shared : 0;
    }
}

void frame_names_done(struct frame_name *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(names[i].name);
        free(names[i].label);
    }
}

/* The last N columns of a text. */
static const char *tail_of(const char *s, unsigned columns)
{
    unsigned all = text_columns(s);

    return all > columns ? s + text_fit(s, all - columns) : s;
}

char *frame_label(const struct frame_name *name, unsigned columns)
{
    const char *s = name->label;
    unsigned all = text_columns(s);

    if (all <= columns)
        return xstrdup(s);
    if (columns < COLUMNS_MIN)
        return xstrdup("");
    if (name->shared > SHARED_MIN) {
        size_t begin = name->shared;
        while (begin > 0 && name->shared - begin < WORD_MAX && isalnum((unsigned char)s[begin - 1]))
            begin--;
        /* A template's number means nothing without the template. */
        if (isdigit((unsigned char)s[begin])) {
            const char *arguments = memchr(s, '<', begin);
            size_t name_end = arguments ? (size_t)(arguments - s) : 0;
            while (name_end > 0 && (isalnum((unsigned char)s[name_end - 1]) || s[name_end - 1] == '_'))
                name_end--;
            begin = arguments ? name_end : begin;
        }
        unsigned tail = all - (unsigned)begin;
        if (columns >= tail + 1 + COLUMNS_MIN)
            return xasprintf("%.*s" TEXT_ELLIPSIS "%s", (int)(columns - 1 - tail), s, s + begin);
        /* In little space, only the part that differs is shown. */
        unsigned head = columns < HEAD_COLUMNS_MIN ? 0 : columns / 4;
        if (begin > head + 1 && columns >= head + 2 + COLUMNS_MIN)
            return xasprintf("%.*s" TEXT_ELLIPSIS "%.*s%s", (int)head, s,
                             (int)(tail <= columns - head - 1 ? tail : columns - head - 2), s + begin,
                             tail <= columns - head - 1 ? "" : TEXT_ELLIPSIS);
    }
    unsigned head = (2 * (columns - 1) + 2) / 3;
    return xasprintf("%.*s" TEXT_ELLIPSIS "%s", (int)text_fit(s, head), s, tail_of(s, columns - 1 - head));
}
