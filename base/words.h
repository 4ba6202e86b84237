/* SPDX-License-Identifier: Apache-2.0 */
/* Lists as people write them: words with spaces, tabs or commas between. Pure. */
#pragma once

#include <stddef.h>

/* The length of the next word of *rest, which is set behind it, and where it starts; 0 where none is left. */
size_t words_next(const char **rest, const char **ret);
