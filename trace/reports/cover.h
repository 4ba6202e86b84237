/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a time a set of times covers, asked for again and again. */
#pragma once

#include "trace/reports/interval.h"

struct cover {
    struct intervals times;
    int64_t *before; /* private: length of all before each of them */
};

/* times: normalised; they become the cover's. -ENOMEM. */
int cover_new(struct intervals *times, struct cover *ret);
void cover_done(struct cover *cover);
/* Of [from, to). */
int64_t cover_length(const struct cover *cover, int64_t from, int64_t to);
