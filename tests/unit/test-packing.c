/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "trace/columns/packing.h"

#include "base/util.h"

static const struct packing_hints everything = {true, true, true};

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 16 ^ *state << 32;
}

static void check_codes(struct packing p, const uint8_t *packed, const int64_t *values, size_t n)
{
    static const uint32_t limits[] = {0, 1, 1000, UINT32_MAX};
    uint32_t codes[BLOCK_ROWS];

    for (size_t k = 0; k < ARRAY_SIZE(limits); k++) {
        packing_unpack_codes(p, packed, n, limits[k], codes);
        for (size_t i = 0; i < n; i++)
            assert_true(codes[i] == ((uint64_t)values[i] < limits[k] ? (uint64_t)values[i] : UINT32_MAX));
    }
}

static void check_parts(struct packing p, const uint8_t *packed, const int64_t *values, size_t n)
{
    for (size_t first = 0; first < n; first += PACKING_ANCHOR_ROWS) {
        size_t rows = MIN(n - first, (size_t)PACKING_ANCHOR_ROWS);
        int64_t part[PACKING_ANCHOR_ROWS];

        packing_unpack_part(p, packed, first, rows, part);
        assert_memory_equal(part, values + first, rows * sizeof(*part));
    }
}

/* Packs, and compares what all ways of unpacking give; returns how it was packed. */
static struct packing round_trip_with(const int64_t *values, size_t n, struct packing_hints hints)
{
    /* Exactly sized: an access outside is one that a sanitizer sees. */
    _cleanup_(freep) uint8_t *capacity = malloc(PACKING_BYTES_MAX), *packed = NULL;
    _cleanup_(freep) int64_t *unpacked = malloc(n * sizeof(*unpacked));
    struct packing p;
    size_t size = packing_pack(values, n, hints, &p, capacity);
    int64_t max;

    assert_true(packing_is_sound(p));
    assert_int_equal(size, packing_size(p, n));
    assert_true(size <= PACKING_BYTES_MAX && size % PACKING_ALIGN == 0);
    packed = malloc(size + PACKING_SLACK);
    memcpy(packed, capacity, size);
    memset(packed + size, 0xff, PACKING_SLACK);
    packing_unpack(p, packed, n, unpacked);
    assert_memory_equal(unpacked, values, n * sizeof(*values));
    for (size_t i = 0; i < n; i++) {
        assert_true(packing_value(p, packed, i) == values[i]);
        assert_true(values[i] == COLUMN_NULL || values[i] >= p.base);
        assert_true(values[i] == COLUMN_NULL || !packing_max(p, &max) || values[i] <= max);
    }
    check_codes(p, packed, values, n);
    check_parts(p, packed, values, n);
    return p;
}

static struct packing round_trip(const int64_t *values, size_t n)
{
    for (int i = 0; i < 7; i++)
        round_trip_with(values, n, (struct packing_hints){i & 1, i & 2, i & 4});
    return round_trip_with(values, n, everything);
}

static void test_every_width(void **state)
{
    static const size_t counts[] = {1, 2, 3, 7, 8, 9, 63, 64, 65, 255, BLOCK_ROWS};
    static const int64_t bases[] = {0, -1, 1000000007, INT64_MIN + 1, INT64_MAX};
    uint64_t random = 1;

    for (unsigned width = 0; width <= 64; width++) {
        for (size_t k = 0; k < ARRAY_SIZE(counts) * ARRAY_SIZE(bases) * 2; k++) {
            size_t n = counts[k % ARRAY_SIZE(counts)];
            int64_t base = bases[k / ARRAY_SIZE(counts) % ARRAY_SIZE(bases)], values[BLOCK_ROWS];
            bool nulls = k >= ARRAY_SIZE(counts) * ARRAY_SIZE(bases);
            uint64_t mask = width ? UINT64_MAX >> (64 - width) : 0;

            for (size_t i = 0; i < n; i++) {
                uint64_t value = (uint64_t)base + (next_random(&random) & mask);
                values[i] =
                    (nulls && i % 3 == 1) || (int64_t)value == COLUMN_NULL ? COLUMN_NULL : (int64_t)value;
            }
            struct packing p = round_trip(values, n);
            /* Around the ends of the range the values wrap, and take what they need. */
            if (base == 0 && !nulls && width < 64)
                assert_true(p.range <= width);
        }
    }
}

static void test_width_is_the_least(void **state)
{
    for (unsigned bits = 0; bits < 63; bits++) {
        int64_t range = (int64_t)((UINT64_C(1) << bits) - 1), values[] = {range - 5, -5}, with_null[3];
        struct packing p = round_trip(values, 2);

        assert_int_equal(p.width, bits);
        assert_int_equal(p.range, bits);
        assert_int_equal(p.base, -5);
        assert_int_equal(p.nulls, 0);

        /* One code is taken by COLUMN_NULL. */
        memcpy(with_null, values, sizeof(values));
        with_null[2] = COLUMN_NULL;
        p = round_trip(with_null, 3);
        assert_int_equal(p.width, bits + 1);
        assert_int_equal(p.nulls, 1);
    }
}

static void test_extremes(void **state)
{
    int64_t all[] = {INT64_MIN + 1, INT64_MAX, 0, -1, COLUMN_NULL};
    int64_t nothing[] = {COLUMN_NULL, COLUMN_NULL};
    int64_t ends[] = {INT64_MAX, INT64_MAX}, low[] = {INT64_MIN + 1, COLUMN_NULL};

    assert_int_equal(round_trip(all, 4).width, 64);
    assert_int_equal(round_trip(all, 5).width, 64);
    assert_int_equal(round_trip(nothing, 2).width, 0);
    assert_int_equal(round_trip(ends, 2).width, 0);
    assert_int_equal(round_trip(low, 2).width, 1);
}

static void test_steps(void **state)
{
    int64_t values[BLOCK_ROWS];
    uint64_t random = 3;
    struct packing p;

    for (size_t i = 0; i < BLOCK_ROWS; i++)
        values[i] = -70 + (int64_t)i * 12345;
    p = round_trip(values, BLOCK_ROWS);
    assert_true(p.form == PACKING_STEPS && p.width == 0 && p.base == -70);

    for (size_t i = 0; i < BLOCK_ROWS; i++)
        values[i] = (i > 0 ? values[i - 1] : 5) + 100000 + (int64_t)(next_random(&random) % 16);
    for (size_t n = 65; n <= BLOCK_ROWS; n++) {
        p = round_trip(values, n);
        assert_true(p.form == PACKING_STEPS && p.width == 4);
    }
    /* What falls once is no steps, nor is what has gaps. */
    values[100] = 0;
    assert_int_equal(round_trip(values, BLOCK_ROWS).form, PACKING_PLAIN);
    values[100] = COLUMN_NULL;
    assert_int_equal(round_trip(values, BLOCK_ROWS).form, PACKING_PLAIN);
}

static void test_dictionary(void **state)
{
    int64_t values[BLOCK_ROWS];
    uint64_t random = 3;

    for (unsigned n = 2; n <= 64; n++) {
        for (unsigned shift = 9; shift < 31; shift++) {
            struct packing p;

            for (size_t i = 0; i < BLOCK_ROWS; i++) {
                uint64_t one = i < n ? i : next_random(&random) % n;
                values[i] = one == 1 && n % 2 ? COLUMN_NULL : (int64_t)(one % 2 << shift | one);
            }
            p = round_trip(values, BLOCK_ROWS);
            if (n >= 4 && n <= 16)
                assert_int_equal(p.form, n);
        }
    }
}

static void test_thousands(void **state)
{
    int64_t values[BLOCK_ROWS];
    uint64_t random = 3;
    struct packing p;

    for (size_t i = 0; i < BLOCK_ROWS; i++)
        values[i] = 1234567 + (int64_t)(next_random(&random) % 5000) * 1000;
    p = round_trip(values, BLOCK_ROWS);
    assert_true(p.thousands && p.width == 13);
    assert_true(round_trip(values, 5).thousands);
    for (size_t i = 0; i < BLOCK_ROWS; i += 17) {
        int64_t kept = values[i];

        values[i] = kept + 1;
        assert_false(round_trip(values, BLOCK_ROWS).thousands);
        values[i] = COLUMN_NULL;
        assert_false(round_trip(values, BLOCK_ROWS).thousands);
        values[i] = INT64_MAX - (INT64_MAX - kept) % 1000;
        p = round_trip(values, BLOCK_ROWS);
        assert_true(!p.thousands && p.form == PACKING_PLAIN && p.width == 63);
        values[i] = kept;
    }
}

/* Whatever the bytes are, one value is what the block has, and within the range. */
static void test_any_bytes(void **state)
{
    uint64_t random = 17;
    uint8_t packed[PACKING_BYTES_MAX + PACKING_SLACK];
    size_t n_sound = 0;

    for (int round = 0; round < 20000; round++) {
        uint64_t r = next_random(&random);
        struct packing p = {.base = (int64_t)next_random(&random) >> (r >> 32 & 63),
                            .width = r & 0x7f,
                            .range = r >> 7 & 0x7f,
                            .form = r >> 14 & 3 ? r >> 16 & 0xff : PACKING_PLAIN,
                            .nulls = r >> 24 & 1,
                            .thousands = r >> 25 & 1};
        int64_t values[BLOCK_ROWS], max;

        if (p.form == PACKING_PLAIN)
            p.range = p.width;
        if (!packing_is_sound(p) || packing_size(p, BLOCK_ROWS) > PACKING_BYTES_MAX)
            continue;
        n_sound++;
        for (size_t i = 0; i < sizeof(packed); i += 8)
            memcpy(packed + i, &(uint64_t){next_random(&random)}, 8);
        packing_unpack(p, packed, BLOCK_ROWS, values);
        for (size_t i = 0; i < BLOCK_ROWS; i++) {
            assert_true(values[i] == packing_value(p, packed, i));
            if (values[i] != COLUMN_NULL && packing_max(p, &max))
                assert_true(values[i] >= p.base && values[i] <= max);
        }
        check_codes(p, packed, values, BLOCK_ROWS);
        check_parts(p, packed, values, BLOCK_ROWS);
    }
    assert_true(n_sound > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_width), cmocka_unit_test(test_width_is_the_least),
        cmocka_unit_test(test_extremes),    cmocka_unit_test(test_steps),
        cmocka_unit_test(test_dictionary),  cmocka_unit_test(test_thousands),
        cmocka_unit_test(test_any_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
