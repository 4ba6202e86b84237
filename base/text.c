/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include "base/alloc.h"
#include <ctype.h>
#include <string.h>

/* -- Words of lists ------------------------------------------------------------------------------------- */

#define SEPARATORS " \t,"

size_t words_next(const char **rest, const char **ret)
{
    const char *word = *rest + strspn(*rest, SEPARATORS);
    size_t size = strcspn(word, SEPARATORS);

    *ret = word;
    *rest = word + size;
    return size;
}

/* -- Characters that are shown -------------------------------------------------------------------------- */

/*
 * Unicode's categories Cc, Zl, Zp and Cf, and the property Default_Ignorable_Code_Point. Those are left out
 * that scripts are written with: joiners (U+200C, U+200D), signs that stand before numbers (U+0600 and
 * others), hieroglyphs (U+13430), variants of Mongolian letters and of emoji (U+180B and others, U+FE00 to
 * U+FE0F).
 */
static const struct {
    uint32_t first, last;
} hidden[] = {
    {0x00, 0x1f},       /* C0 */
    {0x7f, 0x9f},       /* DEL, C1 */
    {0xad, 0xad},       /* soft hyphen */
    {0x34f, 0x34f},     /* joiner of combining characters */
    {0x61c, 0x61c},     /* Arabic letter mark: direction */
    {0x115f, 0x1160},   /* Hangul fillers */
    {0x17b4, 0x17b5},   /* Khmer vowels that are not written */
    {0x180e, 0x180e},   /* Mongolian vowel separator */
    {0x200b, 0x200b},   /* space of no width */
    {0x200e, 0x200f},   /* direction: marks */
    {0x2028, 0x2029},   /* separators of lines and paragraphs */
    {0x202a, 0x202e},   /* direction: embeddings, overrides */
    {0x2060, 0x206f},   /* invisible operators; direction: isolates */
    {0x3164, 0x3164},   /* Hangul filler */
    {0xfeff, 0xfeff},   /* byte order mark */
    {0xffa0, 0xffa0},   /* Hangul filler */
    {0xfff0, 0xfffb},   /* annotations */
    {0x1bca0, 0x1bca3}, /* shorthand */
    {0x1d173, 0x1d17a}, /* musical notation */
    {0xe0000, 0xe0fff}, /* tags, variants of Chinese characters */
};

size_t text_decode(const char *s, uint32_t *ret)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t n = u[0] < 0x80                   ? 1
               : u[0] >= 0xc2 && u[0] < 0xe0 ? 2
               : (u[0] & 0xf0) == 0xe0       ? 3
               : u[0] >= 0xf0 && u[0] < 0xf5 ? 4
                                             : 0;
    uint32_t c = n <= 1 ? u[0] : u[0] & (0x7fu >> n);

    for (size_t i = 1; i < n; i++) {
        if ((u[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (u[i] & 0x3f);
    }
    bool is_longer_than_needed = (n == 3 && c < 0x800) || (n == 4 && c < 0x10000);
    if (is_longer_than_needed || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
        return 0;
    *ret = c;
    return n;
}

bool character_is_hidden(uint32_t c)
{
    for (size_t i = 0; i < ARRAY_SIZE(hidden) && hidden[i].first <= c; i++)
        if (c <= hidden[i].last)
            return true;
    return false;
}

/* Bytes at s that stay, or are replaced. */
static size_t text_next_character(const char *s, bool keep_lines, bool *ret_stays)
{
    uint32_t c = 0;
    size_t n = text_decode(s, &c);

    *ret_stays = n > 0 && (!character_is_hidden(c) || (c == '\n' && keep_lines));
    return MAX(n, (size_t)1);
}

char *text_clean(const char *s, bool keep_lines)
{
    if (!s)
        return NULL;
    char *clean = xcalloc(strlen(s) + 1, 1), *out = clean;
    while (*s) {
        bool stays;
        size_t n = text_next_character(s, keep_lines, &stays);
        if (stays)
            out = mempcpy(out, s, n);
        else
            *out++ = '?';
        s += n;
    }
    return clean;
}

void text_blank(char *line)
{
    while (*line) {
        bool stays;
        size_t n = text_next_character(line, false, &stays);
        if (!stays)
            memset(line, ' ', n);
        line += n;
    }
}

/* -- Misspelled words --------------------------------------------------------------------------------- */

/* Longer words are no names, and the table of distances lies on the stack. */
#define WORD_MAX     64
#define SHORT_WORD   3
#define DISTANCE_MAX 2u

static int text_fold_case(char c)
{
    return tolower((unsigned char)c);
}

/* The optimal string alignment distance. */
static unsigned text_edit_distance(const char *a, const char *b)
{
    unsigned d[WORD_MAX + 1][WORD_MAX + 1];
    size_t n = strlen(a), k = strlen(b);
    /* Of three letters, two do not make a misspelling. */
    unsigned replacement = n > SHORT_WORD ? 1 : 2;

    for (size_t i = 0; i <= n; i++)
        d[i][0] = (unsigned)i;
    for (size_t j = 0; j <= k; j++)
        d[0][j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++)
        for (size_t j = 1; j <= k; j++) {
            bool differs = text_fold_case(a[i - 1]) != text_fold_case(b[j - 1]);
            unsigned replaced = d[i - 1][j - 1] + (differs ? replacement : 0);
            d[i][j] = MIN(replaced, MIN(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && text_fold_case(a[i - 1]) == text_fold_case(b[j - 2]) &&
                text_fold_case(a[i - 2]) == text_fold_case(b[j - 1]))
                d[i][j] = MIN(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n][k];
}

const char *nearest_name(const char *word, const char *const *names, size_t n)
{
    const char *best = NULL;
    size_t size = strlen(word);
    unsigned least = MIN((unsigned)size / 3, DISTANCE_MAX) + 1;

    for (size_t i = 0; i < n && size <= WORD_MAX; i++) {
        if (strlen(names[i]) > WORD_MAX)
            continue;
        unsigned d = text_edit_distance(word, names[i]);
        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

/* -- URLs --------------------------------------------------------------------------------------------- */

void append_url_escaped(char **url, const char *text)
{
    static const char unreserved[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

    _cleanup_(freep) char *escaped = xcalloc(3 * strlen(text) + 1, 1);
    char *out = escaped;

    for (const char *s = text; *s; s++)
        out += sprintf(out, strchr(unreserved, *s) ? "%c" : "%%%02X", (unsigned char)*s);
    append_str(url, "%s", escaped);
}
