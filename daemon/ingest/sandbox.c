/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/ingest/sandbox.h"

#include "base/util.h"
#include <errno.h>
#include <linux/fs.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* Reading and writing what is open, memory, and the end, where libcrypto passes a lock. */
static const int allowed_calls[] = {
    SCMP_SYS(read),       SCMP_SYS(pread64),      SCMP_SYS(write),
    SCMP_SYS(pwrite64),   SCMP_SYS(fsync),        SCMP_SYS(close),
    SCMP_SYS(brk),        SCMP_SYS(mmap),         SCMP_SYS(munmap),
    SCMP_SYS(mremap),     SCMP_SYS(madvise),      SCMP_SYS(exit),
    SCMP_SYS(exit_group), SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall),
    SCMP_SYS(futex),
};

static int load_filter(const struct sandbox *s)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    int r = filter ? 0 : -ENOMEM;

    for (size_t i = 0; i < ARRAY_SIZE(allowed_calls) && r >= 0; i++)
        r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed_calls[i], 0);
    if (r >= 0)
        r = seccomp_rule_add(
            filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 3, SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)s->clone_to_fd),
            SCMP_A1(SCMP_CMP_EQ, FICLONE), SCMP_A2(SCMP_CMP_EQ, (scmp_datum_t)s->clone_from_fd));
    if (r >= 0)
        r = seccomp_load(filter);
    seccomp_release(filter);
    return r;
}

static int set_limit(__rlimit_resource_t resource, int64_t value)
{
    struct rlimit limit = {(rlim_t)value, (rlim_t)value};
    return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

static int set_limits(const struct sandbox *s)
{
    const struct {
        __rlimit_resource_t resource;
        int64_t value;
        bool in_sanitized;
    } limits[] = {
        {RLIMIT_CORE, 0, true},         {RLIMIT_CPU, s->cpu_s, true},  {RLIMIT_FSIZE, s->file_size, true},
        {RLIMIT_NOFILE, s->fds, false}, {RLIMIT_AS, s->memory, false},
    };
    for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
        int r = limits[i].in_sanitized || !SANDBOX_WITHOUT_FILTER
                    ? set_limit(limits[i].resource, limits[i].value)
                    : 0;
        if (r < 0)
            return r;
    }
    return 0;
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
    return load_filter(s);
}
