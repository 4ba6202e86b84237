/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cmocka-all.h"
#include "trace/read/intake.h"
#include <errno.h>

/* Interns a copy that has the readable bytes behind it, filled with `behind`. */
static uint32_t intern_padded(struct strings *s, const char *text, size_t size, char behind)
{
    char *copy = malloc(size + 32);
    uint32_t number;

    assert_non_null(copy);
    memcpy(copy, text, size);
    memset(copy + size, behind, 32);
    number = strings_intern(s, copy, size);
    free(copy);
    return number;
}

static void assert_text(struct strings *s, uint32_t number, const char *text, size_t size)
{
    size_t kept_size;
    const char *kept = strings_get(s, number, &kept_size);

    assert_int_equal(kept_size, size);
    assert_memory_equal(kept, text, size);
}

static void test_each_string_once(void **state)
{
    _cleanup_(strings_freep) struct strings *s = NULL;

    assert_int_equal(strings_new(UINT64_MAX, &s), 0);
    assert_int_equal(strings_count(s), 1);
    assert_text(s, 0, "", 0);
    assert_int_equal(intern_padded(s, "", 0, 'x'), 0);
    assert_int_equal(intern_padded(s, "aten::mm", 8, 'x'), 1);
    assert_int_equal(intern_padded(s, "aten::addmm", 11, 'x'), 2);
    assert_int_equal(intern_padded(s, "aten::mm", 8, 'y'), 1);
    assert_int_equal(intern_padded(s, "a\0b", 3, 0), 3);
    assert_int_equal(intern_padded(s, "a\0c", 3, 0), 4);
    assert_int_equal(strings_count(s), 5);
    assert_text(s, 2, "aten::addmm", 11);
    assert_text(s, 3, "a\0b", 3);
}

/* Texts that differ in one byte, of every length that the hash treats in its own way. */
static void test_lengths(void **state)
{
    _cleanup_(strings_freep) struct strings *s = NULL;
    char text[80];
    uint32_t expected = 1;

    assert_int_equal(strings_new(UINT64_MAX, &s), 0);
    for (size_t size = 1; size <= sizeof(text); size++) {
        for (size_t i = 0; i < size; i++) {
            memset(text, 'a', sizeof(text));
            text[i] = 'b';
            assert_int_equal(intern_padded(s, text, size, 'a'), expected);
            assert_int_equal(intern_padded(s, text, size, 'b'), expected);
            assert_text(s, expected, text, size);
            expected++;
        }
    }
}

static void test_many_strings_keep_their_number(void **state)
{
    enum { N = 200000 };
    _cleanup_(strings_freep) struct strings *s = NULL;
    const char *first;
    size_t size;
    char text[64] = "";

    assert_int_equal(strings_new(UINT64_MAX, &s), 0);
    assert_int_equal(intern_padded(s, "first", 5, 0), 1);
    first = strings_get(s, 1, &size);
    for (uint32_t i = 0; i < N; i++) {
        int n = snprintf(text, sizeof(text), "Input Dims [[%u, 4096]]", i);
        assert_int_equal(strings_intern(s, text, (size_t)n), i + 2);
    }
    for (uint32_t i = 0; i < N; i++) {
        int n = snprintf(text, sizeof(text), "Input Dims [[%u, 4096]]", i);
        assert_int_equal(strings_intern(s, text, (size_t)n), i + 2);
        assert_text(s, i + 2, text, (size_t)n);
    }
    assert_ptr_equal(strings_get(s, 1, &size), first);
}

static void test_a_long_string(void **state)
{
    enum { SIZE = 3 << 20 };
    _cleanup_(strings_freep) struct strings *s = NULL;
    _cleanup_(freep) char *text = malloc(SIZE + 32);

    assert_non_null(text);
    memset(text, 'z', SIZE + 32);
    assert_int_equal(strings_new(UINT64_MAX, &s), 0);
    assert_int_equal(strings_intern(s, text, SIZE), 1);
    assert_int_equal(intern_padded(s, "short", 5, 0), 2);
    assert_int_equal(strings_intern(s, text, SIZE), 1);
    assert_text(s, 1, text, SIZE);
    assert_true(strings_memory(s) >= SIZE);
}

static void test_limit(void **state)
{
    enum { LIMIT = 256 << 10 };
    _cleanup_(strings_freep) struct strings *s = NULL;
    char text[64] = "";
    uint32_t i, number = 0;

    assert_int_equal(strings_new(1, &s), -ENOMEM);
    assert_int_equal(strings_new(LIMIT, &s), 0);
    for (i = 0; number != STRINGS_NONE; i++) {
        assert_in_range(i, 0, 100000);
        snprintf(text, sizeof(text), "%08u", i);
        number = strings_intern(s, text, 8);
    }
    assert_true(i > 1000);
    assert_true(strings_memory(s) <= LIMIT);
    /* What is there is still found, and nothing more comes in. */
    assert_int_equal(intern_padded(s, "00000000", 8, 0), 1);
    assert_int_equal(intern_padded(s, "another", 7, 0), STRINGS_NONE);
}

static struct batch *count_and_reset(struct intake *in, struct batch *full, void *arg)
{
    *(size_t *)arg += full->n;
    batch_reset(full);
    return full;
}

static struct batch *refuse(struct intake *in, struct batch *full, void *arg)
{
    return NULL;
}

static void test_batches(void **state)
{
    _cleanup_(intake_freep) struct intake *in = NULL;
    size_t taken = 0;

    assert_int_equal(intake_new(UINT64_MAX, &in), 0);
    in->flush = count_and_reset;
    in->flush_arg = &taken;
    for (size_t i = 0; i < 2 * BATCH_EVENTS + 1; i++) {
        *intake_event(in) = (struct event){.ts = (int64_t)i};
        if (i % 2)
            assert_non_null(intake_args(in, i % ARG_GROUPS));
    }
    assert_int_equal(taken, 2 * BATCH_EVENTS);
    assert_int_equal(in->batch->n, 1);
    in->flush = refuse;
    for (size_t i = 0; i < BATCH_EVENTS; i++)
        *intake_event(in) = (struct event){.ts = 0};
    assert_true(in->error < 0);
}

static void test_rows_of_arguments(void **state)
{
    _cleanup_(intake_freep) struct intake *in = NULL;
    size_t columns = 0;

    assert_int_equal(intake_new(UINT64_MAX, &in), 0);
    for (size_t i = 0; i < column_args_count; i++) {
        enum column_table table = column_specs[column_args[i].column].table;
        assert_in_range(arg_group_index(column_args[i].column), 0,
                        arg_group_width[table - TABLE_ARGS_FIRST] - 1);
    }
    for (size_t g = 0; g < ARG_GROUPS; g++) {
        columns += arg_group_width[g];
        *intake_event(in) = (struct event){.flags = SLICE_HAS_ARGS};
        int64_t *row = intake_args(in, (unsigned)g);
        assert_non_null(row);
        for (size_t i = 0; i < arg_group_width[g]; i++)
            assert_int_equal(row[i], COLUMN_NULL);
        assert_int_equal(in->batch->events[g].flags, SLICE_HAS_ARGS | EVENT_IN_GROUP(g));
        assert_int_equal(in->batch->group_n[g], 1);
    }
    assert_int_equal(columns, column_args_count);
}

static void test_threads_and_processes(void **state)
{
    enum { MANY = 5000 };
    _cleanup_(intake_freep) struct intake *in = NULL;

    assert_int_equal(intake_new(UINT64_MAX, &in), 0);
    assert_int_equal(intake_process(in, 7, 0), 0);
    assert_int_equal(intake_process(in, 0, 7), 1);
    assert_int_equal(intake_thread(in, 7, 0, 7, 0), 0);
    assert_int_equal(intake_thread(in, 7, 0, 0, 7), 1);
    assert_int_equal(intake_thread(in, 0, 7, 7, 0), 2);
    assert_int_equal(intake_thread(in, 8, 0, 7, 0), 3);
    assert_int_equal(in->threads[2].process, 1);
    assert_int_equal(in->threads[3].process, 2);
    for (int64_t i = 0; i < MANY; i++)
        assert_int_equal(intake_thread(in, 9, 0, i, 0), i + 4);
    for (int64_t i = 0; i < MANY; i++)
        assert_int_equal(intake_thread(in, 9, 0, i, 0), i + 4);
    assert_int_equal(intake_thread(in, 7, 0, 7, 0), 0);
    assert_int_equal(in->n_processes, 4);
}

static void test_categories(void **state)
{
    _cleanup_(intake_freep) struct intake *in = NULL;

    assert_int_equal(intake_new(UINT64_MAX, &in), 0);
    for (uint32_t i = 0; i < INTAKE_CATEGORIES_MAX; i++)
        assert_int_equal(intake_category(in, i + 1), i);
    assert_int_equal(intake_category(in, 5), 4);
    assert_int_equal(in->error, 0);
    assert_int_equal(intake_category(in, 99999), CATEGORY_NONE);
    assert_int_equal(in->error, -E2BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_string_once),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_many_strings_keep_their_number),
        cmocka_unit_test(test_a_long_string),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_rows_of_arguments),
        cmocka_unit_test(test_threads_and_processes),
        cmocka_unit_test(test_categories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
