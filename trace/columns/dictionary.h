/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the number of a string among those of a columnar file, through a hash table that is made at the first
 * call and kept. Where there is no memory for it, every search walks all strings. Safe for several threads.
 */
#pragma once

#include "trace/columns/columns.h"

struct dictionary;

int dictionary_new(const struct columns *c, struct dictionary **ret);
struct dictionary *dictionary_free(struct dictionary *d);
/* The first string that is equal, -1 where there is none. */
int64_t dictionary_find(struct dictionary *d, const char *p, size_t size);
