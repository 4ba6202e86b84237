/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in a name table for the texts of one trace, each looked for once. */
#pragma once

#include "trace/reports/name_table.h"

/* Zero-initialise, with the first two. */
struct text_numbers {
    const struct columns *c;
    struct name_table *names;
    uint32_t *known; /* private */
};

/* Of the text with that number in the trace; what is no text's number is the empty text. -ENOMEM. */
int64_t text_numbers_get(struct text_numbers *numbers, int64_t text);
void text_numbers_done(struct text_numbers *numbers);
