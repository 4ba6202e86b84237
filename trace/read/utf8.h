/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of characters in UTF-8, by Unicode's table 3-7. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* U+FFFD, for what is no character. */
static const char utf8_replacement[3] = {'\xEF', '\xBF', '\xBD'};

/* Bytes of the character at p, of which `left` bytes are there; 0 where it is none. */
size_t utf8_size(const char *p, size_t left);
/* Writes a code point, at most four bytes; how many they are. */
size_t utf8_put(uint32_t code, char *out);
