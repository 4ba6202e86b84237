/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reports/bar.h"

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

char *sparkline_text(const double *values, size_t n)
{
    static const char *const heights[EIGHTHS] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[EIGHTHS] = {"_", "_", ".", ".", "-", "-", "^", "^"};
    const char *const *set = has_blocks() ? heights : plain;
    double largest = 0;
    char *text = xcalloc(n * UTF8_BYTES + 1, 1), *p = text;

    for (size_t i = 0; i < n; i++)
        if (isfinite(values[i]))
            largest = MAX(largest, values[i]);
    for (size_t i = 0; i < n; i++) {
        double part = largest > 0 && isfinite(values[i]) ? MAX(values[i], 0.0) / largest : 0;
        p = stpcpy(p, isfinite(values[i]) ? set[MIN((unsigned)(part * EIGHTHS), EIGHTHS - 1u)] : " ");
    }
    return text;
}
