/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/confine.h"

#include "base/util.h"
#include "daemon/ingest/sandbox.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* The records of a run are half of it (records.h); the rest is for answers that are worse than any that
 * engines give. */
#define MEMORY_MAX ((rlim_t)8 << 30)

static const int deadly_calls[] = {SCMP_SYS(execve), SCMP_SYS(execveat)};

static const int forbidden_calls[] = {
    /* processes */
    SCMP_SYS(fork),
    SCMP_SYS(vfork),
    SCMP_SYS(kill),
    SCMP_SYS(tkill),
    SCMP_SYS(pidfd_send_signal),
    SCMP_SYS(ptrace),
    SCMP_SYS(process_vm_readv),
    SCMP_SYS(process_vm_writev),
    /* files */
    SCMP_SYS(creat),
    SCMP_SYS(openat2),
    SCMP_SYS(truncate),
    SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),
    SCMP_SYS(rename),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(link),
    SCMP_SYS(linkat),
    SCMP_SYS(symlink),
    SCMP_SYS(symlinkat),
    SCMP_SYS(mkdir),
    SCMP_SYS(mkdirat),
    SCMP_SYS(rmdir),
    SCMP_SYS(mknod),
    SCMP_SYS(mknodat),
    SCMP_SYS(chmod),
    SCMP_SYS(fchmod),
    SCMP_SYS(fchmodat),
    SCMP_SYS(chown),
    SCMP_SYS(fchown),
    SCMP_SYS(lchown),
    SCMP_SYS(fchownat),
    /* connections to it */
    SCMP_SYS(listen),
    SCMP_SYS(accept),
    SCMP_SYS(accept4),
    /* what has no filter of its own */
    SCMP_SYS(io_uring_setup),
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(mount),
    SCMP_SYS(chroot),
    SCMP_SYS(pivot_root),
    SCMP_SYS(unshare),
    SCMP_SYS(setns),
    SCMP_SYS(keyctl),
};

static int forbid_all(scmp_filter_ctx filter, uint32_t action, const int *calls, size_t n)
{
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++)
        r = seccomp_rule_add(filter, action, calls[i], 0);
    return r;
}

static int forbid_writing(scmp_filter_ctx filter)
{
    static const struct {
        int call;
        unsigned flags; /* which argument has them */
    } opens[] = {{SCMP_SYS(open), 1}, {SCMP_SYS(openat), 2}};
    static const scmp_datum_t modes[] = {O_WRONLY, O_RDWR};
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(opens) && r >= 0; i++) {
        for (size_t k = 0; k < ARRAY_SIZE(modes) && r >= 0; k++)
            r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), opens[i].call, 1,
                                 SCMP_CMP(opens[i].flags, SCMP_CMP_MASKED_EQ, O_ACCMODE, modes[k]));
        if (r >= 0)
            r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), opens[i].call, 1,
                                 SCMP_CMP(opens[i].flags, SCMP_CMP_MASKED_EQ, O_CREAT, O_CREAT));
    }
    return r;
}

/* Threads it may begin: libcurl looks up names on them. */
static int forbid_processes(scmp_filter_ctx filter)
{
    int r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                             SCMP_CMP(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
    /* Its flags lie in memory, where no filter sees them; glibc then uses the other one. */
    return r < 0 ? r : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int load_filter(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int r = filter ? seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) : -ENOMEM;

    if (r >= 0)
        r = forbid_all(filter, SCMP_ACT_KILL_PROCESS, deadly_calls, ARRAY_SIZE(deadly_calls));
    if (r >= 0)
        r = forbid_all(filter, SCMP_ACT_ERRNO(EPERM), forbidden_calls, ARRAY_SIZE(forbidden_calls));
    if (r >= 0)
        r = forbid_writing(filter);
    if (r >= 0)
        r = forbid_processes(filter);
    if (r >= 0)
        r = seccomp_load(filter);
    seccomp_release(filter);
    return r;
}

/* Unless whoever started it allows less. */
static int bound_memory(void)
{
    struct rlimit limit;

    if (SANDBOX_WITHOUT_FILTER)
        return 0;
    if (getrlimit(RLIMIT_DATA, &limit) < 0)
        return -errno;
    limit.rlim_cur = limit.rlim_max = MIN(limit.rlim_max, MEMORY_MAX);
    return setrlimit(RLIMIT_DATA, &limit) < 0 ? -errno : 0;
}

int confine(void)
{
    const struct rlimit none = {0};

    int r = bound_memory();
    if (r < 0)
        return r;
    if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return SANDBOX_WITHOUT_FILTER ? 0 : load_filter();
}
