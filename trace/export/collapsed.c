/* SPDX-License-Identifier: Apache-2.0 */
/* One line for each stack, "thread;outer;inner nanoseconds", for tools that draw flame graphs. */
#include "trace/export/export.h"
#include "trace/export/stacks.h"

#include <errno.h>
#include <inttypes.h>

/* A name must not contain the end of a frame or of a line. */
static void collapsed_put_frame(FILE *out, struct text name)
{
    for (size_t i = 0; i < name.size; i++) {
        unsigned char c = (unsigned char)name.p[i];

        putc_unlocked(c == ';' ? ',' : c < 0x20 ? ' ' : c, out);
    }
}

static void collapsed_put_stack(FILE *out, const struct columns *c, const struct stacks *st, uint32_t node,
                                uint32_t *path)
{
    int64_t self = st->nodes[node].self;
    const char *root = st->roots[st->nodes[node].root];
    size_t n = 0;

    for (uint32_t i = node; i != STACK_NONE; i = st->nodes[i].parent)
        path[n++] = i;
    collapsed_put_frame(out, (struct text){root, strlen(root)});
    while (n-- > 0) {
        putc(';', out);
        collapsed_put_frame(out, columns_text(c, st->nodes[path[n]].name));
    }
    fprintf(out, " %" PRId64 "\n", self);
}

int export_collapsed(const struct export_trace *t, const struct selection *s, FILE *out)
{
    _cleanup_(stacks_done) struct stacks st = {0};
    _cleanup_(freep) uint32_t *path = NULL;
    int r = stacks_collect(&st, s);

    if (r < 0)
        return r;
    path = calloc((size_t)st.deepest + 1, sizeof(*path));
    if (!path)
        return -ENOMEM;
    for (uint32_t i = 0; i < st.n; i++) {
        if (st.nodes[i].self > 0)
            collapsed_put_stack(out, t->columns, &st, i, path);
    }
    return 0;
}
