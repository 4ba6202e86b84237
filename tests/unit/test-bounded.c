/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/query/bounded.h"
#include "tests/unit/cmocka-all.h"
#include "tests/unit/patience.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define LIMIT_NS (100 * NS_PER_MS)
#define MEMORY   (64 << 20)
/* More than a pipe and the buffer hold. */
#define MUCH      (1 << 20)
#define ROW       "row\n"
#define ROW_BYTES (sizeof(ROW) - 1)

/* What a child does, and with what it does it. */
struct work {
    struct bounded *bounded;
    FILE *output;
    bool waits;       /* asks whether it is over */
    bool prints_long; /* after that */
    int64_t rows;
};

static void hang(const struct work *w)
{
    while (!w->waits || !bounded_is_over(w->bounded))
        ;
    w->bounded->was_ended = true;
}

static int hang_after_rows(void *arg)
{
    struct work *w = arg;

    w->output = bounded_output(w->bounded, false);
    bounded_begin(w->bounded, 3);
    for (int64_t i = 0; i < w->rows; i++) {
        fputs(ROW, w->output);
        bounded_put_rows(w->bounded, w->output, i + 1);
    }
    /* A row that is not complete. */
    fputs("ro", w->output);
    hang(w);
    if (w->prints_long)
        usleep((useconds_t)(2 * BOUNDED_GRACE_NS / NS_PER_US));
    return bounded_flush(w->bounded, w->output) < 0;
}

/* Runs it with its stdout in a pipe; the text that came out is the caller's. */
static struct bounded_end run(struct bounded *b, int (*work)(void *arg), struct work *w, char **ret_output)
{
    int fds[2], stdout_fd = dup(STDOUT_FILENO);
    struct bounded_end end;
    char text[4096] = "";

    fflush(stdout);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_true(dup2(fds[1], STDOUT_FILENO) >= 0);
    w->bounded = b;
    assert_int_equal(bounded_run(b, work, w, &end), 0);
    assert_true(dup2(stdout_fd, STDOUT_FILENO) >= 0);
    close(fds[1]);
    ssize_t n = read(fds[0], text, sizeof(text) - 1);
    *ret_output = xstrndup(text, (size_t)MAX(n, 0));
    close(fds[0]);
    close(stdout_fd);
    return end;
}

static void test_a_child_that_asks_ends_by_itself(void **state)
{
    struct bounded *b = bounded_new(LIMIT_NS, MEMORY);
    _cleanup_(freep) char *output = NULL;
    struct work w = {.waits = true, .rows = 2};
    struct bounded_end end = run(b, hang_after_rows, &w, &output);

    assert_int_equal(end.how, BOUNDED_LATE);
    assert_int_equal(end.rows, 2);
    assert_int_equal(b->line, 3);
    assert_string_equal(output, ROW ROW "ro");
    bounded_free(b);
}

static void test_one_that_has_noticed_may_print_its_rows(void **state)
{
    struct bounded *b = bounded_new(LIMIT_NS, MEMORY);
    _cleanup_(freep) char *output = NULL;
    struct work w = {.waits = true, .prints_long = true, .rows = 2};
    struct bounded_end end = run(b, hang_after_rows, &w, &output);

    assert_int_equal(end.how, BOUNDED_LATE);
    assert_int_equal(end.rows, 2);
    assert_string_equal(output, ROW ROW "ro");
    bounded_free(b);
}

static void test_one_that_does_not_is_killed_and_keeps_its_rows(void **state)
{
    struct bounded *b = bounded_new(LIMIT_NS, MEMORY);
    _cleanup_(freep) char *output = NULL;
    struct work w = {.rows = 2};
    int64_t begin_ns = mono_ns();
    struct bounded_end end = run(b, hang_after_rows, &w, &output);
    int64_t took_ns = mono_ns() - begin_ns;

    assert_int_equal(end.how, BOUNDED_LATE);
    assert_true(took_ns >= LIMIT_NS + BOUNDED_GRACE_NS);
    assert_true(took_ns < patience_ns(LIMIT_NS + 2 * BOUNDED_GRACE_NS));
    assert_int_equal(end.rows, 2);
    assert_string_equal(output, ROW ROW);
    bounded_free(b);
}

static void test_signals_end_it(void **state)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    sigset_t set, before;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &before);
    for (size_t i = 0; i < 2 * ARRAY_SIZE(numbers); i++) {
        struct bounded *b = bounded_new(0, MEMORY);
        _cleanup_(freep) char *output = NULL;
        struct work w = {.waits = i % 2, .rows = 1};
        kill(getpid(), numbers[i / 2]);
        struct bounded_end end = run(b, hang_after_rows, &w, &output);
        assert_int_equal(end.how, BOUNDED_INTERRUPTED);
        assert_int_equal(end.signal, numbers[i / 2]);
        bounded_free(b);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static int return_seven(void *arg)
{
    return 7;
}

static int crash(void *arg)
{
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    return 0;
}

static int take_memory(void *arg)
{
    void *much = mmap(NULL, 4 * MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
         *little = mmap(NULL, MEMORY / 4, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return much == MAP_FAILED && little != MAP_FAILED ? 0 : 1;
}

static void test_how_it_ends(void **state)
{
    static const struct {
        int (*work)(void *arg);
        enum bounded_how how;
        int status;
    } cases[] = {
        {return_seven, BOUNDED_DONE, 7}, {crash, BOUNDED_DIED, SIGSEGV}, {take_memory, BOUNDED_DONE, 0}};

    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct bounded *b = bounded_new(0, MEMORY);
        _cleanup_(freep) char *output = NULL;
        struct work w = {0};
        struct bounded_end end = run(b, cases[i].work, &w, &output);
        assert_int_equal(end.how, cases[i].how);
        assert_int_equal(end.status, cases[i].status);
        bounded_free(b);
    }
}

static int print_much(void *arg)
{
    struct work *w = arg;

    w->output = bounded_output(w->bounded, false);
    bounded_begin(w->bounded, 1);
    for (int64_t i = 0; i < MUCH && !bounded_is_over(w->bounded); i++) {
        fputs(ROW, w->output);
        bounded_put_rows(w->bounded, w->output, i + 1);
    }
    return -bounded_flush(w->bounded, w->output);
}

/* Reads from fd all that comes, and begins only after a child's time is long over. */
static size_t read_late(int fd)
{
    char data[1 << 16];
    size_t size = 0;
    ssize_t n;

    usleep((useconds_t)((3 * LIMIT_NS + BOUNDED_GRACE_NS) / NS_PER_US));
    while ((n = read(fd, data, sizeof(data))) > 0)
        size += (size_t)n;
    return size;
}

static void test_time_of_a_slow_reader_does_not_count(void **state)
{
    struct bounded *b = bounded_new(patience_ns(LIMIT_NS), MEMORY);
    struct work w = {.bounded = b};
    struct bounded_end end;
    int fds[2], status, stdout_fd = dup(STDOUT_FILENO);

    fflush(stdout);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t reader = fork();
    if (reader == 0) {
        close(fds[1]);
        _exit(read_late(fds[0]) != MUCH * ROW_BYTES);
    }
    assert_true(dup2(fds[1], STDOUT_FILENO) >= 0);
    assert_int_equal(bounded_run(b, print_much, &w, &end), 0);
    assert_true(dup2(stdout_fd, STDOUT_FILENO) >= 0);
    close(fds[1]);
    assert_int_equal(end.how, BOUNDED_DONE);
    assert_int_equal(end.status, 0);
    assert_int_equal(end.rows, MUCH);
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
    close(fds[0]);
    close(stdout_fd);
    bounded_free(b);
}

static void test_what_the_output_does_not_take(void **state)
{
    struct bounded *b = bounded_new(0, MEMORY);
    struct work w = {.bounded = b};
    struct bounded_end end;
    int stdout_fd = dup(STDOUT_FILENO), full = open("/dev/full", O_WRONLY | O_CLOEXEC);

    fflush(stdout);
    assert_true(dup2(full, STDOUT_FILENO) >= 0);
    assert_int_equal(bounded_run(b, print_much, &w, &end), 0);
    assert_true(dup2(stdout_fd, STDOUT_FILENO) >= 0);
    assert_int_equal(end.how, BOUNDED_DONE);
    assert_int_equal(end.status, ENOSPC);
    close(full);
    close(stdout_fd);
    bounded_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_that_asks_ends_by_itself),
        cmocka_unit_test(test_one_that_has_noticed_may_print_its_rows),
        cmocka_unit_test(test_one_that_does_not_is_killed_and_keeps_its_rows),
        cmocka_unit_test(test_signals_end_it),
        cmocka_unit_test(test_how_it_ends),
        cmocka_unit_test(test_time_of_a_slow_reader_does_not_count),
        cmocka_unit_test(test_what_the_output_does_not_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
