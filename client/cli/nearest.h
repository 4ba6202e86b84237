/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": the name that a misspelt word is nearest to. A pure function. */
#pragma once

#include "base/util.h"

/* Of n names, the one that takes the fewest insertions, deletions, replacements and swaps of neighbours,
 * upper and lower case being one. NULL where none is near enough to be meant. */
const char *nearest_name(const char *word, const char *const *names, size_t n);
