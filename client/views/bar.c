/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/bar.h"

#include "base/alloc.h"
#include <langinfo.h>
#include <math.h>

#define EIGHTHS 8
/* Of a character of the block elements. */
#define UTF8_BYTES 3

static bool has_blocks(void)
{
    return streq(nl_langinfo(CODESET), "UTF-8");
}

char *bar_text(double share, unsigned columns)
{
    static const char *const parts[EIGHTHS] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    double clean = isfinite(share) ? MAX(0.0, MIN(share, 1.0)) : 0;
    unsigned eighths = (unsigned)lround(clean * columns * EIGHTHS), whole = eighths / EIGHTHS;
    bool blocks = has_blocks();
    char *text = xcalloc((size_t)(columns + 1) * UTF8_BYTES + 1, 1), *p = text;

    for (unsigned i = 0; i < whole; i++)
        p = stpcpy(p, blocks ? "█" : "#");
    if (blocks)
        stpcpy(p, parts[eighths % EIGHTHS]);
    return text;
}
