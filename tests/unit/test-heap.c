/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop_lag.h"

#include "tests/unit/cmocka-all.h"
#include <malloc.h>

#define BLOCKS     (64 << 10)
#define BLOCK_SIZE 1000
#define KEPT_OF    64 /* one block stays, so that no end of the heap can go by itself */

static int64_t resident(void)
{
    long long pages;
    FILE *f = fopen("/proc/self/statm", "re");

    assert_int_equal(fscanf(f, "%*d %lld", &pages), 1);
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

/* A sanitizer has a heap of its own. */
static bool is_glibc_heap(void)
{
    void *p = malloc(BLOCK_SIZE);
    bool is = mallinfo2().uordblks > 0;

    free(p);
    return is;
}

static void **fill(void)
{
    void **blocks = calloc(BLOCKS, sizeof(*blocks));

    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = memset(malloc(BLOCK_SIZE), 1, BLOCK_SIZE);
    for (size_t i = 0; i < BLOCKS; i++)
        if (i % KEPT_OF != 0)
            free(blocks[i]);
    return blocks;
}

static void drain(void **blocks)
{
    for (size_t i = 0; i < BLOCKS; i += KEPT_OF)
        free(blocks[i]);
    free(blocks);
}

static void test_what_was_freed_is_given_back(void **state)
{
    struct heap_keeper keeper = {0};

    if (!is_glibc_heap()) {
        print_message("a sanitizer's heap is no heap of glibc's\n");
        skip();
    }
    heap_trim(&keeper, true);
    int64_t before = resident();
    void **blocks = fill();
    assert_true(resident() - before > (int64_t)BLOCKS * BLOCK_SIZE / 2);
    heap_trim(&keeper, false); /* too soon, while there is something to do */
    assert_true(resident() - before > (int64_t)BLOCKS * BLOCK_SIZE / 2);
    heap_trim(&keeper, true);
    assert_true(resident() - before < HEAP_SLACK_MAX);
    drain(blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_was_freed_is_given_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
