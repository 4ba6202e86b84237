/* SPDX-License-Identifier: Apache-2.0 */
/* What a process may do that has entered the sandbox of profd-ingest, and how it ends for the rest. */
#include "base/util.h"
#include "daemon/sandbox/files.h"
#include "daemon/sandbox/restrict.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* Ends a child in the sandbox by what it tries to do there; returns what waitpid() saw. */
static int run_in_sandbox(void (*act)(void))
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct sandbox s = {.fds = 5,
                            .cpu_s = 1,
                            .file_size = 1 << 20,
                            .memory = 1 << 30,
                            .threads = true,
                            .clone_from_fd = 3,
                            .clone_to_fd = 4};
        if (sandbox_enter(&s) < 0)
            _exit(100);
        act();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void act_write(void)
{
    free(malloc(10 << 20));
}

static void *do_nothing(void *arg)
{
    return free(malloc(1 << 20)), arg;
}

static void act_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, do_nothing, NULL) != 0 || pthread_join(thread, NULL) != 0)
        _exit(101);
}

static void *wait_for_end(void *arg)
{
    pause();
    return arg;
}

/* Without a file it would be memory that no limit counts. */
static void act_share(void)
{
    mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static void act_execute(void)
{
    mmap(NULL, 1 << 20, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void act_grow_down(void)
{
    mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);
}

static void act_grow_file_down(void)
{
    mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_GROWSDOWN, 3, 0);
}

static void act_protect_down(void)
{
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_GROWSDOWN);
}

/* Addresses alone are no memory, and end all the same. */
static void act_reserve(void)
{
    if (mmap(NULL, INT64_C(1) << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
        _exit(101);
    if (mmap(NULL, INT64_C(1) << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        _exit(102);
}

static void act_spin(void)
{
    for (;;)
        ;
}

static void act_open(void)
{
    (void)!open("/etc/hostname", O_RDONLY);
}

static void act_fork(void)
{
    fork();
}

static void act_ioctl(void)
{
    ioctl(0, 0x5401, NULL);
}

static void act_kill(void)
{
    kill(getppid(), 0);
}

static void act_stat_open(void)
{
    struct stat st;
    if (syscall(SYS_fstat, STDOUT_FILENO, &st) < 0)
        _exit(101);
}

/* A path that the flag AT_EMPTY_PATH does not keep from being one. */
static void act_stat_path(void)
{
    struct stat st;
    if (syscall(SYS_newfstatat, AT_FDCWD, "/etc/hostname", &st, AT_EMPTY_PATH) == 0 || errno != EPERM)
        _exit(101);
}

/* Its own status, opened before. */
#define STATUS_FD 3

static void act_show_capabilities(void)
{
    static char text[1 << 14];
    ssize_t n = pread(STATUS_FD, text, sizeof(text) - 1, 0);

    if (n <= 0)
        _exit(101);
    for (const char *line = text; (line = strstr(line, "\nCap")); line++)
        if (!starts_with(line + 7, ":\t0000000000000000\n") && !starts_with(line + 1, "CapBnd"))
            _exit(102);
}

static void test_sandbox(void **state)
{
    static void (*const forbidden[])(void) = {act_open,      act_fork,           act_ioctl,
                                              act_kill,      act_share,          act_execute,
                                              act_grow_down, act_grow_file_down, act_protect_down};

    assert_int_equal(run_in_sandbox(act_write), 0);
    assert_int_equal(run_in_sandbox(act_thread), 0);
    int spun = run_in_sandbox(act_spin);
    assert_true(WIFSIGNALED(spun));
    assert_int_equal(WTERMSIG(spun), SIGXCPU);
    if (SANDBOX_WITHOUT_FILTER) {
        print_message("skipped: sanitized builds have no filter\n");
        skip();
    }
    assert_int_equal(run_in_sandbox(act_reserve), 0);
    assert_int_equal(run_in_sandbox(act_stat_open), 0);
    assert_int_equal(run_in_sandbox(act_stat_path), 0);
    for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++) {
        int status = run_in_sandbox(forbidden[i]);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSYS);
    }
}

#define THREADS_ALLOWED 5
#define NOBODY          65534

static void be_nobody(void)
{
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0))
        _exit(100);
}

static void unshare_users(void)
{
    be_nobody();
    _exit(unshare(CLONE_NEWUSER) < 0);
}

/* Ends with how many threads could be begun. */
static void begin_threads(void)
{
    pthread_t threads[2 * THREADS_ALLOWED];
    int n = 0;

    be_nobody();
    sandbox_bound_threads(THREADS_ALLOWED);
    while (n < (int)ARRAY_SIZE(threads) && pthread_create(&threads[n], NULL, wait_for_end, NULL) == 0)
        n++;
    _exit(n);
}

static int status_of(void (*act)(void))
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        act();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void test_threads_are_bounded(void **state)
{
    if (SANDBOX_WITHOUT_FILTER || status_of(unshare_users) != 0) {
        print_message("skipped: %s\n", SANDBOX_WITHOUT_FILTER ? "sanitized builds have no bound"
                                                              : "user namespaces are not allowed here");
        skip();
    }
    assert_int_equal(status_of(begin_threads), THREADS_ALLOWED);
}

/* In a user namespace of its own, where it had all. */
static void test_it_has_no_capabilities(void **state)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        const struct sandbox s = {.fds = 5, .cpu_s = 1, .file_size = 1 << 20, .memory = 1 << 30};
        be_nobody();
        sandbox_bound_threads(THREADS_ALLOWED);
        dup2(open("/proc/self/status", O_RDONLY), STATUS_FD);
        if (sandbox_enter(&s) < 0)
            _exit(100);
        act_show_capabilities();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sandbox),
        cmocka_unit_test(test_threads_are_bounded),
        cmocka_unit_test(test_it_has_no_capabilities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
