/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/format.h"

#include "trace/read/json_text.h"

/* How much must be printable for a file to count as text. */
#define TEXT_LOOK 4096

static const char *const names[_FORMAT_MAX] = {
    [FORMAT_EMPTY] = "empty",
    [FORMAT_KINETO] = "kineto",
    [FORMAT_CHROME] = "chrome",
    [FORMAT_ROCPROF] = "rocprofv3",
    [FORMAT_MEMORY_TIMELINE] = "memory-timeline",
    [FORMAT_JSON] = "json",
    [FORMAT_NSYS_SQLITE] = "nsys-sqlite",
    [FORMAT_SQLITE] = "sqlite",
    [FORMAT_PICKLE] = "pickle",
    [FORMAT_CALLGRIND] = "callgrind",
    [FORMAT_HTML] = "html",
    [FORMAT_TEXT] = "text",
    [FORMAT_BINARY] = "binary",
};

static bool contains(const char *p, size_t size, const char *word)
{
    return p && memmem(p, size, word, strlen(word)) != NULL;
}

static bool is_nsys(const char *p, size_t size)
{
    return contains(p, size, "CUPTI_ACTIVITY_KIND") || contains(p, size, "TARGET_INFO_SESSION_START_TIME");
}

static bool is_pickle(const char *p, size_t size)
{
    return size >= 2 && (uint8_t)p[0] == 0x80 && p[1] >= 2 && p[1] <= 5;
}

static bool is_callgrind(const char *p, size_t size)
{
    size_t n = MIN(size, (size_t)TEXT_LOOK);
    return contains(p, MIN(n, (size_t)64), "# callgrind format") ||
           (contains(p, n, "\nevents:") && (contains(p, n, "\nfn=") || contains(p, n, "creator:")));
}

static bool is_html(const char *p, const char *end)
{
    static const char *const tags[] = {"<!doctype html", "<html"};

    p = json_skip_space(p, end);
    for (size_t i = 0; i < ARRAY_SIZE(tags); i++)
        if ((size_t)(end - p) >= strlen(tags[i]) && strncasecmp(p, tags[i], strlen(tags[i])) == 0)
            return true;
    return false;
}

/* A bracket, then white space, something that can begin a member or element, or the end of the text:
 * marshalled Python dictionaries begin with a brace too. */
static bool is_json(const char *p, const char *end)
{
    if (p == end || (*p != '{' && *p != '['))
        return false;
    bool array = *p == '[';
    p = json_skip_space(p + 1, end);
    return p == end || (*p && strchr(array ? "{[]\"-0123456789tfn" : "\"}", *p));
}

static bool is_text(const char *p, size_t size)
{
    for (size_t i = 0; i < MIN(size, (size_t)TEXT_LOOK); i++)
        if (p[i] == 0 || p[i] == 0x7f || ((uint8_t)p[i] < ' ' && !strchr("\t\n\r\f\033", p[i])))
            return false;
    return true;
}

enum trace_format format_of(const char *head, size_t size)
{
    static const char sqlite[16] = "SQLite format 3";
    const char *end = head + size, *p = json_skip_space(head, end);

    if (p == end)
        return FORMAT_EMPTY;
    if (size >= sizeof(sqlite) && memcmp(head, sqlite, sizeof(sqlite)) == 0)
        return is_nsys(head, size) ? FORMAT_NSYS_SQLITE : FORMAT_SQLITE;
    if (is_pickle(head, size))
        return FORMAT_PICKLE;
    if (is_json(p, end))
        return FORMAT_JSON;
    if (is_html(p, end))
        return FORMAT_HTML;
    if (is_callgrind(head, size))
        return FORMAT_CALLGRIND;
    return is_text(head, size) ? FORMAT_TEXT : FORMAT_BINARY;
}

bool format_is_trace_json(enum trace_format format)
{
    return format == FORMAT_KINETO || format == FORMAT_CHROME;
}

const char *format_name(enum trace_format format)
{
    return names[format];
}

int format_from_name(const char *word)
{
    for (int i = 0; word && i < _FORMAT_MAX; i++)
        if (streq(names[i], word))
            return i;
    return -1;
}
