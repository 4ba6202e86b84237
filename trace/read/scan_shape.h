/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads an event along a shape: compares complete blocks with the text that an earlier event had in the same place,
 * and takes the values between the texts. A part of scan_core.c.
 *
 * A value may follow more space than expected: no function that takes a value accepts space before it.
 */
#pragma once

#include "trace/read/scan_args.h"
#include "trace/read/scan_member.h"

static inline bool expected_matches(const struct expected *e, const char *p)
{
    return (find_differences(p, e->text) & e->mask) == 0 &&
           (likely(e->size <= 32) || (find_differences(p + 32, e->text + 32) & e->mask_after) == 0);
}

/* Returns the node at which the event after p begins: first that which followed the last event before. */
_hot_ unsigned shape_find_first(struct shapes *h, const char *p)
{
    unsigned node = h->nodes[h->last].next;

    if (likely(node && expected_matches(&h->nodes[node].text, p)))
        return node;
    for (node = h->root; node && !expected_matches(&h->nodes[node].text, p);)
        node = h->nodes[node].other;
    h->nodes[h->last].next = (uint16_t)node;
    return node;
}

/* From the value of "pid" to that of "ts", where the thread is the last one in this place. pid: the node before. */
_hot_ bool shape_has_same_thread(unsigned pid, const struct last_thread *last, const char *p, const char *end)
{
    return last->thread && last->pid == pid && end - p > EXPECTED_MAX && expected_matches(&last->text, p);
}

_hot_ void shape_set_constants(struct scanned_event *f, const struct shape_constants *c)
{
    f->seen &= c->seen;
    f->phase = c->phase;
    f->scope = c->scope;
    f->bind_point = c->bind_point;
    f->has_args = c->has_args;
    f->class = c->class;
    f->category = c->category;
}

/* Adds a complete event that has nothing unusual, and its arguments; false for any other. */
_hot_ bool shape_commit(struct scanner *s, const struct shape_constants *c, const char *p)
{
    const struct scanned_event *f = &s->event;
    int64_t end;

    if (!c->complete || (~f->seen & c->seen) || f->flaws || !f->thread || f->name == 0 || f->dur < 0 ||
        __builtin_add_overflow(f->ts, f->dur, &end) || s->intake->error)
        return false;
    *intake_event(s->intake) = (struct event){
        .ts = f->ts,
        .dur = f->dur,
        .offset = scan_offset(s, p),
        .name = f->name,
        .thread = f->thread - 1,
        .category = c->category,
        .phase = EVENT_COMPLETE,
        .flags = c->has_args ? SLICE_HAS_ARGS : 0,
    };
    if (c->has_args)
        scan_add_rows(s, c->class);
    s->n_events++;
    return true;
}

/* Takes the event after p, and what is between them; NULL, for any reason, if it must be read key by key. */
static const char *shape_take_event(struct scanner *s, const char *p, const char *end)
{
    struct scanned_event *f = &s->event;
    struct shapes *h = &s->shapes;
    const char *start = p, *begin, *pid = NULL;
    size_t room = (size_t)(end - p) - EXPECTED_MAX;
    unsigned node, before_pid = 0;

    if (unlikely(end - p <= EXPECTED_MAX))
        return NULL;
    node = shape_find_first(h, p);
    begin = p + h->nodes[node].brace;
    /* Values clear the bits of members that are not what they should be. */
    f->seen = UINT32_MAX;
    f->flaws = 0;
    f->touched = 0;
    f->args.p = NULL;
    f->thread = 0;
    f->thread_text.p = NULL;
    while (likely(node)) {
        const struct shape_node *n = &h->nodes[node];
        p += n->text.size;
        switch (n->follows) {
        case MEMBER_PID:
            f->last_thread = &h->threads[n->thread];
            if (!shape_has_same_thread(node, f->last_thread, p, end)) {
                pid = p;
                before_pid = node;
                p = event_take_id(s, p, end, &f->pid, &f->pid_text);
                break;
            }
            p += f->last_thread->text.size;
            f->thread = f->last_thread->thread;
            n = &h->nodes[f->last_thread->ts];
            p = event_take_time(s, p, end, MEMBER_TS, &f->ts);
            break;
        case MEMBER_TS:
            if (n->after_ids) {
                f->thread_text = (struct slice){pid, p};
                f->last_thread->thread = 0;
                f->last_thread->pid = (uint16_t)before_pid;
                f->last_thread->ts = (uint16_t)node;
            }
            p = event_take_time(s, p, end, MEMBER_TS, &f->ts);
            break;
        case SHAPE_ARG:
            p = args_take_value(s, p, end, n->arg);
            break;
        case SHAPE_GAP:
            break;
        case SHAPE_END:
            h->last = (uint16_t)node;
            if (unlikely(!shape_commit(s, &n->constants, begin))) {
                shape_set_constants(f, &n->constants);
                scan_commit(s, begin);
            }
            return p;
        default:
            p = event_take_value(s, p, end, n->follows);
        }
        /* NULL is far away, too. */
        if (unlikely((uintptr_t)p - (uintptr_t)start >= room))
            return NULL;
        for (node = n->next; node && !expected_matches(&h->nodes[node].text, p);)
            node = h->nodes[node].other;
    }
    return NULL;
}
