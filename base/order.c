/* SPDX-License-Identifier: Apache-2.0 */
#include "base/order.h"

#define DIGIT_BITS 11
#define DIGITS     (1u << DIGIT_BITS)
/* Below that, going through all digits takes longer than comparing. */
#define FEW 512

static int compare(const void *x, const void *y)
{
    const struct order_key *a = x, *b = y;

    return a->number != b->number ? (a->number > b->number) - (a->number < b->number)
                                  : (a->item > b->item) - (a->item < b->item);
}

/* Where each digit begins; false where all have the same, and nothing is to be moved. */
static bool count_digits(const struct order_key *keys, size_t n, uint64_t least, unsigned shift,
                         size_t places[DIGITS])
{
    size_t place = 0, most = 0;

    memset(places, 0, DIGITS * sizeof(*places));
    for (size_t i = 0; i < n; i++)
        places[((uint64_t)keys[i].number - least) >> shift & (DIGITS - 1)]++;
    for (size_t digit = 0; digit < DIGITS; digit++) {
        size_t count = places[digit];
        places[digit] = place;
        place += count;
        most = MAX(most, count);
    }
    return most < n;
}

/* Least digit first, to and fro between keys and other; returns where they are in the end. */
static struct order_key *move_digits(struct order_key *keys, struct order_key *other, size_t n, int64_t least,
                                     int64_t largest)
{
    uint64_t range = (uint64_t)largest - (uint64_t)least;
    size_t places[DIGITS];

    for (unsigned shift = 0; shift < 64 && range >> shift > 0; shift += DIGIT_BITS) {
        if (!count_digits(keys, n, (uint64_t)least, shift, places))
            continue;
        for (size_t i = 0; i < n; i++)
            other[places[((uint64_t)keys[i].number - (uint64_t)least) >> shift & (DIGITS - 1)]++] = keys[i];
        struct order_key *moved = other;
        other = keys;
        keys = moved;
    }
    return keys;
}

void order_keys(struct order_key *keys, size_t n)
{
    int64_t least = INT64_MAX, largest = INT64_MIN;
    bool is_ordered = true;

    for (size_t i = 0; i < n; i++) {
        is_ordered = is_ordered && (i == 0 || keys[i - 1].number <= keys[i].number);
        least = MIN(least, keys[i].number);
        largest = MAX(largest, keys[i].number);
    }
    if (is_ordered)
        return;
    _cleanup_(freep) struct order_key *other = n < FEW ? NULL : malloc(n * sizeof(*other));
    struct order_key *ordered = other ? move_digits(keys, other, n, least, largest) : keys;
    if (!other)
        qsort(keys, n, sizeof(*keys), compare);
    else if (ordered != keys)
        memcpy(keys, ordered, n * sizeof(*keys));
}
