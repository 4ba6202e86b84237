/* SPDX-License-Identifier: Apache-2.0 */
/* Members of an event whose values differ between events that look alike: a part of scan_core.c. */
#pragma once

#include "trace/read/scan_value.h"

/* A name or category that is not a string is ignored. */
_hot_ const char *event_take_name(struct scanner *s, const char *p, const char *end, uint32_t *ret)
{
    if (likely(*p == '"'))
        return string_take(s, p, end, ret);
    *ret = 0;
    return value_skip(s, p, end);
}

_hot_ const char *event_take_time(struct scanner *s, const char *p, const char *end, enum event_member member,
                                  int64_t *ret)
{
    struct slice raw;
    const char *after = number_ns(p, ret);

    if (likely(after))
        return after;
    after = value_take(s, p, end, &raw);
    if (after && !scan_value_number(s, raw, 3, ret))
        s->event.seen &= ~(1u << member);
    return after;
}

_hot_ const char *event_take_id(struct scanner *s, const char *p, const char *end, int64_t *ret,
                                uint32_t *ret_text)
{
    struct slice raw;
    const char *after = number_int(p, ret);

    *ret_text = 0;
    if (likely(after))
        return after;
    *ret = 0;
    if (*p == '"')
        return string_take(s, p, end, ret_text);
    after = value_take(s, p, end, &raw);
    if (after)
        scan_value_number(s, raw, 0, ret);
    return after;
}

static const char *event_take_flow_id(struct scanner *s, const char *p, const char *end)
{
    struct scanned_event *f = &s->event;
    const char *after = number_int(p, &f->id_number);

    f->id = (struct slice){0};
    return after ? after : value_take(s, p, end, &f->id);
}

static const char *event_take_flag(struct scanner *s, const char *p, const char *end, bool *ret)
{
    *ret = *p == 't';
    return value_skip(s, p, end);
}

_hot_ const char *event_take_value(struct scanner *s, const char *p, const char *end, unsigned member)
{
    struct scanned_event *f = &s->event;

    switch (member) {
    case MEMBER_NAME:
        return event_take_name(s, p, end, &f->name);
    case MEMBER_PID:
        return event_take_id(s, p, end, &f->pid, &f->pid_text);
    case MEMBER_TID:
        return event_take_id(s, p, end, &f->tid, &f->tid_text);
    case MEMBER_TS:
        return event_take_time(s, p, end, MEMBER_TS, &f->ts);
    case MEMBER_DUR:
        return event_take_time(s, p, end, MEMBER_DUR, &f->dur);
    case MEMBER_ID:
        return event_take_flow_id(s, p, end);
    case MEMBER_ID2:
        return value_take(s, p, end, &f->id2);
    case MEMBER_BIND_ID:
        return value_take(s, p, end, &f->bind_id);
    case MEMBER_FLOW_IN:
        return event_take_flag(s, p, end, &f->flow_in);
    case MEMBER_FLOW_OUT:
        return event_take_flag(s, p, end, &f->flow_out);
    default:
        return value_skip(s, p, end);
    }
}
