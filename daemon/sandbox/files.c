/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sandbox/files.h"

#include "base/util.h"
#include "daemon/sandbox/restrict.h"
#include <errno.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Addresses that are reserved and unused do no harm: arenas, guard pages, libraries. A complete file may be
 * mapped. */
#define ADDRESS_SPACE_PER_MEMORY 4
#define ADDRESS_SPACE_BASE       (INT64_C(8) << 30)

static const struct filter_rule file_rules[] = {
    /* Reading and writing open files. For fstat() see below. */
    {SCMP_SYS(read)},
    {SCMP_SYS(pread64)},
    {SCMP_SYS(write)},
    {SCMP_SYS(pwrite64)},
    {SCMP_SYS(fsync)},
    {SCMP_SYS(sync_file_range)},
    {SCMP_SYS(fdatasync)},
    {SCMP_SYS(ftruncate)},
    {SCMP_SYS(fadvise64)},
    {SCMP_SYS(lseek)},
    {SCMP_SYS(fstat)},
    /* Streams of stdio call it for the size of their buffer, and do not need it. */
    {SCMP_SYS(newfstatat), .action = SCMP_ACT_ERRNO(EPERM)},
    {SCMP_SYS(close)},
    {SCMP_SYS(mmap),
     2,
     {FILTER_WITHOUT(2, PROT_EXEC),
      {3, SCMP_CMP_MASKED_EQ, MAP_TYPE | MAP_ANONYMOUS | MAP_GROWSDOWN, MAP_SHARED}}},
    /* Its use of memory and time. */
    {SCMP_SYS(getrusage)},
    /* Reading its own limits: recursive parsers of libraries ask for that of the stack. */
    {SCMP_SYS(prlimit64), 2, {FILTER_EQUAL(0, 0), FILTER_EQUAL(2, 0)}},
};

#define OF_A_THREAD (CLONE_THREAD | CLONE_VM | CLONE_SIGHAND)

/* For their number see sandbox_bound_threads(); their stacks count as its memory. */
static const struct filter_rule thread_rules[] = {
    {SCMP_SYS(clone), 1, {{0, SCMP_CMP_MASKED_EQ, OF_A_THREAD, OF_A_THREAD}}},
    /* Its flags are in memory, where no filter sees them; glibc then uses clone(). */
    {SCMP_SYS(clone3), .action = SCMP_ACT_ERRNO(ENOSYS)},
    {SCMP_SYS(set_robust_list)},
    {SCMP_SYS(rseq)},
    {SCMP_SYS(rt_sigprocmask)},
    {SCMP_SYS(rt_sigaction)},
    {SCMP_SYS(sched_getaffinity)},
    {SCMP_SYS(sched_yield)},
};

static int sandbox_enter_filter(const struct sandbox *s)
{
    const struct filter_rule clone_file = {
        SCMP_SYS(ioctl),
        3,
        {FILTER_EQUAL(0, s->clone_to_fd), FILTER_EQUAL(1, FICLONE), FILTER_EQUAL(2, s->clone_from_fd)}};
    const struct filter_list lists[] = {{file_rules, ARRAY_SIZE(file_rules)},
                                        {&clone_file, 1},
                                        {thread_rules, s->threads ? ARRAY_SIZE(thread_rules) : 0}};

    return filter_enter(SCMP_ACT_KILL_PROCESS, lists, ARRAY_SIZE(lists));
}

/* With equal limits of time the kernel kills at once by SIGKILL, which does not show the reason. */
static int sandbox_set_limit(__rlimit_resource_t resource, int64_t value)
{
    struct rlimit limit = {(rlim_t)value, (rlim_t)value + (resource == RLIMIT_CPU)};
    return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

/* The initial stack counts as no data, and mremap() lets it grow: the second bound. */
static int64_t address_space_max(const struct sandbox *s)
{
    int64_t max;
    bool beyond = __builtin_mul_overflow(s->memory, ADDRESS_SPACE_PER_MEMORY, &max) ||
                  __builtin_add_overflow(max, s->file_size, &max) ||
                  __builtin_add_overflow(max, s->mapped, &max) ||
                  __builtin_add_overflow(max, ADDRESS_SPACE_BASE, &max);
    return beyond ? INT64_MAX : max;
}

static int sandbox_set_limits(const struct sandbox *s)
{
    const struct {
        __rlimit_resource_t resource;
        int64_t value;
        bool in_sanitized;
    } limits[] = {
        {RLIMIT_CORE, 0, true},
        {RLIMIT_CPU, s->cpu_s, true},
        {RLIMIT_FSIZE, s->file_size, true},
        {RLIMIT_NOFILE, s->fds, false},
        {RLIMIT_DATA, s->memory, false},
        {RLIMIT_AS, address_space_max(s), false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        int r = limits[i].in_sanitized || !SANDBOX_WITHOUT_FILTER
                    ? sandbox_set_limit(limits[i].resource, limits[i].value)
                    : 0;
        if (r < 0)
            return r;
    }
    /* Then it is an error of write(), which differs from a death. */
    return signal(SIGXFSZ, SIG_IGN) == SIG_ERR ? -errno : 0;
}

static void *thread_do_nothing(void *arg)
{
    return arg;
}

/* Older kernels count the user's threads everywhere. */
static bool sandbox_can_start_thread(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, thread_do_nothing, NULL) == 0 && pthread_join(thread, NULL) == 0;
}

void sandbox_bound_threads(unsigned max)
{
    struct rlimit limit, before;

    if (SANDBOX_WITHOUT_FILTER || geteuid() == 0 || getrlimit(RLIMIT_NPROC, &before) < 0 ||
        unshare(CLONE_NEWUSER) < 0)
        return;
    limit = (struct rlimit){.rlim_cur = MIN((rlim_t)max + 1, before.rlim_max), .rlim_max = before.rlim_max};
    if (setrlimit(RLIMIT_NPROC, &limit) < 0)
        return;
    limit.rlim_max = limit.rlim_cur;
    setrlimit(RLIMIT_NPROC, sandbox_can_start_thread() ? &limit : &before);
}

int sandbox_enter(const struct sandbox *s)
{
    if (close_range((unsigned)s->fds, ~0U, 0) < 0)
        return -errno;
    int r = privileges_drop(false);
    /* It needs a descriptor, which the limits leave none for. */
    if (r >= 0 && !SANDBOX_WITHOUT_FILTER)
        r = landlock_enter(NULL, 0);
    if (r >= 0)
        r = sandbox_set_limits(s);
    if (r < 0 || SANDBOX_WITHOUT_FILTER)
        return r;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
    r = sandbox_enter_filter(s);
    if (r >= 0)
        close(STDERR_FILENO);
    return r;
}

/*
 * fstat() for this program and the libraries that it is linked with (SQLite): the system call that takes a
 * descriptor and nothing else. glibc's calls newfstatat() with an empty path, of which a filter sees the address
 * and not the text: a process that may call it may call it for any path, and learn which files exist.
 */
int fstat(int fd, struct stat *ret)
{
    return (int)syscall(SYS_fstat, fd, ret);
}
