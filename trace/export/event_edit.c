/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/event_edit.h"

#include "trace/read/number.h"

static struct slice members(struct text event)
{
    return json_inside((struct slice){event.p, event.p + event.size});
}

bool event_member(struct text event, const char *key, struct slice *ret)
{
    struct slice rest = members(event), name, value;
    bool found = false;

    while (json_next(&rest, &name, &value)) {
        if (slice_is(name, key)) {
            *ret = value;
            found = true;
        }
    }
    return found;
}

bool event_has_ns(struct text event, const char *key, int64_t ns)
{
    struct slice value;
    int64_t number;

    if (!event_member(event, key, &value))
        return false;
    value = slice_unquoted(value);
    switch (number_scaled(value.p, value.end, 3, &number)) {
    case NUMBER_EXACT:
    case NUMBER_ROUNDED:
        return number == ns;
    default:
        return false;
    }
}

static const struct edit *find_edit(const struct edit *edits, size_t n, struct slice key, bool *done)
{
    for (size_t i = 0; i < n; i++) {
        if (slice_is(key, edits[i].key)) {
            done[i] = true;
            return &edits[i];
        }
    }
    return NULL;
}

static void put(FILE *out, const char *from, const char *to)
{
    fwrite(from, 1, (size_t)(to - from), out);
}

void event_write(FILE *out, struct text event, const struct edit *edits, size_t n)
{
    struct slice rest = members(event), key, value;
    const char *copied = event.p, *behind = rest.p;
    bool done[EDITS_MAX] = {false}, any = false;

    while (json_next(&rest, &key, &value)) {
        const struct edit *edit = find_edit(edits, n, key, done);

        any = true;
        behind = value.end;
        if (!edit)
            continue;
        put(out, copied, value.p);
        fputs(edit->value, out);
        copied = value.end;
    }
    put(out, copied, behind);
    for (size_t i = 0; i < n; i++) {
        if (!done[i])
            fprintf(out, "%s\"%s\": %s", any ? ", " : "", edits[i].key, edits[i].value);
        any = any || !done[i];
    }
    put(out, behind, event.p + event.size);
}
