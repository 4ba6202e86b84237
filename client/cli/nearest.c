/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/nearest.h"

#include <ctype.h>

/* Longer words are no names, and the table of distances lies on the stack. */
#define WORD_MAX 64

static int fold(char c)
{
    return tolower((unsigned char)c);
}

/* The optimal string alignment distance. */
static unsigned distance(const char *a, const char *b)
{
    unsigned d[WORD_MAX + 1][WORD_MAX + 1];
    size_t n = strlen(a), k = strlen(b);

    for (size_t i = 0; i <= n; i++)
        d[i][0] = (unsigned)i;
    for (size_t j = 0; j <= k; j++)
        d[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= k; j++) {
            unsigned replaced = d[i - 1][j - 1] + (fold(a[i - 1]) != fold(b[j - 1]));
            d[i][j] = MIN(replaced, MIN(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]))
                d[i][j] = MIN(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][k];
}

const char *nearest_name(const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t size = strlen(word);
    /* A third of the word may be wrong. */
    unsigned least = (unsigned)(size + 1) / 3 + 1;

    for (size_t i = 0; i < n && size <= WORD_MAX; i++) {
        if (strlen(names[i]) > WORD_MAX)
            continue;
        unsigned d = distance(word, names[i]);
        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    return best;
}
