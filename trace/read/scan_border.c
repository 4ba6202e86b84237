/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where events begin in text of which the beginning is broken or not known: at a brace behind a comma, a
 * bracket, another brace or a line's end, whose object has a "ph" of its own soon.
 */
#include "trace/read/json_text.h"
#include "trace/read/scan_state.h"

/* How far behind its brace an event is looked at, and how far behind what may be the end of all events one is
 * looked for. */
#define BORDER_EVENT  256
#define BORDER_BEHIND 4096

/* The last byte before p that is no space, '\n' where a line begins at p; ',' where the text does. */
static char byte_before(const char *begin, const char *p)
{
    while (p > begin && json_is_space(p[-1])) {
        if (p[-1] == '\n')
            return '\n';
        p--;
    }
    return p > begin ? p[-1] : ',';
}

/* Steps over a string; its end where that is not in the text. */
static const char *skip_string(const char *p, const char *end)
{
    for (p++; p < end && *p != '"'; p++)
        if (*p == '\\')
            p++;
    return p < end ? p + 1 : end;
}

static bool is_phase_key(const char *p, const char *end)
{
    static const char key[] = "\"ph\"";
    size_t size = strlen(key);

    if ((size_t)(end - p) < size || memcmp(p, key, size) != 0)
        return false;
    p = json_skip_space(p + size, end);
    return p < end && *p == ':';
}

static bool has_phase(const char *p, const char *end)
{
    unsigned depth = 1;

    p = json_skip_space(p + 1, end);
    if (p < end && *p != '"')
        return false;
    while (p < end && depth > 0) {
        if (*p == '"') {
            if (depth == 1 && is_phase_key(p, end))
                return true;
            p = skip_string(p, end);
            continue;
        }
        char folded = (char)(*p | 0x20);
        depth += folded == '{';
        depth -= folded == '}';
        p++;
    }
    return false;
}

static bool may_begin(const char *begin, const char *p)
{
    return *p == '{' && strchr(",[}\n", byte_before(begin, p)) != NULL;
}

static bool is_event(const char *begin, const char *p, const char *end)
{
    return may_begin(begin, p) && has_phase(p, end - p > BORDER_EVENT ? p + BORDER_EVENT : end);
}

/* The bracket that closes the events: behind an event, before another member or the end of all. */
static bool may_close(const char *begin, const char *p, const char *end, bool bare)
{
    const char *before = p;

    while (before > begin && json_is_space(before[-1]))
        before--;
    if (*p != ']' || before == begin || before[-1] != '}')
        return false;
    p = json_skip_space(p + 1, end);
    if (p == end || (*p == '}' && !bare))
        return true;
    if (*p != ',' || bare)
        return false;
    p = json_skip_space(p + 1, end);
    return p == end || *p == '"';
}

static bool has_event(const char *begin, const char *p, const char *end)
{
    for (; p < end; p++)
        if (is_event(begin, p, end))
            return true;
    return false;
}

const char *scan_border(const struct scanner *s, const char *p, const char *end, const char **ret_keep)
{
    const char *begin = p++;

    for (; p < end; p++) {
        size_t ahead = may_begin(begin, p) ? BORDER_EVENT : *p == ']' ? BORDER_BEHIND : 0;
        if (ahead == 0)
            continue;
        if ((size_t)(end - p) < ahead && !s->last)
            break;
        const char *limit = (size_t)(end - p) < ahead ? end : p + ahead;
        if (*p == '{' ? has_phase(p, limit)
                      : may_close(begin, p, limit, s->bare) && !has_event(begin, p, limit))
            return p;
    }
    /* What the next search must see of the text before it. */
    do
        p--;
    while (p > begin && json_is_space(*p));
    *ret_keep = p;
    return NULL;
}

size_t scan_guess_event(const char *p, size_t size)
{
    const char *end = p + size, *at = p;

    while ((at = memchr(at, '{', (size_t)(end - at)))) {
        if (is_event(p, at, end))
            return (size_t)(at - p);
        at++;
    }
    return size;
}
