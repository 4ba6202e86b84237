/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "trace/columns/block.h"

#include "base/util.h"

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 16 ^ *state << 32;
}

/* Packs, and compares what both ways of unpacking give; returns how it was packed. */
static struct block round_trip(const int64_t *values, size_t n)
{
    /* Exactly sized: an access outside is one that a sanitizer sees. */
    _cleanup_(freep) uint8_t *capacity = malloc(BLOCK_BYTES_MAX), *packed = NULL;
    _cleanup_(freep) int64_t *unpacked = malloc(n * sizeof(*unpacked));
    struct block b;
    size_t size = block_pack(values, n, &b, capacity);

    assert_int_equal(size, n * b.width);
    packed = malloc(size + BLOCK_SLACK);
    memcpy(packed, capacity, size);
    memset(packed + size, 0xff, BLOCK_SLACK);
    block_unpack(b, packed, n, unpacked);
    assert_memory_equal(unpacked, values, n * sizeof(*values));
    for (size_t i = 0; i < n; i++)
        assert_true(block_value(b, packed, i) == values[i]);
    return b;
}

static void test_every_width(void **state)
{
    static const size_t counts[] = {1, 2, 3, 7, 8, 255, BLOCK_ROWS};
    static const int64_t bases[] = {0, -1, 1000000007, INT64_MIN + 1, INT64_MAX};
    uint64_t random = 1;

    for (unsigned width = 0; width <= 8; width++) {
        for (size_t k = 0; k < ARRAY_SIZE(counts) * ARRAY_SIZE(bases) * 2; k++) {
            size_t n = counts[k % ARRAY_SIZE(counts)];
            int64_t base = bases[k / ARRAY_SIZE(counts) % ARRAY_SIZE(bases)], values[BLOCK_ROWS];
            bool nulls = k >= ARRAY_SIZE(counts) * ARRAY_SIZE(bases);
            uint64_t mask = width ? UINT64_MAX >> (64 - 8 * width) : 0;
            unsigned exact = 0;

            for (size_t i = 0; i < n; i++) {
                uint64_t value = (uint64_t)base + (next_random(&random) & mask);
                values[i] =
                    (nulls && i % 3 == 1) || (int64_t)value == COLUMN_NULL ? COLUMN_NULL : (int64_t)value;
            }
            exact = round_trip(values, n).width;
            /* Around the ends of the range the values wrap, and take what they need. */
            if (base == 0 && !nulls && width < 8)
                assert_true(exact <= width);
        }
    }
}

static void test_width_is_the_least(void **state)
{
    for (unsigned bits = 0; bits < 63; bits++) {
        int64_t range = (int64_t)((UINT64_C(1) << bits) - 1), values[] = {-5, range - 5}, with_null[3];
        struct block b = round_trip(values, 2);

        assert_int_equal(b.width, (bits + 7) / 8);
        assert_int_equal(b.base, -5);
        assert_int_equal(b.nulls, 0);

        /* One code is taken by COLUMN_NULL. */
        memcpy(with_null, values, sizeof(values));
        with_null[2] = COLUMN_NULL;
        b = round_trip(with_null, 3);
        assert_int_equal(b.width, bits / 8 + 1);
        assert_int_equal(b.nulls, 1);
    }
}

static void test_extremes(void **state)
{
    int64_t all[] = {INT64_MIN + 1, INT64_MAX, 0, -1, COLUMN_NULL};
    int64_t nothing[] = {COLUMN_NULL, COLUMN_NULL};
    int64_t ends[] = {INT64_MAX, INT64_MAX}, low[] = {INT64_MIN + 1, COLUMN_NULL};

    assert_int_equal(round_trip(all, 4).width, 8);
    assert_int_equal(round_trip(all, 5).width, 8);
    assert_int_equal(round_trip(nothing, 2).width, 0);
    assert_int_equal(round_trip(ends, 2).width, 0);
    assert_int_equal(round_trip(low, 2).width, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_width),
        cmocka_unit_test(test_width_is_the_least),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
