/* SPDX-License-Identifier: Apache-2.0 */
/* Counters: each member of their arguments is one of its own. */
#include "trace/read/json_text.h"
#include "trace/read/number.h"
#include "trace/read/scan_state.h"
#include "trace/read/scan_text.h"

/* "NAME MEMBER", or "NAME id: ID MEMBER" for an id in quotes. */
static uint32_t counter_name(struct scanner *s, struct slice member)
{
    const struct found *f = &s->found;
    struct slice id = {0}, parts[5];
    size_t name_size, n = 0, raw_size = 0, size = 0;
    const char *name = strings_get(s->intake->strings, f->name, &name_size);

    parts[n++] = (struct slice){name, name + name_size};
    if (SEEN(f, ID) && scan_is_quoted(f->id))
        id = slice_unquoted((struct slice){f->id.p, f->id.end});
    if (id.p < id.end) {
        static const char between[] = " id: ";
        parts[n++] = (struct slice){between, between + strlen(between)};
        parts[n++] = id;
    }
    static const char space[] = " ";
    parts[n++] = (struct slice){space, space + 1};
    parts[n++] = member;
    for (size_t i = 0; i < n; i++)
        raw_size += (size_t)(parts[i].end - parts[i].p);
    if (!scan_make_room(s, raw_size * SCAN_TEXT_GROWTH + INTERN_BEHIND))
        return STRINGS_NONE;
    for (size_t i = 0; i < n; i++) {
        size_t part = (size_t)(parts[i].end - parts[i].p);
        /* The name is clean already. */
        if (i == 0)
            memcpy(s->room, name, part);
        size += i == 0 ? part : scan_text_unescape(parts[i].p, part, s->room + size, &s->found.flaws);
    }
    memset(s->room + size, 0, INTERN_BEHIND);
    return scan_intern_text(s, s->room, size);
}

static bool counter_value(struct slice value, double *ret)
{
    struct slice digits = slice_unquoted(value);

    return number_real(digits.p, digits.end, ret);
}

void scan_commit_counter(struct scanner *s, uint64_t place, uint32_t thread)
{
    const struct found *f = &s->found;
    struct slice rest, key, value;
    bool any = false;

    if (!SEEN(f, ARGS) || !f->args.p) {
        scan_flaw(s, DEFECT_bad_number);
        return;
    }
    rest = json_inside((struct slice){f->args.p, f->args.end});
    for (; json_next(&rest, &key, &value); any = true) {
        double number;
        int64_t bits;
        if (!counter_value(value, &number)) {
            scan_flaw(s, DEFECT_bad_number);
            continue;
        }
        uint32_t name = counter_name(s, key);
        if (name == STRINGS_NONE)
            return;
        memcpy(&bits, &number, sizeof(bits));
        struct event *e = scan_add_event(s, EVENT_COUNTER, place, thread);
        e->name = name;
        e->dur = bits;
    }
    if (!any)
        scan_flaw(s, DEFECT_bad_number);
}
