/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/clean_text.h"

#include "trace/read/utf8.h"
#include <errno.h>

/* What strings_intern() may read behind a text. */
#define INTERN_PAD 32

uint32_t clean_text(struct intake *in, const char *p, size_t size, uint64_t place)
{
    char text[CLEAN_TEXT_MAX + INTERN_PAD];
    size_t n = 0;
    bool bad = false;

    for (size_t i = 0; i < size;) {
        size_t taken = utf8_size(p + i, size - i);
        const char *from = taken > 0 ? p + i : utf8_replacement;
        size_t given = taken > 0 ? taken : sizeof(utf8_replacement);

        if (n + given > CLEAN_TEXT_MAX) {
            intake_defect(in, DEFECT_too_large_event, place);
            return STRINGS_NONE;
        }
        memcpy(text + n, from, given);
        n += given;
        i += MAX(taken, 1);
        bad |= taken == 0;
    }
    if (bad)
        intake_defect(in, DEFECT_bad_utf8, place);
    memset(text + n, 0, INTERN_PAD);

    uint32_t number = strings_intern(in->strings, text, n);
    if (number == STRINGS_NONE && in->error == 0)
        in->error = -ENOMEM;
    return number;
}
