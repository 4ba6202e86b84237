/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/queue.h"

#include <errno.h>

struct item {
    int64_t ts, rank; /* of the cursor's event */
    uint32_t order;
    uint32_t input;
    struct run_cursor *cursor;
};

/* A heap: the item that comes first is its first one. */
struct queue {
    size_t n, n_all; /* those that are at their end lie behind the others */
    bool ranked;     /* there are complete events */
    struct item items[];
};

static bool before(const struct item *a, const struct item *b)
{
    if (a->ts != b->ts)
        return a->ts < b->ts;
    return a->rank < b->rank || (a->rank == b->rank && a->order < b->order);
}

static void swap(struct item *a, struct item *b)
{
    struct item c = *a;

    *a = *b;
    *b = c;
}

static void set_key(const struct queue *q, struct item *item, const struct event *e)
{
    item->ts = e->ts;
    item->rank = q->ranked ? event_rank(e) : 0;
}

/* Most often the first item remains it: then this is two comparisons. */
static void sift_down(struct queue *q, size_t at)
{
    struct item moved = q->items[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < q->n && before(&q->items[child + 1], &q->items[child]))
            child++;
        if (child >= q->n || !before(&q->items[child], &moved))
            break;
        q->items[at] = q->items[child];
        at = child;
    }
    q->items[at] = moved;
}

int queue_new(const struct merge_input *inputs, size_t n_inputs, struct spool *spool, struct queue **ret)
{
    _cleanup_(queue_freep) struct queue *q = NULL;
    uint32_t order = 0;
    size_t n = 0;

    for (size_t i = 0; i < n_inputs; i++)
        n += inputs[i].n_runs;
    if (n > UINT32_MAX)
        return -E2BIG;
    q = malloc(sizeof(*q) + n * sizeof(*q->items));
    if (!q)
        return -ENOMEM;
    q->n = q->n_all = 0;
    q->ranked = false;
    for (size_t i = 0; i < n_inputs; i++)
        for (size_t k = 0; k < inputs[i].n_runs; k++)
            q->ranked = q->ranked || run_has_complete(inputs[i].runs[k]);
    for (size_t i = 0; i < n_inputs; i++) {
        for (size_t k = 0; k < inputs[i].n_runs; k++, order++) {
            struct item *item = &q->items[q->n];
            int r;

            if (run_events(inputs[i].runs[k]) == 0)
                continue;
            *item = (struct item){.order = order, .input = (uint32_t)i};
            r = run_cursor_new(inputs[i].runs[k], spool, &item->cursor);
            if (r < 0)
                return r;
            q->n = ++q->n_all;
            set_key(q, item, run_cursor_event(item->cursor));
        }
    }
    for (size_t i = q->n / 2; i-- > 0;)
        sift_down(q, i);
    *ret = TAKE_PTR(q);
    return 0;
}

struct queue *queue_free(struct queue *q)
{
    if (!q)
        return NULL;
    for (size_t i = 0; i < q->n_all; i++)
        run_cursor_free(q->items[i].cursor);
    free(q);
    return NULL;
}

struct run_cursor *queue_head(const struct queue *q)
{
    return q->n > 0 ? q->items[0].cursor : NULL;
}

size_t queue_input(const struct queue *q)
{
    return q->items[0].input;
}

int queue_next(struct queue *q)
{
    struct item *head = &q->items[0];
    const struct event *e;

    run_cursor_next(head->cursor);
    e = run_cursor_event(head->cursor);
    if (e) {
        set_key(q, head, e);
    } else {
        int r = run_cursor_error(head->cursor);

        if (r < 0)
            return r;
        swap(head, &q->items[--q->n]);
    }
    if (q->n > 0)
        sift_down(q, 0);
    return 0;
}
