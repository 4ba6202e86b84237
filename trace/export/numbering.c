/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/numbering.h"

#include <errno.h>

int numbering_init(struct numbering *n, const struct columns *c)
{
    *n = (struct numbering){.texts = columns_texts(c)};
    n->given = calloc((size_t)n->texts + 1, sizeof(n->given[0]));
    return n->given ? 0 : -ENOMEM;
}

void numbering_done(struct numbering *n)
{
    free(n->given);
    n->given = NULL;
}

uint32_t numbering_of(struct numbering *n, int64_t text)
{
    uint32_t *given = &n->given[text < 0 || text >= n->texts ? n->texts : text];

    if (*given == 0)
        *given = ++n->n;
    return *given - 1;
}

int64_t *numbering_list(const struct numbering *n)
{
    int64_t *list = calloc((size_t)n->n + 1, sizeof(*list));

    for (size_t text = 0; list && text <= n->texts; text++) {
        if (n->given[text] > 0)
            list[n->given[text] - 1] = (int64_t)text;
    }
    return list;
}
