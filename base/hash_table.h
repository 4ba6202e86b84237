/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hash table of profd, and the hash functions for it: numbers for things that their owner keeps in an array.
 *
 * Every hash depends on a seed that is drawn once per process, before main(): nobody can write a trace or a
 * network answer whose names meet in one slot. Hence no hash may leave the process, and no order of output may
 * depend on one. Equal keys have equal hashes, different keys may: the owner compares the keys.
 *
 * The table holds numbers only, 8 bytes a slot; at least half of the slots are free. It never removes a number.
 */
#pragma once

#include "base/util.h"

/* -- Hashes ------------------------------------------------------------------------------------------- */

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
    __extension__ unsigned __int128 product = (unsigned __int128)(a ^ hash_seeds[0]) * (b ^ hash_seeds[1]);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The fast variant of hash_bytes(), with the same result: 8 bytes after the text must be readable, whatever
 * they are. */
static inline uint64_t hash_padded(const char *p, size_t size)
{
    uint64_t h = size;

    if (size < 8) {
        uint64_t bytes = size ? load_word(p) << (64 - 8 * size) : 0;
        return hash_words(bytes, h);
    }
    for (size_t left = size; left > 16; left -= 16, p += 16)
        h = hash_words(load_word(p) ^ h, load_word(p + 8));
    /* The last 16 bytes, overlapping those before; 8 to 16 of them where there are no more. */
    size_t tail = size > 16 ? (size - 1) % 16 + 1 : size;
    const char *end = p + tail;
    h = hash_words(load_word(tail >= 8 ? p : end - 8) ^ h, load_word(end - 8) + h);
    /* Numbered texts differ in a few bits of one word: with one seed in fifty those meet in the low bits. */
    return hash_words(h, size);
}

static inline uint64_t hash_bytes(const void *p, size_t size)
{
    const uint8_t *bytes = p;
    uint64_t word;

    if (size >= 8)
        return hash_padded(p, size);
    if (size == 0)
        return hash_words(0, 0);
    if (size >= 4) {
        uint32_t first, last;
        memcpy(&first, bytes, sizeof(first));
        memcpy(&last, bytes + size - sizeof(last), sizeof(last));
        word = first | (uint64_t)last << 8 * (size - sizeof(last));
    } else {
        word = bytes[0] | (uint64_t)bytes[size / 2] << 8 * (size / 2) |
               (uint64_t)bytes[size - 1] << 8 * (size - 1);
    }
    return hash_words(word << (64 - 8 * size), size);
}

/* -- The table ---------------------------------------------------------------------------------------- */

struct hash_slot {
    uint32_t hash;
    uint32_t number; /* + 1; 0: free */
};

/* A zeroed table is empty. */
struct hash_table {
    struct hash_slot *slots;
    size_t n_slots; /* a power of two, or 0 */
    size_t n;       /* numbers in the table */
};

#define HASH_SLOTS_FIRST ((size_t)64)
#define HASH_NUMBERS_MAX (UINT32_MAX / 2) /* numbers that a table may hold */

/* Whether the owner's thing with that number is equal to the key. */
typedef bool (*hash_equal)(const void *owner, size_t number, const void *key);

/* Doubles the slots until n numbers fit; -ENOMEM without a change. */
int hash_table_grow(struct hash_table *t, size_t n);
void hash_table_done(struct hash_table *t);

static inline int hash_table_reserve(struct hash_table *t, size_t n)
{
    return 2 * n <= t->n_slots ? 0 : hash_table_grow(t, n);
}

/* The slot that has the key, or the free slot where its number belongs. The table must have a free slot. */
__attribute__((always_inline)) static inline struct hash_slot *hash_table_slot(
    const struct hash_table *t, uint64_t hash, hash_equal is_equal, const void *owner, const void *key)
{
    uint32_t short_hash = (uint32_t)hash;
    size_t at = short_hash & (t->n_slots - 1);

    while (t->slots[at].number != 0 &&
           (t->slots[at].hash != short_hash || !is_equal(owner, t->slots[at].number - 1, key)))
        at = (at + 1) & (t->n_slots - 1);
    return &t->slots[at];
}

/* Fills a free slot. */
static inline void hash_table_fill(struct hash_table *t, struct hash_slot *slot, uint64_t hash, size_t number)
{
    *slot = (struct hash_slot){(uint32_t)hash, (uint32_t)number + 1};
    t->n++;
}

/* The number of a key. An unknown one gets the next number, t->n before the call: the owner must append the
 * thing. -ENOMEM. */
static inline int64_t hash_table_number(struct hash_table *t, uint64_t hash, hash_equal is_equal,
                                        const void *owner, const void *key)
{
    int r = hash_table_reserve(t, t->n + 1);

    if (r < 0)
        return r;
    struct hash_slot *slot = hash_table_slot(t, hash, is_equal, owner, key);
    if (slot->number == 0)
        hash_table_fill(t, slot, hash, t->n);
    return slot->number - INT64_C(1);
}
