/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that a query asks for, as their numbers in a trace.
 */
#pragma once

#include "trace/sql/terms.h"

/* In order. */
struct numbers {
    bool any;
    size_t n, cap;
    int64_t *items;
};

bool numbers_have(const struct numbers *set, int64_t number);
/* Both: SQLite result codes; what the trace has no such text of is left out. */
int numbers_of_texts(struct numbers *set, const struct columns *c, const struct texts *texts);
/* Leaves those that are also in a list, which NULL ends; names NULL: all. */
int numbers_narrow(struct numbers *set, const struct columns *c, const char *const *names);
