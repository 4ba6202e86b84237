/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

static const char *entry(int level, const struct log_fields *fields, const char *line)
{
    static char buffer[JOURNAL_ENTRY_MAX + 1];
    buffer[journal_entry(buffer, level, fields, line)] = '\0';
    return buffer;
}

static void test_all_fields(void **state)
{
    const struct log_fields fields = {
        .session_id = 7, .trace_id = 12, .worker = "http://10.0.0.1:8000", .message_id = MESSAGE_STOP_OWED};

    program_invocation_short_name = "profd";
    assert_string_equal(entry(LOG_WARNING, &fields, "session s7: a = b"),
                        "SYSLOG_IDENTIFIER=profd\nPRIORITY=4\n"
                        "MESSAGE_ID=1ba1d1a2c1f04e0f9c1f6f0e1f6d0a08\n"
                        "PROFD_SESSION=s7\nPROFD_TRACE=t12\nPROFD_WORKER=http://10.0.0.1:8000\n"
                        "MESSAGE=session s7: a = b\n");
}

static void test_no_fields(void **state)
{
    program_invocation_short_name = "profd";
    assert_string_equal(entry(LOG_INFO, LOG_FIELDS(.session_id = INT64_MIN), ""),
                        "SYSLOG_IDENTIFIER=profd\nPRIORITY=6\nMESSAGE=\n");
}

/* A worker's URL or answer must not be able to say who it is. */
static void test_no_value_adds_a_line(void **state)
{
    const char *text = entry(LOG_INFO, LOG_FIELDS(.worker = "http://a\nMESSAGE_ID=x"), "b\r\n_PID=1\x1b[2J");

    assert_non_null(strstr(text, "\nPROFD_WORKER=http://a MESSAGE_ID=x\n"));
    assert_non_null(strstr(text, "\nMESSAGE=b  _PID=1 [2J\n"));
}

static void test_long_values_are_cut(void **state)
{
    char line[2 * JOURNAL_LINE_MAX], worker[2 * JOURNAL_VALUE_MAX];

    memset(line, 'a', sizeof(line) - 1);
    memset(worker, 'b', sizeof(worker) - 1);
    line[sizeof(line) - 1] = worker[sizeof(worker) - 1] = '\0';
    const char *text = entry(LOG_INFO, LOG_FIELDS(.worker = worker, .message_id = MESSAGE_STARTED), line);
    size_t lines = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, 5);
    assert_true(strlen(text) <= JOURNAL_ENTRY_MAX);
    assert_true(strlen(strstr(text, "MESSAGE=a")) > JOURNAL_LINE_MAX / 2);
}

/* A journal that takes nothing any more holds a line up for a moment, not for ever. */
static void test_full_journal(void **state)
{
    char dir[] = "/tmp/journal-XXXXXX", path[64];
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/socket", dir);
    assert_true(journal_connect(path) < 0);
    strcpy(address.sun_path, path);
    _cleanup_(closep) int journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(journal, (const struct sockaddr *)&address, sizeof(address)), 0);
    _cleanup_(closep) int fd = journal_connect(path);
    assert_true(fd >= 0);
    size_t n = 0;
    while (n < 100000 && send(fd, "MESSAGE=x\n", 10, MSG_NOSIGNAL) == 10)
        n++;
    assert_int_equal(errno, EAGAIN);
    assert_true(n > 0);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_fields),           cmocka_unit_test(test_no_fields),
        cmocka_unit_test(test_no_value_adds_a_line), cmocka_unit_test(test_long_values_are_cut),
        cmocka_unit_test(test_full_journal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
