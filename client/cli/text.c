/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/text.h"

#include "base/alloc.h"
#include <ctype.h>
#include <stdint.h>
#include <wchar.h>

/* jansson leaves DEL, which only strings can have, as it is. */
char *text_json(const json_t *value, size_t flags)
{
    static const char del[] = "\\u007f";
    _cleanup_(freep) char *text = json_dumps(value, flags | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
    char *clean = xcalloc(strlen(text) * strlen(del) + 1, 1), *out = clean;

    for (const char *c = text; *c; c++) {
        if (*c == '\x7f')
            out = stpcpy(out, del);
        else
            *out++ = *c;
    }
    return clean;
}

/* Length of an SGR sequence ("\033[1;31m") at s; 0: none. */
static size_t sgr_length(const char *s)
{
    if (s[0] != '\033' || s[1] != '[')
        return 0;
    size_t n = 2 + strspn(s + 2, "0123456789;");
    return s[n] == 'm' ? n + 1 : 0;
}

static size_t text_walk(const char *s, unsigned columns, unsigned *ret_columns)
{
    const char *p = s;
    unsigned used = 0;

    while (*p) {
        uint32_t c;
        size_t n = sgr_length(p);
        if (n > 0) {
            p += n;
            continue;
        }
        n = text_decode(p, &c);
        int width = n == 0 || (c >= ' ' && c <= '~') ? 1 : wcwidth((wchar_t)c);
        unsigned cost = width < 0 ? 1 : (unsigned)width;
        if (used + cost > columns)
            break;
        used += cost;
        p += MAX(n, (size_t)1);
    }
    if (ret_columns)
        *ret_columns = used;
    return (size_t)(p - s);
}

size_t text_fit(const char *s, unsigned columns)
{
    return text_walk(s, columns, NULL);
}

unsigned text_columns(const char *s)
{
    unsigned n;
    text_walk(s, UINT32_MAX, &n);
    return n;
}

/* The end of s that fits into the given columns. */
static const char *last_columns(const char *s, unsigned columns)
{
    unsigned all = text_columns(s);
    const char *end = s + text_fit(s, all - MIN(all, columns));

    /* A wide character across the border goes to neither side. */
    while (text_columns(end) > columns)
        end += text_fit(end, 2);
    return end;
}

char *text_shorten(const char *s, unsigned width)
{
    return text_columns(s) <= width ? xstrdup(s)
                                    : xasprintf("%.*s" TEXT_ELLIPSIS, (int)text_fit(s, width - 1), s);
}

char *text_shorten_middle(const char *s, unsigned width)
{
    unsigned head = (width - 1) / 2;

    if (text_columns(s) <= width)
        return xstrdup(s);
    return xasprintf("%.*s" TEXT_ELLIPSIS "%s", (int)text_fit(s, head), s, last_columns(s, width - 1 - head));
}

char *text_shorten_before(const char *s, unsigned width, size_t byte)
{
    unsigned head = (width - 1) / 3, rest = width - 1 - head;

    if (text_columns(s) <= width)
        return xstrdup(s);
    if (text_columns(s + byte) <= rest)
        return xasprintf("%.*s" TEXT_ELLIPSIS "%s", (int)text_fit(s, head), s, last_columns(s, rest));
    if (text_fit(s, head) >= byte)
        return text_shorten(s, width);
    return xasprintf("%.*s" TEXT_ELLIPSIS "%.*s" TEXT_ELLIPSIS, (int)text_fit(s, head), s,
                     (int)text_fit(s + byte, rest - 1), s + byte);
}

char *text_shorten_path(const char *s, unsigned width)
{
    if (text_columns(s) <= width)
        return xstrdup(s);
    const char *end = last_columns(s, width - 1), *slash = strchr(end, '/');

    return xasprintf(TEXT_ELLIPSIS "%s", slash && slash[1] ? slash : end);
}

static size_t word_size(const char *p, const char *end)
{
    const char *space = memchr(p, ' ', (size_t)(end - p));

    return (size_t)((space ? space : end) - p);
}

/* Whether a unit of a number begins there: "% of", "ms,". */
static bool begins_with_unit(const char *p, const char *end)
{
    static const char *const units[] = {"%", "ns",  "us",  "ms",  "s",   "min",
                                        "B", "KiB", "MiB", "GiB", "TiB", "GB/s"};

    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        size_t n = strlen(units[i]);
        if ((size_t)(end - p) >= n && memcmp(p, units[i], n) == 0 &&
            (p + n == end || !isalnum((unsigned char)p[n])))
            return true;
    }
    return false;
}

static void wrap_line(FILE *out, const char *line, size_t size, unsigned indent, unsigned width)
{
    unsigned used = indent;
    const char *p = line, *end = line + size;

    if (*line == ' ') {
        fwrite(line, 1, size, out);
        return;
    }
    while (p < end) {
        size_t n = word_size(p, end);
        while (n > 0 && p + n < end && isdigit((unsigned char)p[n - 1]) && begins_with_unit(p + n + 1, end))
            n += 1 + word_size(p + n + 1, end);
        _cleanup_(freep) char *word = xstrndup(p, n);
        unsigned columns = text_columns(word);
        if (p > line && used + 1 + columns > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            used = indent;
        } else if (p > line) {
            fputc(' ', out);
            used++;
        }
        fputs(word, out);
        used += columns;
        p += n;
        while (p < end && *p == ' ')
            p++;
    }
}

char *text_wrap(const char *s, unsigned indent, unsigned width)
{
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);
    if (!out)
        return xstrdup(s);
    for (;;) {
        size_t n = strcspn(s, "\n");
        wrap_line(out, s, n, indent, width);
        s += n;
        if (*s == '\n')
            s++;
        if (!*s)
            break;
        fprintf(out, "\n%*s", (int)indent, "");
    }
    fclose(out);
    return text;
}

char *text_number(char *buf, int64_t n)
{
    char digits[24], *out = buf;
    int len = snprintf(digits, sizeof(digits), "%lld", (long long)n);
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0 && digits[i - 1] != '-')
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = '\0';
    return buf;
}

char *text_count(int64_t n, const char *word)
{
    char buf[32];
    return xasprintf("%s %s%s", text_number(buf, n), word, n == 1 ? "" : "s");
}

/* -- Did you mean ------------------------------------------------------------------------------------- */

char *did_you_mean(const char *word, const char *const *names, size_t n, const char *remedy)
{
    const char *near = nearest_name(word, names, n);

    return near ? xasprintf("Did you mean %s? %s", near, remedy) : xstrdup(remedy);
}

/* "file.py(503): forward": the number in brackets is a line, and the function comes after it. */
static bool is_python_frame(const char *name)
{
    const char *bracket = strstr(name, ".py(");

    return bracket && isdigit((unsigned char)bracket[strlen(".py(")]);
}

/* Bytes of a name up to the arguments of its function, whose types are less useful than those of the
 * template. */
static size_t name_bytes(const char *name)
{
    size_t n;
    int depth = 0;

    for (n = 0; name[n] && !(name[n] == '(' && depth == 0 && n > 0 && !starts_with(name + n, "(anonymous"));
         n++)
        depth += (name[n] == '<') - (name[n] == '>');
    return n;
}

char *kernel_name_bare(const char *name)
{
    bool is_function = starts_with(name, "void ");

    if (is_function)
        name += strlen("void ");
    /* Other names keep their brackets: a Python frame has its line there. */
    return is_function || strstr(name, "::") ? xstrndup(name, name_bytes(name)) : xstrdup(name);
}

char *kernel_name_fit(const char *name, unsigned width)
{
    if (starts_with(name, "void "))
        name += strlen("void ");
    if (text_columns(name) <= width)
        return xstrdup(name);
    if (is_python_frame(name))
        return xasprintf(TEXT_ELLIPSIS "%s", name + text_fit(name, text_columns(name) - width + 1));
    _cleanup_(freep) char *shorter = xstrndup(name, name_bytes(name));
    return text_shorten(shorter, width);
}
