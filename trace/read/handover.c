/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/merge_output.h"

int handover_init(struct handover *h, struct columns_writer *w, size_t size, void (*take)(void *buffer))
{
    *h = (struct handover){.writer = w, .take = take, .size = size};
    h->buffers = malloc(HANDOVER_BUFFERS * size);
    return h->buffers ? 0 : -ENOMEM;
}

void handover_done(struct handover *h)
{
    if (h->writer)
        columns_wait_for(h->writer, h->last);
    free(h->buffers);
}

void *handover_buffer(const struct handover *h)
{
    return h->buffers + h->at * h->size;
}

void handover_give(struct handover *h)
{
    h->last = h->calls[h->at] = columns_call(h->writer, h->take, handover_buffer(h));
    h->at = (h->at + 1) % HANDOVER_BUFFERS;
    columns_wait_for(h->writer, h->calls[h->at]);
}
