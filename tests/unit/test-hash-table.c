/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "base/hash_table.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>

struct names {
    char (*items)[64];
    size_t n, cap;
    struct hash_table numbers;
};

static bool names_equal(const void *owner, size_t number, const void *key)
{
    return streq(((const struct names *)owner)->items[number], key);
}

static int64_t names_number(struct names *names, const char *name, uint64_t hash)
{
    assert_true(ARRAY_RESERVE(names->items, names->cap, names->n + 1));
    int64_t number = hash_table_number(&names->numbers, hash, names_equal, names, name);
    if (number == (int64_t)names->n)
        snprintf(names->items[names->n++], sizeof(names->items[0]), "%s", name);
    return number;
}

static void names_done(struct names *names)
{
    free(names->items);
    hash_table_done(&names->numbers);
}

static void test_numbers_in_order(void **state)
{
    enum { N = 2000 };

    for (int shared = 0; shared < 2; shared++) {
        _cleanup_(names_done) struct names names = {0};
        for (int i = 0; i < 2 * N; i++) {
            char name[64];
            int size = snprintf(name, sizeof(name), "kernel_%d", i % N);
            uint64_t hash = shared ? 7 : hash_bytes(name, (size_t)size);
            assert_int_equal(names_number(&names, name, hash), i % N);
        }
        assert_int_equal(names.numbers.n, N);
    }
}

static void test_too_many(void **state)
{
    struct hash_table numbers = {0};

    assert_int_equal(hash_table_reserve(&numbers, (size_t)HASH_NUMBERS_MAX + 1), -ENOMEM);
    assert_null(numbers.slots);
}

/* Both variants, of every length that the hash treats in its own way, at every alignment. */
static void test_variants_agree(void **state)
{
    char text[96];

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (char)('!' + i);
    for (size_t size = 0; size <= 64; size++) {
        for (size_t offset = 0; offset < 8; offset++) {
            char exact[64];
            memcpy(exact, text + offset, size);
            assert_int_equal(hash_bytes(exact, size), hash_padded(text + offset, size));
        }
    }
}

static int compare_hashes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Keys a hostile trace would hold: with the constants of the source as seeds, one factor of the product is zero,
 * so that all of them have one hash. */
static void test_collisions_need_the_seed(void **state)
{
    enum { N = 20000, SLOTS = 1 << 16 };
    static uint64_t hashes[N];
    uint64_t saved[2] = {hash_seeds[0], hash_seeds[1]};

    for (int seeded = 0; seeded < 2; seeded++) {
        size_t collisions = 0;
        hash_seeds[0] = seeded ? saved[0] : HASH_MULTIPLY;
        hash_seeds[1] = seeded ? saved[1] : HASH_MIX;
        for (unsigned i = 0; i < N; i++) {
            char text[64];
            int size = snprintf(text, sizeof(text), "yQ_#phP!l3cfx,#J&^myo$WA%08u", i);
            hashes[i] = hash_bytes(text, (size_t)size) % SLOTS;
        }
        qsort(hashes, N, sizeof(hashes[0]), compare_hashes);
        for (size_t i = 1; i < N; i++)
            collisions += hashes[i] == hashes[i - 1];
        /* 2,764 or so of random hashes fall into a slot that is taken. */
        assert_true(seeded ? collisions < N / 4 : collisions > N / 4);
    }
}

/* A table with such names grows within the time of one with others. */
static void test_hostile_names(void **state)
{
    enum { N = 20000, STEPS_MAX = 64 };
    _cleanup_(names_done) struct names names = {0};

    for (unsigned i = 0; i < N; i++) {
        char name[64];
        int size = snprintf(name, sizeof(name), "yQ_#phP!l3cfx,#J&^myo$WA%08u", i);
        assert_int_equal(names_number(&names, name, hash_bytes(name, (size_t)size)), i);
    }
    for (size_t at = 0, steps = 0; at < names.numbers.n_slots; at++) {
        steps = names.numbers.slots[at].number != 0 ? steps + 1 : 0;
        assert_in_range(steps, 0, STEPS_MAX);
    }
}

/* Two processes, two seeds. */
static void test_seed_differs(void **state)
{
    uint64_t seeds[2];

    for (size_t i = 0; i < ARRAY_SIZE(seeds); i++) {
        char *argv[] = {(char *)"test-hash-table", (char *)"--seed", NULL};
        posix_spawn_file_actions_t actions;
        int pipe_fds[2], status;
        pid_t pid;

        assert_int_equal(pipe(pipe_fds), 0);
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
        assert_int_equal(posix_spawn(&pid, "/proc/self/exe", &actions, NULL, argv, environ), 0);
        posix_spawn_file_actions_destroy(&actions);
        assert_int_equal(read(pipe_fds[0], &seeds[i], sizeof(seeds[i])), sizeof(seeds[i]));
        close(pipe_fds[0]);
        close(pipe_fds[1]);
        waitpid(pid, &status, 0);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    assert_int_not_equal(seeds[0], seeds[1]);
}

static void test_array(void **state)
{
    _cleanup_(freep) int *items = NULL, *sums = NULL;
    size_t cap = 0, n = 0, sums_cap = 0;

    for (int i = 0; i < 1000; i++) {
        VEC_GROW(items, n, cap);
        items[n++] = i;
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(items[i], i);
    size_t n_sums = 0;
    assert_true(ARRAY_RESERVE_ZEROED(sums, sums_cap, n_sums));
    assert_non_null(sums);
    assert_true(ARRAY_RESERVE_ZEROED(sums, sums_cap, 1000));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(sums[i], 0);
    /* What cannot be had leaves the array as it was. */
    size_t before = cap;
    assert_false(ARRAY_RESERVE(items, cap, SIZE_MAX / 2));
    assert_int_equal(cap, before);
    assert_int_equal(items[999], 999);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_in_order),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_variants_agree),
        cmocka_unit_test(test_collisions_need_the_seed),
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_seed_differs),
        cmocka_unit_test(test_array),
    };

    if (argc == 2 && streq(argv[1], "--seed"))
        return write(STDOUT_FILENO, hash_seeds, sizeof(hash_seeds[0])) == sizeof(hash_seeds[0]) ? 0 : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
