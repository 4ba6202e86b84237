/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/excerpt.h"

/* Length of buf without an incomplete UTF-8 sequence at its end. */
static size_t whole_characters(const char *buf, size_t n)
{
    size_t i = n;

    while (i > 0 && n - i < 3 && ((unsigned char)buf[i - 1] & 0xc0) == 0x80)
        i--;
    if (i == 0 || (unsigned char)buf[i - 1] < 0xc0)
        return n;
    unsigned char lead = (unsigned char)buf[i - 1];
    size_t wanted = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    return n - (i - 1) < wanted ? i - 1 : n;
}

char *excerpt(const char *text, size_t size, char *buf, size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < size && n + 1 < max; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c > ' ' && c != 0x7f)
            buf[n++] = (char)c;
        else if (n > 0 && buf[n - 1] != ' ')
            buf[n++] = ' ';
    }
    n = whole_characters(buf, n);
    while (n > 0 && buf[n - 1] == ' ')
        n--;
    buf[n] = '\0';
    return buf;
}

bool looks_like_html(const char *data, size_t size)
{
    while (size > 0 && (*data == ' ' || *data == '\n' || *data == '\r' || *data == '\t')) {
        data++;
        size--;
    }
    return size > 0 && *data == '<';
}
