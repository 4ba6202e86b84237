/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/kernel_name.h"

#include <ctype.h>

/* A number inside a word is a size or a type (bf16, 64x128); one that stands alone is a version or a counter.
 */
static size_t skip_number(const char *p, size_t n, size_t at)
{
    size_t end = at;

    if (at > 0 && p[at - 1] != '_' && p[at - 1] != '.' && p[at - 1] != '-')
        return at;
    while (end < n && isdigit((unsigned char)p[end]))
        end++;
    return end == n || !(isalpha((unsigned char)p[end])) ? end : at;
}

char *kernel_name_normal(struct text name)
{
    static const char prefix[] = "void ";
    char *out = malloc(2 * name.size + 1), *p = out;
    size_t i = name.size > sizeof(prefix) - 1 && memcmp(name.p, prefix, sizeof(prefix) - 1) == 0
                   ? sizeof(prefix) - 1
                   : 0;
    int depth = 0;

    if (!out)
        return NULL;
    while (i < name.size) {
        char c = name.p[i];
        size_t end = isdigit((unsigned char)c) && depth == 0 ? skip_number(name.p, name.size, i) : i;
        if (c == '<' && depth++ == 0) {
            *p++ = '<';
            *p++ = '>';
        } else if (c == '>' && depth > 0) {
            depth--;
        } else if (c == '(' && depth == 0 && p > out && p[-1] != ':') {
            break;
        } else if (end > i) {
            *p++ = '#';
            i = end;
            continue;
        } else if (depth == 0) {
            *p++ = c;
        }
        i++;
    }
    *p = '\0';
    return out;
}
