/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http_range.h"

#include "base/util.h"
#include <strings.h>

/* Reads digits to *ret, INT64_MAX for a greater number, and moves *s behind them. False where there are none.
 */
static bool read_number(const char **s, int64_t *ret)
{
    const char *p = *s;
    int64_t n = 0;

    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *p - '0', &n))
            n = INT64_MAX;
    if (p == *s)
        return false;
    *s = p;
    *ret = n;
    return true;
}

static enum http_range_kind part(int64_t first, int64_t last, int64_t file_size, struct http_range *ret)
{
    if (first >= file_size)
        return HTTP_RANGE_UNSATISFIABLE;
    *ret = (struct http_range){first, MIN(last, file_size - 1) - first + 1};
    return HTTP_RANGE_PART;
}

enum http_range_kind http_range_parse(const char *text, int64_t file_size, struct http_range *ret)
{
    static const char unit[] = "bytes=";
    int64_t first = 0, last = INT64_MAX;

    if (!text || strncasecmp(text, unit, strlen(unit)) != 0)
        return HTTP_RANGE_WHOLE;
    const char *s = text + strlen(unit);
    bool has_first = read_number(&s, &first);
    if (*s++ != '-')
        return HTTP_RANGE_WHOLE;
    bool has_last = read_number(&s, &last);
    if (*s != '\0' || (!has_first && !has_last) || (has_first && last < first))
        return HTTP_RANGE_WHOLE;

    if (has_first)
        return part(first, last, file_size, ret);
    if (last == 0 || file_size == 0)
        return HTTP_RANGE_UNSATISFIABLE;
    return part(file_size - MIN(last, file_size), file_size - 1, file_size, ret);
}
