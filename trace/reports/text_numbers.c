/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/text_numbers.h"

#include <errno.h>

int64_t text_numbers_get(struct text_numbers *numbers, int64_t text)
{
    uint32_t n_texts = columns_texts(numbers->c);

    if (!numbers->known) {
        numbers->known = calloc((size_t)n_texts + 1, sizeof(*numbers->known));
        if (!numbers->known)
            return -ENOMEM;
    }
    /* The last place is that of what has no text. */
    uint32_t *known = &numbers->known[text >= 0 && text < n_texts ? text : n_texts];
    if (*known == 0) {
        int64_t found = name_table_number(numbers->names, columns_text(numbers->c, text));
        if (found < 0)
            return found;
        *known = (uint32_t)found + 1;
    }
    return *known - 1;
}

void text_numbers_done(struct text_numbers *numbers)
{
    free(numbers->known);
    numbers->known = NULL;
}
