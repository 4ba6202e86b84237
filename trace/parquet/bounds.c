/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/parquet/bounds.h"

#include <errno.h>
#include <math.h>

/* Bytes of a text in the statistics; a longer one is cut, and then is no value, but still a bound. */
#define BOUND_BYTES_MAX 128
/* The largest byte that can follow another in UTF-8 without changing how many bytes a character has. */
#define ASCII_LAST 0x7f

static int bound_set(struct chunk_bound *bound, const void *data, size_t size, bool is_exact)
{
    bound->p = malloc(size + 1);
    if (!bound->p)
        return -ENOMEM;
    memcpy(bound->p, data, size);
    bound->size = (uint32_t)size;
    bound->is_set = true;
    bound->is_exact = is_exact;
    return 0;
}

static int bound_set_number(struct chunk_bound *bound, uint64_t bits)
{
    uint8_t le[sizeof(bits)];

    for (size_t i = 0; i < sizeof(le); i++)
        le[i] = (uint8_t)(bits >> (8 * i));
    return bound_set(bound, le, sizeof(le), true);
}

int bounds_set_numbers(struct column_chunk *chunk, const int64_t *values, uint32_t n)
{
    int64_t least = INT64_MAX, largest = INT64_MIN;

    for (uint32_t i = 0; i < n; i++) {
        least = MIN(least, values[i]);
        largest = MAX(largest, values[i]);
    }
    int r = n > 0 ? bound_set_number(&chunk->min, (uint64_t)least) : 0;
    return n > 0 && r == 0 ? bound_set_number(&chunk->max, (uint64_t)largest) : r;
}

static uint64_t double_bits(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* NaN has no place in the order: with one, there are no bounds. Zeros are equal, so the bounds have the outer ones. */
int bounds_set_reals(struct column_chunk *chunk, const int64_t *values, uint32_t n)
{
    double least = INFINITY, largest = -INFINITY, value;

    for (uint32_t i = 0; i < n; i++) {
        memcpy(&value, &values[i], sizeof(value));
        if (isnan(value))
            return 0;
        least = MIN(least, value);
        largest = MAX(largest, value);
    }
    int r = n > 0 ? bound_set_number(&chunk->min, double_bits(least == 0 ? -0.0 : least)) : 0;
    return n > 0 && r == 0 ? bound_set_number(&chunk->max, double_bits(largest == 0 ? 0.0 : largest)) : r;
}

/* Of unsigned bytes. */
static int compare_texts(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t n = MIN(a_size, b_size);
    int order = n > 0 ? memcmp(a, b, n) : 0;

    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

/* Bytes of the longest prefix within the limit that ends with a character. */
static size_t text_prefix(const char *p, size_t size)
{
    size_t n = MIN(size, (size_t)BOUND_BYTES_MAX);

    while (n > 0 && n < size && (p[n] & 0xc0) == 0x80)
        n--;
    return n;
}

/* A cut text is below the complete one; a larger one has a larger last character, which must be one of ASCII to remain
 * UTF-8. Without any, the column has no upper bound. */
static int bounds_set_cut(struct chunk_bound *bound, const char *p, size_t size, bool is_max)
{
    size_t n = text_prefix(p, size);
    char cut[BOUND_BYTES_MAX];

    if (n == size || !is_max)
        return bound_set(bound, p, n, n == size);
    while (n > 0 && (uint8_t)p[n - 1] >= ASCII_LAST)
        n--;
    if (n == 0)
        return 0;
    memcpy(cut, p, n);
    cut[n - 1]++;
    return bound_set(bound, cut, n, false);
}

int bounds_set_texts(struct column_chunk *chunk, const struct parquet_texts *texts, const uint32_t *entries,
                     uint32_t n)
{
    const char *least = NULL, *largest = NULL;
    size_t least_size = 0, largest_size = 0, size;

    for (uint32_t i = 0; i < n; i++) {
        const char *p = texts->get(texts->arg, entries[i], &size);
        if (i == 0 || compare_texts(p, size, least, least_size) < 0) {
            least = p;
            least_size = size;
        }
        if (i == 0 || compare_texts(p, size, largest, largest_size) > 0) {
            largest = p;
            largest_size = size;
        }
    }
    int r = n > 0 ? bounds_set_cut(&chunk->min, least, least_size, false) : 0;
    return n > 0 && r == 0 ? bounds_set_cut(&chunk->max, largest, largest_size, true) : r;
}
