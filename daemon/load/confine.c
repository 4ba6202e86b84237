/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/confine.h"

#include "base/util.h"
#include "daemon/sandbox/restrict.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* Half of it is for the records of a run (records.h), the rest for responses that are worse than those of any engine. */
#define MEMORY_MAX ((rlim_t)8 << 30)

#define SOCKET_TYPE(arg, type)                                                                               \
    {                                                                                                        \
        arg, SCMP_CMP_MASKED_EQ, 0xf, type                                                                   \
    }
#define TCP_SOCKET(family, protocol)                                                                         \
    {                                                                                                        \
        SCMP_SYS(socket), 3,                                                                                 \
        {                                                                                                    \
            FILTER_EQUAL(0, family), SOCKET_TYPE(1, SOCK_STREAM), FILTER_EQUAL(2, protocol)                  \
        }                                                                                                    \
    }
#define SOCKET_OPTION(level, option)                                                                         \
    {                                                                                                        \
        SCMP_SYS(setsockopt), 2,                                                                             \
        {                                                                                                    \
            FILTER_EQUAL(1, level), FILTER_EQUAL(2, option)                                                  \
        }                                                                                                    \
    }
#define DESCRIPTOR_COMMAND(command)                                                                          \
    {                                                                                                        \
        SCMP_SYS(fcntl), 1,                                                                                  \
        {                                                                                                    \
            FILTER_EQUAL(1, command)                                                                         \
        }                                                                                                    \
    }

static const struct filter_rule confine_rules[] = {
    /* Open descriptors: commands, lines, the sampler, connections. F_SETOWN would send signals. */
    {SCMP_SYS(read)},
    {SCMP_SYS(readv)},
    {SCMP_SYS(write)},
    {SCMP_SYS(writev)},
    {SCMP_SYS(close)},
    DESCRIPTOR_COMMAND(F_GETFD),
    DESCRIPTOR_COMMAND(F_SETFD),
    DESCRIPTOR_COMMAND(F_GETFL),
    DESCRIPTOR_COMMAND(F_SETFL),
    /* Waiting: libevent's loop and timer, libcurl's polls of a single socket. */
    {SCMP_SYS(epoll_ctl)},
    {SCMP_SYS(epoll_wait)},
    {SCMP_SYS(epoll_pwait)},
    {SCMP_SYS(epoll_pwait2)},
    {SCMP_SYS(timerfd_settime)},
    {SCMP_SYS(poll)},
    {SCMP_SYS(ppoll)},
    /* By which libcurl's multi handles wake up, depending on its version. */
    {SCMP_SYS(socketpair), 2, {FILTER_EQUAL(0, AF_UNIX), SOCKET_TYPE(1, SOCK_STREAM)}},
    {SCMP_SYS(pipe2)},
    {SCMP_SYS(eventfd2)},
    /* TCP. sendmsg() would pass descriptors on, and so nobody sends any that recvmsg() could receive, which has the
     * moments when bytes arrived; with an address, and by MSG_FASTOPEN, sendto() bypasses Landlock; filters are
     * programs that run in the kernel. */
    TCP_SOCKET(AF_INET, 0),
    TCP_SOCKET(AF_INET, IPPROTO_TCP),
    TCP_SOCKET(AF_INET6, 0),
    TCP_SOCKET(AF_INET6, IPPROTO_TCP),
    {SCMP_SYS(connect)},
    {SCMP_SYS(getsockname)},
    {SCMP_SYS(getpeername)},
    {SCMP_SYS(getsockopt)},
    SOCKET_OPTION(SOL_SOCKET, SO_KEEPALIVE),
    SOCKET_OPTION(SOL_SOCKET, SO_RCVBUF),
    SOCKET_OPTION(SOL_SOCKET, SO_TIMESTAMPNS),
    SOCKET_OPTION(IPPROTO_TCP, TCP_NODELAY),
    SOCKET_OPTION(IPPROTO_TCP, TCP_KEEPIDLE),
    SOCKET_OPTION(IPPROTO_TCP, TCP_KEEPINTVL),
    SOCKET_OPTION(IPPROTO_TCP, TCP_KEEPCNT),
    {SCMP_SYS(sendto), 2, {FILTER_WITHOUT(3, MSG_FASTOPEN), FILTER_EQUAL(4, 0)}},
    {SCMP_SYS(recvfrom)},
    {SCMP_SYS(recvmsg)},
    {SCMP_SYS(shutdown)},
    /* Keys of TLS, whose generator depends on the process id. */
    {SCMP_SYS(getrandom)},
    {SCMP_SYS(getpid)},
    {SCMP_SYS(gettid)},
    {SCMP_SYS(getuid)},
    {SCMP_SYS(geteuid)},
    {SCMP_SYS(getgid)},
    {SCMP_SYS(getegid)},
    /* Older interfaces for the time. */
    {SCMP_SYS(gettimeofday)},
    {SCMP_SYS(time)},
    /* Its own signals, and the wait for the sampler. */
    {SCMP_SYS(rt_sigaction)},
    {SCMP_SYS(rt_sigprocmask)},
    {SCMP_SYS(wait4)},
    /* The limit of open files, read only. */
    {SCMP_SYS(prlimit64), 2, {FILTER_EQUAL(0, 0), FILTER_EQUAL(2, 0)}},
    {SCMP_SYS(getrlimit)},
    {SCMP_SYS(execve), .action = SCMP_ACT_KILL_PROCESS},
    {SCMP_SYS(execveat), .action = SCMP_ACT_KILL_PROCESS},
};

static int confine_enter_filter(void)
{
    /* abort() */
    const struct filter_rule own_signal = {SCMP_SYS(tgkill), 1, {FILTER_EQUAL(0, getpid())}};
    const struct filter_list lists[] = {{confine_rules, ARRAY_SIZE(confine_rules)}, {&own_signal, 1}};

    return filter_enter(SCMP_ACT_ERRNO(EPERM), lists, ARRAY_SIZE(lists));
}

/* A lower limit of the parent stays. */
static int confine_memory(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_DATA, &limit) < 0)
        return -errno;
    limit.rlim_cur = limit.rlim_max = MIN(limit.rlim_max, MEMORY_MAX);
    return setrlimit(RLIMIT_DATA, &limit) < 0 ? -errno : 0;
}

/* The specification has been read; stderr belongs to profd, whose log and file flags must not be changed. */
static int confine_descriptors(void)
{
    _cleanup_(closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    return null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ? -errno : 0;
}

static int confine_rights(const uint16_t *ports, size_t n_ports)
{
    int r = privileges_drop(true);

    if (r >= 0)
        r = landlock_enter(ports, n_ports);
    if (r < 0)
        return r;
    /* The kernel resets both when the user changes. */
    return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno
                                                                                                   : 0;
}

int confine(const uint16_t *ports, size_t n_ports)
{
    const struct rlimit none = {0};

    if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    if (SANDBOX_WITHOUT_FILTER)
        return 0;
    int r = confine_memory();
    if (r >= 0)
        r = confine_descriptors();
    if (r >= 0)
        r = confine_rights(ports, n_ports);
    return r < 0 ? r : confine_enter_filter();
}
