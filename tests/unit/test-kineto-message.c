/* SPDX-License-Identifier: Apache-2.0 */
/* Kineto's messages, byte for byte. */
#include "daemon/kineto/holder.h"
#include "daemon/kineto/message.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>

/* As Kineto sends it for a process with six ancestors, on a little-endian machine. */
static const unsigned char measured[84] = {
    0x2c, 0,    0,   0, 0,    0,    0, 0,                                     /* size */
    'r',  'e',  'q', 0, 0,    0,    0, 0, 0,    0,    0, 0, 0,    0,    0, 0, /* type, 32 bytes */
    0,    0,    0,   0, 0,    0,    0, 0, 0,    0,    0, 0, 0,    0,    0, 0, /* ... */
    2,    0,    0,   0, 7,    0,    0, 0, 0,    0,    0, 0, 0,    0,    0, 0, /* bits, number of pids, job */
    0x92, 0x10, 0,   0, 0x68, 0x10, 0, 0, 4,    0x10, 0, 0, 0xa0, 0x0f, 0, 0, /* 4242, 4200, 4100, 4000 */
    0x3c, 0x0f, 0,   0, 0xd8, 0x0e, 0, 0, 0x74, 0x0e, 0, 0,                   /* 3900, 3800, 3700 */
};

static void test_measured_request(void **state)
{
    static const int32_t pids[] = {4242, 4200, 4100, 4000, 3900, 3800, 3700};
    struct kineto_message m;

    assert_int_equal(kineto_message_parse(measured, sizeof(measured), &m), 0);
    assert_int_equal(m.type, KINETO_REQUEST);
    assert_int_equal(m.bits, 2);
    assert_int_equal(m.job_id, 0);
    assert_int_equal(m.n_pids, 7);
    assert_memory_equal(m.pids, pids, sizeof(pids));
}

static void test_context(void **state)
{
    unsigned char bytes[56] = {16, [8] = 'c', 't', 'x', 't', [40] = 3, [44] = 0x92, 0x10, [48] = 71};
    struct kineto_message m;

    assert_int_equal(kineto_message_parse(bytes, sizeof(bytes), &m), 0);
    assert_int_equal(m.type, KINETO_CONTEXT);
    assert_int_equal(m.gpu, 3);
    assert_int_equal(m.pids[0], 4242);
    assert_int_equal(m.job_id, 71);
    assert_int_equal(kineto_message_parse(bytes, 55, &m), -EBADMSG);
}

/* Each changes one byte of the measured message, or its length. */
static void test_refused(void **state)
{
    static const struct {
        size_t at;
        unsigned char value;
        size_t size;
    } cases[] = {
        {0, 0x2c, 83}, {0, 0x2c, 40}, {0, 0x2c, 39}, {0, 0x2c, 0},   /* cut */
        {0, 0x2d, 84}, {7, 0x80, 84},                                /* another size */
        {8, 'R', 84},  {11, 'x', 84},                                /* another type */
        {44, 0, 84},   {44, 6, 84},   {44, 8, 84},   {47, 0x80, 84}, /* another number of pids */
    };
    struct kineto_message m;

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        unsigned char bytes[84];
        memcpy(bytes, measured, sizeof(bytes));
        bytes[cases[i].at] = cases[i].value;
        assert_int_equal(kineto_message_parse(bytes, cases[i].size, &m), -EBADMSG);
    }
}

/* The largest that is taken has KINETO_PIDS_MAX pids. */
static void test_largest(void **state)
{
    unsigned char bytes[KINETO_MESSAGE_MAX + 4] = {0};
    struct kineto_message m;

    for (int32_t n = KINETO_PIDS_MAX; n <= KINETO_PIDS_MAX + 1; n++) {
        size_t size = KINETO_METADATA_BYTES + 16 + 4 * (size_t)n;
        kineto_answer_head(KINETO_REQUEST, size - KINETO_METADATA_BYTES, bytes);
        memcpy(bytes + KINETO_METADATA_BYTES + 4, &n, sizeof(n));
        assert_int_equal(kineto_message_parse(bytes, size, &m), n == KINETO_PIDS_MAX ? 0 : -EBADMSG);
    }
}

static void test_answer(void **state)
{
    static const unsigned char empty[KINETO_METADATA_BYTES] = {[8] = 'r', 'e', 'q'};
    static const unsigned char count[KINETO_METADATA_BYTES] = {4, [8] = 'c', 't', 'x', 't'};
    unsigned char head[KINETO_METADATA_BYTES];

    kineto_answer_head(KINETO_REQUEST, 0, head);
    assert_memory_equal(head, empty, sizeof(head));
    kineto_answer_head(KINETO_CONTEXT, 4, head);
    assert_memory_equal(head, count, sizeof(head));
    kineto_answer_head(KINETO_REQUEST, 0x1234, head);
    assert_memory_equal(head, "\x34\x12\0\0\0\0\0\0req", 12);
}

static void test_holder(void **state)
{
    static const char table[] = "Num       RefCount Protocol Flags    Type St Inode Path\n"
                                "0000000000000000: 00000002 00000000 00000000 0001 01 11 @dynolog@\n"
                                "0000000000000000: 00000002 00000000 00000000 0002 01 12 @dynolog\n"
                                "0000000000000000: 00000002 00000000 00000000 0002 01    13 @dynolog@\n"
                                "0000000000000000: 00000002 00000000 00000000 0002 01 14 /run/a b/dynolog\n"
                                "0000000000000000: 00000002 00000000 00000000 0002 01 15\n"
                                "broken\n";
    const size_t size = strlen(table);

    /* A stream socket, and the name without its last byte, are others. */
    assert_int_equal(kineto_holder_inode(table, size, "@dynolog@"), 13);
    assert_int_equal(kineto_holder_inode(table, size, "/run/a b/dynolog"), 14);
    assert_int_equal(kineto_holder_inode(table, size, "/run/b/dynolog"), 0);
    assert_int_equal(kineto_holder_inode(table, 0, "@dynolog@"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measured_request), cmocka_unit_test(test_context),
        cmocka_unit_test(test_refused),          cmocka_unit_test(test_largest),
        cmocka_unit_test(test_answer),           cmocka_unit_test(test_holder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
