/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings, each kept once and known by its number, in order of appearance. Number 0 is the empty string.
 *
 * Grows without copying what it has: text lies in chunks. Bounded by what the caller allows.
 */
#pragma once

#include "base/util.h"

#define STRINGS_NONE UINT32_MAX /* no memory, or over the limit */

struct strings;

int strings_new(uint64_t bytes_max, struct strings **ret);
struct strings *strings_free(struct strings *s);
uint64_t strings_hash(const char *p, size_t size);
/* The bytes p to p + size + 32 must be readable (what lies behind size does not matter). */
uint32_t strings_intern(struct strings *s, const char *p, size_t size);
uint32_t strings_intern_hashed(struct strings *s, const char *p, size_t size, uint64_t hash);
uint32_t strings_count(const struct strings *s);
const char *strings_get(const struct strings *s, uint32_t number, size_t *ret_size);
uint64_t strings_memory(const struct strings *s);

DEFINE_CLEANUP(struct strings *, strings_free)
