/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

void *xcalloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1);
    if (!p)
        out_of_memory();
    return p;
}

void *xrealloc(void *p, size_t n, size_t size)
{
    void *q = reallocarray(p, n ? n : 1, size ? size : 1);
    if (!q)
        out_of_memory();
    return q;
}

char *xstrndup(const char *s, size_t n)
{
    char *copy = strndup(s, n);
    if (!copy)
        out_of_memory();
    return copy;
}

char *xstrdup(const char *s)
{
    return s ? xstrndup(s, strlen(s)) : NULL;
}

char *xvasprintf(const char *format, va_list ap)
{
    char *s = NULL;
    if (vasprintf(&s, format, ap) < 0)
        out_of_memory();
    return s;
}

char *xasprintf(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *s = xvasprintf(format, ap);
    va_end(ap);
    return s;
}

FILE *xmemstream(char **text, size_t *size)
{
    FILE *f = open_memstream(text, size);
    if (!f)
        out_of_memory();
    return f;
}

void replace_str(char **p, const char *s)
{
    char *copy = xstrdup(s);
    free(*p);
    *p = copy;
}

void append_str(char **p, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    _cleanup_(freep) char *more = xvasprintf(format, ap);
    va_end(ap);
    size_t n = *p ? strlen(*p) : 0, size = strlen(more) + 1;

    *p = xrealloc(*p, n + size, 1);
    memcpy(*p + n, more, size);
}
