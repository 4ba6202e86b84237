/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that hosts report reserve room on the disk, and never more than there is. */
#include "base/clock.h"
#include "daemon/api/remote_room.h"
#include "tests/unit/cmocka-all.h"

#define GIB        (INT64_C(1) << 30)
#define H1         "0b6f4f6e-8f5c-4f1e-9b43-6d2f3a1c7e55"
#define H2         "1b6f4f6e-8f5c-4f1e-9b43-6d2f3a1c7e55"
#define MUCH_SPACE (1024 * GIB)

static void test_sizes_of_liars(void **state)
{
    static const int64_t sizes[] = {INT64_MAX, INT64_MAX - GIB, INT64_MAX / 2, REMOTE_ROOM_HOST_MAX + 1,
                                    -1,        INT64_MIN};
    struct remote_room room = {0};
    struct remote_copy first = {0}, copy = {0};

    assert_true(remote_room_reserve(&room, &first, H1, 2 * GIB, MUCH_SPACE));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        assert_false(remote_room_reserve(&room, &copy, H1, sizes[i], INT64_MAX));
        assert_false(remote_room_reserve(&room, &copy, H2, sizes[i], INT64_MAX));
        remote_room_release(&room, &copy); /* of none: nothing */
    }
    remote_room_release(&room, &first);
    assert_true(LIST_EMPTY(&room));
}

static void test_disk(void **state)
{
    struct remote_room room = {0};
    struct remote_copy first = {0}, second = {0};

    /* What is reserved is not written yet. */
    assert_true(remote_room_reserve(&room, &first, H1, 3 * GIB, 5 * GIB));
    assert_false(remote_room_reserve(&room, &second, H2, GIB + 1, 5 * GIB));
    assert_true(remote_room_reserve(&room, &second, H2, GIB, 5 * GIB));
    remote_room_release(&room, &first);
    assert_false(remote_room_reserve(&room, &first, H1, 1, GIB));
    assert_false(remote_room_reserve(&room, &first, H1, 0, 0));
    remote_room_release(&room, &second);
}

static void test_share_of_a_host(void **state)
{
    struct remote_room room = {0};
    struct remote_copy copies[5] = {0};
    static const char *const others[] = {H2, "2", "3"};

    assert_true(remote_room_reserve(&room, &copies[0], H1, REMOTE_ROOM_HOST_MAX, MUCH_SPACE));
    assert_false(remote_room_reserve(&room, &copies[1], H1, 1, MUCH_SPACE));
    for (size_t i = 0; i < 3; i++)
        assert_true(remote_room_reserve(&room, &copies[1 + i], others[i], REMOTE_ROOM_HOST_MAX, MUCH_SPACE));
    assert_false(remote_room_reserve(&room, &copies[4], "4", 1, MUCH_SPACE));
    remote_room_release(&room, &copies[0]);
    remote_room_release(&room, &copies[0]);
    assert_true(remote_room_reserve(&room, &copies[4], H1, REMOTE_ROOM_HOST_MAX, MUCH_SPACE));
}

static void test_slow_hosts(void **state)
{
    assert_false(remote_copy_is_slow(60 * NS_PER_S, 0));
    assert_true(remote_copy_is_slow(61 * NS_PER_S, 4096));
    assert_false(remote_copy_is_slow(61 * NS_PER_S, 4 << 20));
    /* A range of 4 MiB a minute. */
    assert_true(remote_copy_is_slow(120 * NS_PER_S, 8 << 20));
    assert_false(remote_copy_is_slow(24 * 3600 * NS_PER_S, REMOTE_ROOM_HOST_MAX * 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_of_liars),
        cmocka_unit_test(test_disk),
        cmocka_unit_test(test_share_of_a_host),
        cmocka_unit_test(test_slow_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
