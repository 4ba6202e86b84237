/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/markup.h"

#include "client/cli/text.h"

static const char *escape_of(char c)
{
    static const struct {
        char c;
        const char *escape;
    } escapes[] = {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}};

    for (size_t i = 0; i < ARRAY_SIZE(escapes); i++)
        if (escapes[i].c == c)
            return escapes[i].escape;
    return NULL;
}

void markup_put(FILE *out, const char *text)
{
    _cleanup_(freep) char *clean = text_clean(text, false);

    for (const char *p = clean; p && *p; p++) {
        const char *escape = escape_of(*p);
        if (escape)
            fputs(escape, out);
        else
            fputc(*p, out);
    }
}
