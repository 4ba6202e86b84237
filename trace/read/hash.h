/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash of short texts by multiplication of whole words: equal texts have equal hashes, and that is all it
 * promises. Whoever finds an equal hash still compares the text.
 *
 * It is another one in every process: nobody can write a trace whose strings or ids all meet in one slot.
 * Hence nothing that leaves the process may depend on it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_MULTIPLY UINT64_C(0x9e3779b97f4a7c15)
#define HASH_MIX      UINT64_C(0xd1b54a32d192ed03)

/* Set before main(), and never again. Whoever knew one of them could make a factor of hash_words() zero. */
extern uint64_t hash_seeds[2] __attribute__((visibility("hidden")));

static inline uint64_t load_word(const char *p)
{
    uint64_t w;
    memcpy(&w, p, sizeof(w));
    return w;
}

static inline uint64_t hash_words(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)(a ^ hash_seeds[0]) * (b ^ hash_seeds[1]);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Eight bytes behind the text must be readable; what they are does not matter. */
static inline uint64_t hash_bytes(const char *p, size_t size)
{
    uint64_t h = size;

    if (size < 8) {
        uint64_t bytes = size ? load_word(p) << (64 - 8 * size) : 0;
        return hash_words(bytes, h);
    }
    for (size_t left = size; left > 16; left -= 16, p += 16)
        h = hash_words(load_word(p) ^ h, load_word(p + 8));
    /* The last 16 bytes, overlapping what was taken already; 8 to 16 of them where there are no more. */
    size_t tail = size > 16 ? (size - 1) % 16 + 1 : size;
    const char *end = p + tail;
    h = hash_words(load_word(tail >= 8 ? p : end - 8) ^ h, load_word(end - 8) + h);
    /* Numbered texts differ in a few bits of one word: with one seed in fifty those meet in the low bits. */
    return hash_words(h, size);
}
