/* SPDX-License-Identifier: Apache-2.0 */
/* Slices lie one within the other, whatever the graph. */
#include "trace/read/callgrind.h"
#include <errno.h>

#define STRINGS_MAX (16 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct check {
    uint32_t thread;
    size_t depth;
    int64_t ends[CALLGRAPH_DEPTH_MAX];
};

static void check_events(struct check *c, const struct batch *b)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct event *e = &b->events[i];
        if (e->thread != c->thread)
            *c = (struct check){.thread = e->thread};
        while (c->depth > 0 && e->ts >= c->ends[c->depth - 1])
            c->depth--;
        if (e->dur <= 0 || c->depth == CALLGRAPH_DEPTH_MAX ||
            (c->depth > 0 && e->ts + e->dur > c->ends[c->depth - 1]))
            abort();
        c->ends[c->depth++] = e->ts + e->dur;
    }
}

static struct batch *flush(struct intake *in, struct batch *full, void *arg)
{
    (void)in;
    check_events(arg, full);
    batch_reset(full);
    return full;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    _cleanup_(intake_freep) struct intake *in = NULL;
    struct check check = {0};
    char reason[256];

    if (intake_new(STRINGS_MAX, &in) < 0)
        return 0;
    in->flush = flush;
    in->flush_arg = &check;
    if (callgrind_read(data, size, in, reason, sizeof(reason)) == 0)
        check_events(&check, in->batch);
    return 0;
}
