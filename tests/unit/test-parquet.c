/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "tests/unit/parquet-table.h"
#include "trace/parquet/encoding.h"

#include <errno.h>

/* Rows of a page, a group of eight, a block of differences and a row group, and one more or less. */
static const size_t row_counts[] = {0, 1, 7, 8, 9, 127, 128, 129, 130, 20000, 20001, 50000};

/* -- Encodings ---------------------------------------------------------------------------------------------- */

static void check_delta(const int64_t *values, size_t n)
{
    struct bytes b = {0};
    int64_t *got = malloc((n + 1) * sizeof(*got));

    encoding_put_delta(&b, values, n);
    struct pq_input in = {b.p, b.n, 0};
    pq_read_delta(&in, got, n);
    assert_int_equal(in.at, in.n);
    assert_memory_equal(got, values, n * sizeof(*got));
    free(got);
    bytes_done(&b);
}

static void differences_of_any_size(void **unused)
{
    static const int64_t extremes[] = {INT64_MIN, INT64_MAX, 0,         -1,       INT64_MAX,
                                       INT64_MIN, 1,         INT64_MIN, INT64_MIN};
    int64_t values[1000];

    check_delta(extremes, ARRAY_SIZE(extremes));
    for (unsigned bits = 0; bits < 64; bits++)
        for (size_t k = 0; k < ARRAY_SIZE(row_counts) && row_counts[k] <= ARRAY_SIZE(values); k++) {
            for (size_t i = 0; i < row_counts[k]; i++)
                values[i] = (int64_t)(table_random() >> bits);
            check_delta(values, row_counts[k]);
        }
}

static void sorted_times_take_a_byte(void **unused)
{
    struct bytes b = {0};
    int64_t values[10000], ts = 7788529810215327;

    for (size_t i = 0; i < ARRAY_SIZE(values); i++)
        values[i] = ts += (int64_t)(table_random() % 200);
    encoding_put_delta(&b, values, ARRAY_SIZE(values));
    assert_in_range(b.n, 1, 11000);
    bytes_done(&b);
}

static void hybrids_of_any_width(void **unused)
{
    uint32_t values[1000], got[1000];

    for (unsigned width = 0; width <= 32; width++)
        for (unsigned repeats = 1; repeats < 40; repeats++) {
            struct bytes b = {0};
            size_t n = table_random() % ARRAY_SIZE(values);
            for (size_t i = 0; i < n; i++)
                values[i] =
                    i % repeats ? values[i - 1] : (uint32_t)(table_random() & ((UINT64_C(1) << width) - 1));
            encoding_put_hybrid(&b, width, values, n);
            struct pq_input in = {b.p, b.n, 0};
            pq_read_hybrid(&in, width, got, n);
            assert_int_equal(in.at, in.n);
            assert_memory_equal(got, values, n * sizeof(*got));
            bytes_done(&b);
        }
}

/* The example of Encodings.md: 0 to 7 in three bits. */
static void bits_begin_with_the_lowest(void **unused)
{
    static const uint32_t values[] = {0, 1, 2, 3, 4, 5, 6, 7};
    static const uint8_t expected[] = {3, 0x88, 0xc6, 0xfa};
    struct bytes b = {0};

    encoding_put_hybrid(&b, 3, values, ARRAY_SIZE(values));
    assert_int_equal(b.n, sizeof(expected));
    assert_memory_equal(b.p, expected, sizeof(expected));
    bytes_done(&b);
}

/* -- Files -------------------------------------------------------------------------------------------------- */

static void every_value_is_read_back(void **unused)
{
    for (size_t i = 0; i < ARRAY_SIZE(row_counts); i++) {
        struct test_table t = test_table_of_everything(row_counts[i]);
        struct table_file f = {0};
        assert_int_equal(test_table_write(&t, 20000, &f), 0);
        test_table_check(&t, &f);
        free(f.p);
        test_table_done(&t);
    }
}

/* What is written depends on the values alone: hashes are seeded, and must not show. */
static void equal_tables_are_equal_files(void **unused)
{
    struct test_table t = test_table_of_everything(500);
    struct table_file one = {0}, other = {0};

    assert_int_equal(test_table_write(&t, 100, &one), 0);
    assert_int_equal(test_table_write(&t, 100, &other), 0);
    assert_int_equal(one.n, other.n);
    assert_memory_equal(one.p, other.p, one.n);
    free(one.p);
    free(other.p);
    test_table_done(&t);
}

static const struct pq_node *statistics_of(const struct pq_node *footer, size_t column)
{
    const struct pq_node *chunks = pq_field(&pq_field(footer, 4)->items[0], 1);

    return pq_field(pq_field(&chunks->items[column], 3), 12);
}

static void assert_bound(const struct pq_node *stats, unsigned id, const char *text, size_t size,
                         bool is_exact)
{
    const struct pq_node *bound = pq_find(stats, id);

    assert_int_equal(bound != NULL, text != NULL);
    if (!text)
        return;
    assert_int_equal(bound->size, size);
    assert_memory_equal(bound->p, text, size);
    assert_int_equal(pq_number(stats, id + 2), is_exact);
}

/* min is id 6, max id 5 */
static void bounds_of_texts(const struct table_text *two, const char *min, size_t min_size, const char *max,
                            size_t max_size, bool is_min_exact, bool is_max_exact)
{
    struct test_table t = {.rows = 2, .texts = two, .n_texts = 2};
    struct table_file f = {0};

    test_table_add(&t, PARQUET_TEXT, PARQUET_PLAIN, false);
    t.values[0].texts[1] = 1;
    assert_int_equal(test_table_write(&t, 2, &f), 0);
    test_table_check(&t, &f);
    struct pq_node footer = pq_read_footer(f.p, f.n);
    const struct pq_node *stats = statistics_of(&footer, 0), *low = pq_find(stats, 6),
                         *high = pq_find(stats, 5);
    assert_int_equal(low->size, min_size);
    assert_memory_equal(low->p, min, min_size);
    assert_int_equal(pq_number(stats, 8), is_min_exact);
    assert_int_equal(high != NULL, max != NULL);
    if (max) {
        assert_int_equal(high->size, max_size);
        assert_memory_equal(high->p, max, max_size);
        assert_int_equal(pq_number(stats, 7), is_max_exact);
    }
    pq_node_free(&footer);
    free(f.p);
    test_table_done(&t);
}

static void long_texts_are_cut_in_bounds(void **unused)
{
    char accents[300], long_text[300], cut[128];

    bounds_of_texts((struct table_text[]){{"b", 1}, {"\xc3\xa9", 2}}, "b", 1, "\xc3\xa9", 2, true, true);
    memset(long_text, 'y', sizeof(long_text));
    memset(cut, 'y', sizeof(cut));
    cut[127] = 'z';
    bounds_of_texts((struct table_text[]){{long_text, 300}, {"b", 1}}, "b", 1, cut, 128, true, false);
    bounds_of_texts((struct table_text[]){{long_text, 300}, {"zz", 2}}, long_text, 128, "zz", 2, false, true);
    /* No character of ASCII can be made larger. */
    for (size_t i = 0; i < sizeof(accents); i++)
        accents[i] = i % 2 ? '\xa9' : '\xc3';
    bounds_of_texts((struct table_text[]){{accents, 300}, {"b", 1}}, "b", 1, NULL, 0, true, false);
    /* A character is not cut. */
    accents[0] = 'a';
    memmove(accents + 1, accents + 2, 298);
    bounds_of_texts((struct table_text[]){{accents, 299}, {"b", 1}}, accents, 127, "b", 1, false, true);
}

static void bounds_of_doubles(void **unused)
{
    static const double zero = 0, minus_zero = -0.0;
    struct test_table t = {.rows = 3};
    struct table_file f = {0};

    test_table_add(&t, PARQUET_DOUBLE, PARQUET_PLAIN, true);
    test_table_add(&t, PARQUET_DOUBLE, PARQUET_PLAIN, true);
    t.values[1].reals[1] = NAN;
    assert_int_equal(test_table_write(&t, 3, &f), 0);
    test_table_check(&t, &f);
    struct pq_node footer = pq_read_footer(f.p, f.n);
    assert_bound(statistics_of(&footer, 0), 6, (const char *)&minus_zero, 8, true);
    assert_bound(statistics_of(&footer, 0), 5, (const char *)&zero, 8, true);
    assert_bound(statistics_of(&footer, 1), 6, NULL, 0, false);
    assert_bound(statistics_of(&footer, 1), 5, NULL, 0, false);
    pq_node_free(&footer);
    free(f.p);
    test_table_done(&t);
}

/* Whichever write fails, the error is that of the sink, and nothing else happens. */
static void a_full_disk_ends_the_file(void **unused)
{
    struct test_table t = test_table_of_everything(200);
    struct table_file all = {0};

    assert_int_equal(test_table_write(&t, 100, &all), 0);
    for (size_t limit = 1; limit < all.n; limit += 1 + all.n / 50) {
        struct table_file f = {.limit = limit};
        assert_int_equal(test_table_write(&t, 100, &f), -ENOSPC);
        assert_true(f.n <= limit);
        assert_memory_equal(f.p ? f.p : all.p, all.p, f.n);
        free(f.p);
    }
    free(all.p);
    test_table_done(&t);
}

/* Also where a row group ends, and after it. */
static void rows_are_read_back(void **unused)
{
    static const size_t counts[] = {0, 1, 9, 1000, PARQUET_GROUP_ROWS, PARQUET_GROUP_ROWS + 1};

    for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
        struct test_table t = test_table_of_everything(counts[i]);
        struct table_file f = {0}, full = {.limit = 100};
        assert_int_equal(test_table_write_rows(&t, &f), 0);
        test_table_check(&t, &f);
        assert_int_equal(test_table_write_rows(&t, &full), -ENOSPC);
        free(f.p);
        free(full.p);
        test_table_done(&t);
    }
}

/* A row group ends before its texts fill the memory. */
static void rows_with_long_texts(void **unused)
{
    static const struct parquet_column column = {"c0", 1, PARQUET_TEXT, PARQUET_PLAIN, false};
    struct parquet_schema schema = {&column, 1, NULL, 0, "test version 1"};
    const size_t size = 1 << 20, n = 150;
    struct table_file f = {0};
    struct parquet_rows *rows = NULL;
    char *text = malloc(size);

    assert_non_null(text);
    assert_int_equal(parquet_rows_new(&schema, table_sink, &f, &rows), 0);
    for (size_t i = 0; i < n; i++) {
        memset(text, 'a', size);
        memcpy(text, &i, sizeof(i));
        parquet_rows_set_text(rows, 0, text, size);
        assert_int_equal(parquet_rows_end_row(rows), 0);
    }
    assert_int_equal(parquet_rows_finish(rows), 0);
    parquet_rows_free(rows);
    struct pq_node footer = pq_read_footer(f.p, f.n);
    assert_int_equal(pq_field(&footer, 4)->n, 3);
    assert_int_equal(pq_number(&footer, 3), n);
    pq_node_free(&footer);
    free(f.p);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_of_any_size),      cmocka_unit_test(sorted_times_take_a_byte),
        cmocka_unit_test(hybrids_of_any_width),         cmocka_unit_test(bits_begin_with_the_lowest),
        cmocka_unit_test(every_value_is_read_back),     cmocka_unit_test(equal_tables_are_equal_files),
        cmocka_unit_test(long_texts_are_cut_in_bounds), cmocka_unit_test(bounds_of_doubles),
        cmocka_unit_test(a_full_disk_ends_the_file),    cmocka_unit_test(rows_are_read_back),
        cmocka_unit_test(rows_with_long_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
