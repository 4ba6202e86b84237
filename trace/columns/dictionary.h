/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the number of a string among those of a columnar file, through a hash table that is built at the
 * first call and kept. If memory for it is exhausted, every search walks all strings. Safe for several
 * threads.
 */
#pragma once

#include "trace/columns/columns.h"

struct dictionary;

int dictionary_new(const struct columns *c, struct dictionary **ret);
struct dictionary *dictionary_free(struct dictionary *d);
/* Returns the first equal string, -1 if there is none. */
int64_t dictionary_find(struct dictionary *d, const char *p, size_t size);
