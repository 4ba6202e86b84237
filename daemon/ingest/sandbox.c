/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest/sandbox.h"

#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* Reserved and unused is no harm: arenas, guard pages, libraries. A file may be mapped as a whole. */
#define ADDRESS_SPACE_PER_MEMORY 4
#define ADDRESS_SPACE_BESIDE     (INT64_C(8) << 30)

/* Reading and writing what is open, memory, the time, and the end, where libcrypto passes a lock. */
static const int allowed_calls[] = {
    SCMP_SYS(read),          SCMP_SYS(pread64),         SCMP_SYS(write),
    SCMP_SYS(pwrite64),      SCMP_SYS(fsync),           SCMP_SYS(fdatasync),
    SCMP_SYS(ftruncate),     SCMP_SYS(fadvise64),       SCMP_SYS(lseek),
    SCMP_SYS(fstat),         SCMP_SYS(close),           SCMP_SYS(brk),
    SCMP_SYS(munmap),        SCMP_SYS(mremap),          SCMP_SYS(madvise),
    SCMP_SYS(clock_gettime), SCMP_SYS(sysinfo),         SCMP_SYS(getrusage),
    SCMP_SYS(exit),          SCMP_SYS(exit_group),      SCMP_SYS(rt_sigreturn),
    SCMP_SYS(futex),         SCMP_SYS(restart_syscall),
};

static const int thread_calls[] = {
    SCMP_SYS(set_robust_list),   SCMP_SYS(rseq),        SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigaction),
    SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_yield),
};

/* Calls that are allowed with some arguments only. */
struct conditional {
    int call;
    unsigned n;
    struct scmp_arg_cmp args[3];
};

static int allow(scmp_filter_ctx filter, const int *calls, size_t n)
{
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
    return r;
}

static int allow_conditional(scmp_filter_ctx filter, const struct conditional *rules, size_t n)
{
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++)
        r = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, rules[i].call, rules[i].n, rules[i].args);
    return r;
}

#define WITHOUT(arg, flags)                                                                                  \
    {                                                                                                        \
        arg, SCMP_CMP_MASKED_EQ, flags, 0                                                                    \
    }

static int allow_memory(scmp_filter_ctx filter)
{
    /* Neither shared memory without a file nor what grows as a stack counts as data. */
    static const struct conditional rules[] = {
        {SCMP_SYS(mmap),
         2,
         {WITHOUT(2, PROT_EXEC), {3, SCMP_CMP_MASKED_EQ, MAP_TYPE | MAP_GROWSDOWN, MAP_PRIVATE}}},
        {SCMP_SYS(mmap),
         2,
         {WITHOUT(2, PROT_EXEC),
          {3, SCMP_CMP_MASKED_EQ, MAP_TYPE | MAP_ANONYMOUS | MAP_GROWSDOWN, MAP_SHARED}}},
        {SCMP_SYS(mprotect), 1, {WITHOUT(2, PROT_EXEC | PROT_GROWSDOWN | PROT_GROWSUP)}},
    };
    return allow_conditional(filter, rules, ARRAY_SIZE(rules));
}

static int allow_descriptors(scmp_filter_ctx filter, const struct sandbox *s)
{
    const struct conditional rules[] = {
        {SCMP_SYS(ioctl),
         3,
         {{0, SCMP_CMP_EQ, (scmp_datum_t)s->clone_to_fd},
          {1, SCMP_CMP_EQ, FICLONE},
          {2, SCMP_CMP_EQ, (scmp_datum_t)s->clone_from_fd}}},
        /* How glibc writes fstat(). */
        {SCMP_SYS(newfstatat), 1, {{3, SCMP_CMP_EQ, AT_EMPTY_PATH}}},
    };
    return allow_conditional(filter, rules, ARRAY_SIZE(rules));
}

#define OF_A_THREAD (CLONE_THREAD | CLONE_VM | CLONE_SIGHAND)

/* For their number see sandbox_bound_threads(); their stacks count as its memory. */
static int allow_threads(scmp_filter_ctx filter)
{
    static const struct conditional rules[] = {
        {SCMP_SYS(clone), 1, {{0, SCMP_CMP_MASKED_EQ, OF_A_THREAD, OF_A_THREAD}}},
    };

    int r = allow(filter, thread_calls, ARRAY_SIZE(thread_calls));
    if (r >= 0)
        r = allow_conditional(filter, rules, ARRAY_SIZE(rules));
    /* Its flags lie in memory, where no filter sees them; glibc then uses the other one. */
    if (r >= 0)
        r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return r;
}

static int load_filter(const struct sandbox *s)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    int r = filter ? allow(filter, allowed_calls, ARRAY_SIZE(allowed_calls)) : -ENOMEM;

    if (r >= 0)
        r = allow_memory(filter);
    if (r >= 0)
        r = allow_descriptors(filter, s);
    if (r >= 0 && s->threads)
        r = allow_threads(filter);
    if (r >= 0)
        r = seccomp_load(filter);
    seccomp_release(filter);
    return r;
}

/* Where the hard limit of time is the soft one the kernel kills at once, and nobody learns why. */
static int set_limit(__rlimit_resource_t resource, int64_t value)
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
                  __builtin_add_overflow(max, ADDRESS_SPACE_BESIDE, &max);
    return beyond ? INT64_MAX : max;
}

static int set_limits(const struct sandbox *s)
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
                    ? set_limit(limits[i].resource, limits[i].value)
                    : 0;
        if (r < 0)
            return r;
    }
    /* Then it is an error of the write, which can be told from a death. */
    return signal(SIGXFSZ, SIG_IGN) == SIG_ERR ? -errno : 0;
}

static void *do_nothing(void *arg)
{
    return arg;
}

/* Older kernels count the user's threads everywhere. */
static bool can_begin_thread(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, do_nothing, NULL) == 0 && pthread_join(thread, NULL) == 0;
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
    setrlimit(RLIMIT_NPROC, can_begin_thread() ? &limit : &before);
}

int sandbox_enter(const struct sandbox *s)
{
    if (close_range((unsigned)s->fds, ~0U, 0) < 0)
        return -errno;
    int r = set_limits(s);
    if (r < 0)
        return r;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    if (SANDBOX_WITHOUT_FILTER)
        return 0;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return -errno;
    r = load_filter(s);
    if (r >= 0)
        close(STDERR_FILENO);
    return r;
}
