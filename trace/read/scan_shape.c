/* SPDX-License-Identifier: Apache-2.0 */
/* Makes shapes of events that were read key by key. */
#include "trace/read/scan_state.h"

/* Text of an event that may become a shape: its nodes fit into a part of all. */
#define SHAPE_TEXT_MAX (SHAPE_NODES / 8 * EXPECTED_MAX)
_Static_assert(SHAPE_TEXT_MAX / EXPECTED_MAX + SHAPE_VALUES_MAX + 2 < SHAPE_NODES,
               "there is room for a shape");

void shapes_forget(struct shapes *h)
{
    h->n = 1;
    h->root = h->last = 0;
    h->nodes[0].next = 0;
    h->n_threads = 0;
    h->misses = 0;
}

/* Finds or adds the node for a text in the place of the link; 0 if there are too many. */
static unsigned shapes_node(struct shapes *h, uint16_t *link, const char *p, const char *end,
                            unsigned follows)
{
    unsigned others = 0;

    for (; *link; link = &h->nodes[*link].other, others++) {
        const struct shape_node *n = &h->nodes[*link];
        if (n->follows == follows && n->text.size == end - p && memcmp(n->text.text, p, n->text.size) == 0)
            return *link;
    }
    if (others == SHAPE_OTHERS_MAX)
        return 0;
    *link = h->n;
    struct shape_node *n = &h->nodes[h->n];
    *n = (struct shape_node){.follows = (uint8_t)follows};
    expected_set(&n->text, p, end);
    return h->n++;
}

/* What a node must know besides its text and value. before: the nodes before it, the latest last. */
static void shapes_fill(struct scanner *s, struct shape_node *n, const unsigned before[static 2])
{
    struct shapes *h = &s->shapes;
    const struct shape_node *pid = &h->nodes[before[0]], *tid = &h->nodes[before[1]];

    if (n->follows == MEMBER_PID) {
        n->thread = h->n_threads++ % SHAPE_THREADS;
        h->threads[n->thread].thread = 0;
    }
    n->after_ids = n->follows == MEMBER_TS && pid->follows == MEMBER_PID && tid->follows == MEMBER_TID;
    if (n->follows == SHAPE_END) {
        const uint32_t usual = 1u << MEMBER_CAT | 1u << MEMBER_NAME | 1u << MEMBER_PID | 1u << MEMBER_TID |
                               1u << MEMBER_TS | 1u << MEMBER_DUR;
        const struct scanned_event *f = &s->event;
        n->constants = (struct shape_constants){
            .seen = s->draft.members,
            .phase = f->phase,
            .scope = f->scope,
            .bind_point = f->bind_point,
            .has_args = f->has_args && s->draft.members & 1u << MEMBER_ARGS,
            .complete = f->phase == 'X' && (s->draft.members & usual) == usual &&
                        !(s->draft.members & 1u << MEMBER_BIND_ID),
            .class = f->class,
            .category = f->category,
        };
    }
}

void shapes_learn(struct scanner *s, const char *begin, const char *brace, const char *end)
{
    struct shapes *h = &s->shapes;
    struct shape_draft *d = &s->draft;
    size_t room = SHAPE_TEXT_MAX / EXPECTED_MAX + SHAPE_VALUES_MAX + 2;
    unsigned before[2] = {0}, node = 0;
    uint16_t *link = &h->root;

    h->last = 0;
    if (++h->misses == SHAPE_MISSES_MAX || h->n + room > SHAPE_NODES)
        shapes_forget(h);
    shape_draft_add(d, SHAPE_END, NULL, end, end);
    if (!d->usable || s->event.flaws != 0 || brace - begin >= EXPECTED_MAX || end - begin > SHAPE_TEXT_MAX)
        return;
    for (size_t i = 0; i < d->n; i++) {
        const struct shape_value *v = &d->values[i];
        const char *p = i == 0 ? begin : v[-1].end;
        for (bool gap = true; gap; p += EXPECTED_MAX, link = &h->nodes[node].next) {
            unsigned known = h->n;
            gap = v->begin - p > EXPECTED_MAX;
            node = shapes_node(h, link, p, gap ? p + EXPECTED_MAX : v->begin, gap ? SHAPE_GAP : v->follows);
            if (node == 0)
                return;
            if (node < known)
                continue;
            h->nodes[node].arg = v->arg;
            h->nodes[node].brace = (uint8_t)(brace - begin);
            shapes_fill(s, &h->nodes[node], before);
        }
        before[0] = before[1];
        before[1] = node;
    }
}
