/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process can still do that has given up what profd-load gives up: each row is one system call of what
 * a stranger's code in it would try. All are to be refused, whatever the kernel says of their arguments; what
 * would harm the machine if it were allowed has arguments that the kernel refuses for another reason.
 */
#include "base/util.h"
#include "daemon/load/confine.h"
#include "daemon/sandbox/restrict.h"
#include "tests/unit/cmocka-all.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

/* By number, where Debian 12's headers have no name; new calls have one number on all architectures. */
#define CALL_FCHMODAT2   452
#define CALL_SETXATTRAT  463
#define CALL_MAP_SHADOW  453
#define CALL_FUTEX_WAKE  454
#define CALL_LISTMOUNT   458

#define SUCCEEDED        0
#define KILLED           255
#define NOT_CONFINED     254
#define FAILED_OTHERWISE 253

struct catalog_fixture {
    char directory[32], file[48], other[48], socket[48];
    int file_fd, directory_fd, parent_fd, listening_fd, unix_fd;
    uint16_t port, other_port;
    struct sockaddr_un path_address, abstract_address;
    socklen_t abstract_size;
};

static struct catalog_fixture fixture;

static int listen_on(uint16_t *ret_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, size) | listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void listen_unix(const struct sockaddr_un *address, socklen_t size)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)address, size) | listen(fd, 8), 0);
}

static int make_fixture(void **state)
{
    snprintf(fixture.directory, sizeof(fixture.directory), "/tmp/confine-XXXXXX");
    assert_non_null(mkdtemp(fixture.directory));
    snprintf(fixture.file, sizeof(fixture.file), "%s/file", fixture.directory);
    snprintf(fixture.other, sizeof(fixture.other), "%s/other", fixture.directory);
    snprintf(fixture.socket, sizeof(fixture.socket), "%s/socket", fixture.directory);
    /* Whoever it is by then may do with these what he likes. */
    assert_int_equal(chmod(fixture.directory, 0777), 0);
    fixture.file_fd = open(fixture.file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    fixture.directory_fd = open(fixture.directory, O_DIRECTORY | O_CLOEXEC);
    fixture.parent_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    assert_true(fixture.file_fd >= 0 && fixture.directory_fd >= 0 && fixture.parent_fd >= 0);
    assert_int_equal(fchmod(fixture.file_fd, 0666), 0);
    fixture.path_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(fixture.path_address.sun_path, fixture.socket, strlen(fixture.socket));
    listen_unix(&fixture.path_address, sizeof(fixture.path_address));
    fixture.abstract_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(fixture.abstract_address.sun_path + 1, 64, "%s", fixture.directory);
    fixture.abstract_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    listen_unix(&fixture.abstract_address, fixture.abstract_size);
    fixture.listening_fd = listen_on(&fixture.port);
    listen_on(&fixture.other_port);
    fixture.unix_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return 0;
}

static int clear_fixture(void **state)
{
    return unlink(fixture.socket) | unlink(fixture.file) | rmdir(fixture.directory);
}

/* Runs act() in a child that has entered by enter(): what it returns as an errno, or how it ended. */
static int status_in(int (*enter)(void), int (*act)(const void *arg), const void *arg)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(enter() < 0 ? NOT_CONFINED : act(arg));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status) == SIGSYS ? KILLED : FAILED_OTHERWISE;
}

static int enter_confinement(void)
{
    return confine(&fixture.port, 1);
}

static int enter_landlock(void)
{
    int r = privileges_drop(false);
    return r < 0 ? r : landlock_enter(&fixture.port, 1);
}

/* -- One system call each ----------------------------------------------------------------------------- */

struct attempt {
    const char *name;
    long call;
    long args[6];
};

static int try(const void *arg)
{
    const struct attempt *a = arg;
    const long *x = a->args;

    return syscall(a->call, x[0], x[1], x[2], x[3], x[4], x[5]) < 0 ? errno : SUCCEEDED;
}

static bool is_refusal(int status)
{
    return status == EPERM || status == EACCES || status == KILLED;
}

static void need_filter(void)
{
    if (!SANDBOX_WITHOUT_FILTER)
        return;
    print_message("skipped: sanitized builds have no filter\n");
    skip();
}

static void refuse_all(int (*enter)(void), const struct attempt *attempts, size_t n)
{
    size_t n_allowed = 0;

    for (size_t i = 0; i < n; i++) {
        int status = status_in(enter, try, &attempts[i]);
        if (is_refusal(status))
            continue;
        n_allowed++;
        print_message("%s: %s\n", attempts[i].name,
                      status == SUCCEEDED ? "allowed" : strerrorname_np(status));
    }
    assert_int_equal(n_allowed, 0);
}

#define PTR(p) ((long)(p))

static char parent_memory[32], bytes[64] = "bytes", *no_words[] = {NULL};
static const struct iovec piece = {bytes, sizeof(bytes)};
static const struct timespec times[2] = {{1, 0}, {1, 0}}, no_time = {0, -1};

static void test_files(void **state)
{
    const long here = AT_FDCWD;
    struct {
        uint64_t flags, mode, resolve;
    } how = {.flags = O_RDONLY};
    snprintf(parent_memory, sizeof(parent_memory), "/proc/%d/mem", (int)getpid());
    const struct attempt attempts[] = {
        {"open for reading", SYS_openat, {here, PTR(fixture.file), O_RDONLY}},
        {"open for writing", SYS_openat, {here, PTR(fixture.file), O_WRONLY}},
        {"open a new file", SYS_openat, {here, PTR(fixture.other), O_WRONLY | O_CREAT, 0600}},
        {"open a file without a name", SYS_openat, {here, PTR(fixture.directory), O_TMPFILE | O_RDWR, 0600}},
        {"open beneath a directory", SYS_openat, {fixture.directory_fd, PTR("file"), O_RDONLY}},
        {"open a parent's memory", SYS_openat, {here, PTR(parent_memory), O_RDWR}},
        {"openat2", SYS_openat2, {here, PTR(fixture.file), PTR(&how), sizeof(how)}},
        {"truncate", SYS_truncate, {PTR(fixture.file), 0}},
        {"ftruncate", SYS_ftruncate, {fixture.file_fd, 0}},
        {"fallocate", SYS_fallocate, {fixture.file_fd, 0, 0, 4096}},
        {"fchmod", SYS_fchmod, {fixture.file_fd, 0600}},
        {"fchmodat", SYS_fchmodat, {here, PTR(fixture.file), 0600}},
        {"fchmodat2", CALL_FCHMODAT2, {here, PTR(fixture.file), 0600, 0}},
        {"fchownat", SYS_fchownat, {here, PTR(fixture.file), -1, -1, 0}},
        {"fchown", SYS_fchown, {fixture.file_fd, -1, -1}},
        {"setxattr", SYS_setxattr, {PTR(fixture.file), PTR("user.a"), PTR(bytes), 1, 0}},
        {"fsetxattr", SYS_fsetxattr, {fixture.file_fd, PTR("user.a"), PTR(bytes), 1, 0}},
        {"setxattrat", CALL_SETXATTRAT, {here, PTR(fixture.file), 0, PTR("user.a"), PTR(&piece), 16}},
        {"removexattr", SYS_removexattr, {PTR(fixture.file), PTR("user.a")}},
        {"getxattr", SYS_getxattr, {PTR(fixture.file), PTR("user.a"), PTR(bytes), sizeof(bytes)}},
        {"utimensat of a path", SYS_utimensat, {here, PTR(fixture.file), PTR(times), 0}},
        {"utimensat of a descriptor", SYS_utimensat, {fixture.file_fd, 0, PTR(times), 0}},
        {"unlinkat", SYS_unlinkat, {here, PTR(fixture.file), 0}},
        {"renameat2", SYS_renameat2, {here, PTR(fixture.file), here, PTR(fixture.other), 0}},
        {"linkat", SYS_linkat, {here, PTR(fixture.file), here, PTR(fixture.other), 0}},
        {"symlinkat", SYS_symlinkat, {PTR(fixture.file), here, PTR(fixture.other)}},
        {"mkdirat", SYS_mkdirat, {here, PTR(fixture.other), 0700}},
        {"mknodat", SYS_mknodat, {here, PTR(fixture.other), S_IFIFO | 0600, 0}},
        {"newfstatat", SYS_newfstatat, {here, PTR(fixture.file), PTR(bytes), 0}},
        {"statx", SYS_statx, {here, PTR(fixture.file), 0, 0, PTR(bytes)}},
        {"faccessat", SYS_faccessat, {here, PTR(fixture.file), R_OK}},
        {"readlinkat", SYS_readlinkat, {here, PTR("/proc/self/exe"), PTR(bytes), sizeof(bytes)}},
        {"getdents64", SYS_getdents64, {fixture.directory_fd, PTR(bytes), sizeof(bytes)}},
        {"chdir", SYS_chdir, {PTR(fixture.directory)}},
        {"fchdir", SYS_fchdir, {fixture.directory_fd}},
        {"chroot", SYS_chroot, {PTR(fixture.directory)}},
        {"statfs", SYS_statfs, {PTR("/"), PTR(bytes)}},
        {"name_to_handle_at", SYS_name_to_handle_at, {here, PTR(fixture.file), PTR(bytes), PTR(&how), 0}},
        {"open_by_handle_at", SYS_open_by_handle_at, {fixture.directory_fd, PTR(bytes), O_RDONLY}},
        {"inotify_init1", SYS_inotify_init1, {0}},
        {"fanotify_init", SYS_fanotify_init, {0, 0}},
        {"mount", SYS_mount, {PTR("none"), PTR(fixture.directory), PTR("none"), 0, 0}},
        {"umount2", SYS_umount2, {PTR(fixture.directory), 0}},
        {"pivot_root", SYS_pivot_root, {PTR(fixture.directory), PTR(fixture.directory)}},
        {"open_tree", SYS_open_tree, {here, PTR(fixture.directory), 0}},
        {"move_mount", SYS_move_mount, {here, PTR(fixture.directory), here, PTR(fixture.other), 0}},
        {"fsopen", SYS_fsopen, {PTR("tmpfs"), 0}},
        {"fspick", SYS_fspick, {here, PTR(fixture.directory), 0}},
        {"mount_setattr", SYS_mount_setattr, {here, PTR(fixture.directory), 0, PTR(&how), 32}},
        {"listmount", CALL_LISTMOUNT, {PTR(&how), PTR(bytes), 1, 0}},
        {"sendfile", SYS_sendfile, {fixture.file_fd, fixture.file_fd, 0, 1}},
        {"copy_file_range", SYS_copy_file_range, {fixture.file_fd, 0, fixture.file_fd, 0, 1, 0}},
        {"splice", SYS_splice, {fixture.file_fd, 0, fixture.unix_fd, 0, 1, 0}},
        {"flock", SYS_flock, {fixture.file_fd, 2}},
        {"memfd_create", SYS_memfd_create, {PTR("a"), 0}},
        {"memfd_secret", SYS_memfd_secret, {0}},
        {"quotactl", SYS_quotactl, {0, 0, 0, 0}},
        {"pwrite64", SYS_pwrite64, {fixture.file_fd, PTR(bytes), 1, 0}},
    };

    need_filter();
    refuse_all(enter_confinement, attempts, ARRAY_SIZE(attempts));
}

static void test_processes(void **state)
{
    const long parent = getpid();
    const struct rlimit limit = {1, 1};
    siginfo_t info = {.si_code = SI_QUEUE};
    const uint64_t clone_args[8] = {[4] = SIGCHLD};
    const struct attempt attempts[] = {
        {"execve", SYS_execve, {PTR("/bin/true"), PTR(no_words), PTR(no_words)}},
        {"execveat", SYS_execveat, {AT_FDCWD, PTR("/bin/true"), PTR(no_words), PTR(no_words), 0}},
        {"a process by clone", SYS_clone, {SIGCHLD}},
        {"a process by clone3", SYS_clone3, {PTR(clone_args), sizeof(clone_args)}},
        {"a thread by clone", SYS_clone, {CLONE_VM | CLONE_SIGHAND | CLONE_THREAD}},
        {"kill", SYS_kill, {parent, 0}},
        {"kill of all", SYS_kill, {-1, 0}},
        {"tkill", SYS_tkill, {parent, 0}},
        {"tgkill", SYS_tgkill, {parent, parent, 0}},
        {"rt_sigqueueinfo", SYS_rt_sigqueueinfo, {parent, 0, PTR(&info)}},
        {"rt_tgsigqueueinfo", SYS_rt_tgsigqueueinfo, {parent, parent, 0, PTR(&info)}},
        {"signals of descriptors", SYS_fcntl, {fixture.unix_fd, F_SETOWN, parent}},
        {"the signal's number", SYS_fcntl, {fixture.unix_fd, F_SETSIG, SIGKILL}},
        {"leases", SYS_fcntl, {fixture.file_fd, F_SETLEASE, F_RDLCK}},
        {"FIOSETOWN", SYS_ioctl, {fixture.unix_fd, 0x8901, PTR(&parent)}},
        {"TIOCSTI", SYS_ioctl, {STDIN_FILENO, 0x5412, PTR(bytes)}},
        {"pidfd_open", SYS_pidfd_open, {parent, 0}},
        {"pidfd_getfd", SYS_pidfd_getfd, {fixture.parent_fd, fixture.file_fd, 0}},
        {"pidfd_send_signal", SYS_pidfd_send_signal, {fixture.parent_fd, 0, 0, 0}},
        {"ptrace", SYS_ptrace, {PTRACE_SEIZE, parent, 0, 0}},
        {"process_vm_readv", SYS_process_vm_readv, {parent, PTR(&piece), 1, PTR(&piece), 1, 0}},
        {"process_vm_writev", SYS_process_vm_writev, {parent, PTR(&piece), 1, PTR(&piece), 1, 0}},
        {"process_madvise", SYS_process_madvise, {fixture.parent_fd, PTR(&piece), 1, MADV_COLD, 0}},
        {"process_mrelease", SYS_process_mrelease, {fixture.parent_fd, 0}},
        {"kcmp", SYS_kcmp, {parent, parent, 0, 0, 0}},
        {"get_robust_list", SYS_get_robust_list, {parent, PTR(bytes), PTR(bytes)}},
        {"limits of others", SYS_prlimit64, {parent, RLIMIT_CPU, 0, PTR(bytes)}},
        {"own limits", SYS_prlimit64, {0, RLIMIT_CPU, PTR(&limit), 0}},
        {"setpriority", SYS_setpriority, {PRIO_PROCESS, parent, 0}},
        {"sched_setaffinity", SYS_sched_setaffinity, {parent, 0, PTR(bytes)}},
        {"PR_SET_DUMPABLE", SYS_prctl, {PR_SET_DUMPABLE, 1, 0, 0, 0}},
        {"PR_SET_PTRACER", SYS_prctl, {PR_SET_PTRACER, -1, 0, 0, 0}},
        {"PR_SET_PDEATHSIG", SYS_prctl, {PR_SET_PDEATHSIG, 0, 0, 0, 0}},
        {"setns", SYS_setns, {fixture.parent_fd, CLONE_NEWNS}},
        {"unshare", SYS_unshare, {CLONE_NEWUSER}},
        {"setuid", SYS_setresuid, {0, 0, 0}},
        {"setgroups", SYS_setgroups, {0, 0}},
        {"capset", SYS_capset, {PTR(bytes), PTR(bytes)}},
        {"personality", SYS_personality, {0xffffffff}},
        {"setsid", SYS_setsid, {0}},
    };

    need_filter();
    refuse_all(enter_confinement, attempts, ARRAY_SIZE(attempts));
}

static void test_the_kernel(void **state)
{
    const struct attempt attempts[] = {
        {"io_uring_setup", SYS_io_uring_setup, {1, PTR(bytes)}},
        {"io_uring_enter", SYS_io_uring_enter, {0, 0, 0, 0, 0, 0}},
        {"bpf", SYS_bpf, {0, PTR(bytes), sizeof(bytes)}},
        {"perf_event_open", SYS_perf_event_open, {PTR(bytes), 0, -1, -1, 0}},
        {"userfaultfd", SYS_userfaultfd, {1}},
        {"keyctl", SYS_keyctl, {0, -3, 0, 0, 0}},
        {"add_key", SYS_add_key, {PTR("user"), PTR("a"), PTR(bytes), 1, -3}},
        {"request_key", SYS_request_key, {PTR("user"), PTR("a"), 0, -3}},
        {"seccomp", SYS_seccomp, {2, 0, PTR(bytes)}},
        {"init_module", SYS_init_module, {PTR(bytes), 1, PTR("")}},
        {"kexec_load", SYS_kexec_load, {0, 0, 0, 0}},
        {"reboot", SYS_reboot, {0, 0, 0, 0}},
        {"sethostname", SYS_sethostname, {PTR("a"), -1}},
        {"clock_settime", SYS_clock_settime, {0, PTR(&no_time)}},
        {"shmget", SYS_shmget, {1, 4096, 0600}},
        {"msgget", SYS_msgget, {1, 0600}},
        {"semget", SYS_semget, {1, 1, 0600}},
        {"mq_open", SYS_mq_open, {PTR("profd-none"), O_RDWR, 0, 0}},
        {"memory to execute", SYS_mmap, {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
        {"memory of a file", SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fixture.file_fd, 0}},
        {"to execute later", SYS_mprotect, {PTR(bytes) & -4096L, 4096, PROT_READ | PROT_EXEC}},
        {"pkey_mprotect", SYS_pkey_mprotect, {PTR(bytes) & -4096L, 4096, PROT_READ | PROT_EXEC, -1}},
        {"remap_file_pages", SYS_remap_file_pages, {0, 4096, 0, 0, 0}},
        {"map_shadow_stack", CALL_MAP_SHADOW, {0, 4096, 0}},
        {"futex_wake", CALL_FUTEX_WAKE, {PTR(bytes), 1, 1, 0}},
        {"a call that is not known yet", 1000, {0}},
    };

    need_filter();
    refuse_all(enter_confinement, attempts, ARRAY_SIZE(attempts));
}

static void test_sockets(void **state)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec one = {bytes, 1};
    const struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.bytes)};
    struct sock_filter code = {0x06, 0, 0, 0xffff};
    const struct sock_fprog program = {1, &code};
    const struct sockaddr_in target = {
        .sin_family = AF_INET, .sin_port = htons(fixture.port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    const struct attempt attempts[] = {
        {"AF_UNIX", SYS_socket, {AF_UNIX, SOCK_STREAM, 0}},
        {"AF_UNIX datagrams", SYS_socket, {AF_UNIX, SOCK_DGRAM, 0}},
        {"a pair of datagrams", SYS_socketpair, {AF_UNIX, SOCK_DGRAM, 0, PTR(bytes)}},
        {"UDP", SYS_socket, {AF_INET, SOCK_DGRAM, 0}},
        {"UDP over IPv6", SYS_socket, {AF_INET6, SOCK_DGRAM, 0}},
        {"raw", SYS_socket, {AF_INET, SOCK_RAW, IPPROTO_ICMP}},
        {"packets", SYS_socket, {AF_PACKET, SOCK_RAW, 0}},
        {"routes", SYS_socket, {AF_NETLINK, SOCK_RAW, 0}},
        {"netfilter", SYS_socket, {AF_NETLINK, SOCK_RAW, 12}},
        {"ciphers", SYS_socket, {AF_ALG, SOCK_SEQPACKET, 0}},
        {"hosts of virtual machines", SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}},
        {"MPTCP", SYS_socket, {AF_INET, SOCK_STREAM, IPPROTO_MPTCP}},
        {"SCTP", SYS_socket, {AF_INET, SOCK_STREAM, IPPROTO_SCTP}},
        {"bind", SYS_bind, {tcp, PTR(&target), sizeof(target)}},
        {"listen", SYS_listen, {tcp, 1}},
        {"accept4", SYS_accept4, {fixture.listening_fd, 0, 0, SOCK_NONBLOCK}},
        {"sendmsg of descriptors", SYS_sendmsg, {fixture.unix_fd, PTR(&message), 0}},
        {"sendmmsg", SYS_sendmmsg, {fixture.unix_fd, PTR(&message), 1, 0}},
        {"recvmmsg", SYS_recvmmsg, {fixture.unix_fd, PTR(&message), 1, MSG_DONTWAIT, 0}},
        {"sendto an address", SYS_sendto, {tcp, PTR(bytes), 1, 0, PTR(&target), sizeof(target)}},
        {"sendto that connects",
         SYS_sendto,
         {tcp, PTR(bytes), 1, MSG_FASTOPEN, PTR(&target), sizeof(target)}},
        {"programs of sockets",
         SYS_setsockopt,
         {tcp, SOL_SOCKET, SO_ATTACH_FILTER, PTR(&program), sizeof(program)}},
        {"another protocol on top", SYS_setsockopt, {tcp, IPPROTO_TCP, TCP_ULP, PTR("tls"), 4}},
        {"devices", SYS_setsockopt, {tcp, SOL_SOCKET, SO_BINDTODEVICE, PTR("lo"), 3}},
        {"IP's options", SYS_setsockopt, {tcp, IPPROTO_IP, IP_TOS, PTR(&on), sizeof(on)}},
    };

    need_filter();
    refuse_all(enter_confinement, attempts, ARRAY_SIZE(attempts));
}

/* -- What Landlock adds ------------------------------------------------------------------------------- */

static int connect_to(const void *arg)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(*(const uint16_t *)arg),
                                        .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? errno : SUCCEEDED;
}

static int landlock_version(void)
{
    return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, 1);
}

static void need_landlock(int version)
{
    if (landlock_version() >= version)
        return;
    print_message("skipped: this kernel's Landlock has version %d, not %d\n", landlock_version(), version);
    skip();
}

static void test_landlock_alone_keeps_from_files_and_processes(void **state)
{
    const long here = AT_FDCWD, parent = getpid();
    const struct attempt attempts[] = {
        {"open for reading", SYS_openat, {here, PTR(fixture.file), O_RDONLY}},
        {"open for writing", SYS_openat, {here, PTR(fixture.file), O_WRONLY}},
        {"open a parent's memory", SYS_openat, {here, PTR(parent_memory), O_RDWR}},
        {"unlinkat", SYS_unlinkat, {here, PTR(fixture.file), 0}},
        {"mkdirat", SYS_mkdirat, {here, PTR(fixture.other), 0700}},
        {"execve", SYS_execve, {PTR("/bin/true"), PTR(no_words), PTR(no_words)}},
        {"pidfd_getfd", SYS_pidfd_getfd, {fixture.parent_fd, fixture.file_fd, 0}},
        {"ptrace", SYS_ptrace, {PTRACE_SEIZE, parent, 0, 0}},
        {"process_vm_readv", SYS_process_vm_readv, {parent, PTR(&piece), 1, PTR(&piece), 1, 0}},
        {"mount", SYS_mount, {PTR("none"), PTR(fixture.directory), PTR("none"), 0, 0}},
    };

    need_landlock(1);
    refuse_all(enter_landlock, attempts, ARRAY_SIZE(attempts));
}

static void test_landlock_alone_keeps_from_signals_and_abstract_sockets(void **state)
{
    const long parent = getpid();
    const struct attempt attempts[] = {
        {"kill", SYS_kill, {parent, 0}},
        {"tgkill", SYS_tgkill, {parent, parent, 0}},
        {"pidfd_send_signal", SYS_pidfd_send_signal, {fixture.parent_fd, 0, 0, 0}},
        {"an abstract socket",
         SYS_connect,
         {fixture.unix_fd, PTR(&fixture.abstract_address), fixture.abstract_size}},
    };

    need_landlock(6);
    refuse_all(enter_landlock, attempts, ARRAY_SIZE(attempts));
}

static void test_only_the_ports_of_targets(void **state)
{
    if (!SANDBOX_WITHOUT_FILTER)
        assert_int_equal(status_in(enter_confinement, connect_to, &fixture.port), SUCCEEDED);
    need_landlock(4);
    assert_int_equal(status_in(enter_landlock, connect_to, &fixture.port), SUCCEEDED);
    assert_int_equal(status_in(enter_landlock, connect_to, &fixture.other_port), EACCES);
    if (!SANDBOX_WITHOUT_FILTER)
        assert_int_equal(status_in(enter_confinement, connect_to, &fixture.other_port), EACCES);
}

/* -- What it needs ------------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static int do_its_work(const void *arg)
{
    int pair[2], on = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
    struct rlimit limit;
    size_t n = 1 << 20;
    int *values = calloc(n, sizeof(*values));
    char byte = 1;
    bool ok = values && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0 &&
              send(pair[0], &byte, 1, MSG_NOSIGNAL) == 1 && recv(pair[1], &byte, 1, 0) == 1 &&
              setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0 &&
              fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0 &&
              getrlimit(RLIMIT_NOFILE, &limit) == 0;

    if (!ok)
        return errno;
    qsort(values, n, sizeof(*values), by_value);
    free(values);
    return SUCCEEDED;
}

static int be_root(const void *arg)
{
    return getuid() == 0 || geteuid() == 0 || getgid() == 0 ? EPERM : SUCCEEDED;
}

static int end_itself(const void *arg)
{
    abort();
}

static void test_its_work_is_allowed(void **state)
{
    int status;

    assert_int_equal(status_in(enter_confinement, do_its_work, NULL), SUCCEEDED);
    if (!SANDBOX_WITHOUT_FILTER)
        assert_int_equal(status_in(enter_confinement, be_root, NULL), SUCCEEDED);
    pid_t pid = fork();
    if (pid == 0)
        _exit(enter_confinement() < 0 ? NOT_CONFINED : end_itself(NULL));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && !WCOREDUMP(status));
}

/* -- Capabilities that a unit gives ------------------------------------------------------------------- */

#define NOBODY 65534

static struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

/* As profd is with AmbientCapabilities=CAP_SYS_PTRACE. */
static int be_nobody_with_a_capability(void)
{
    const struct __user_cap_data_struct sets[2] = {
        {1 << CAP_SYS_PTRACE, 1 << CAP_SYS_PTRACE, 1 << CAP_SYS_PTRACE}};

    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0 ||
        syscall(SYS_capset, &header, sets) < 0 ||
        prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_PTRACE, 0, 0) < 0)
        return -errno;
    return privileges_drop(true);
}

static int has_capabilities(const void *arg)
{
    struct __user_cap_data_struct sets[2], none[2] = {0};

    if (syscall(SYS_capget, &header, sets) < 0)
        return errno;
    return memcmp(sets, none, sizeof(sets)) != 0 ||
                   prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_SYS_PTRACE, 0, 0) != 0
               ? EEXIST
               : SUCCEEDED;
}

static void test_capabilities_are_given_up(void **state)
{
    if (geteuid() != 0) {
        print_message("skipped: only root has capabilities to give up\n");
        skip();
    }
    assert_int_equal(status_in(be_nobody_with_a_capability, has_capabilities, NULL), SUCCEEDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_the_kernel),
        cmocka_unit_test(test_sockets),
        cmocka_unit_test(test_landlock_alone_keeps_from_files_and_processes),
        cmocka_unit_test(test_landlock_alone_keeps_from_signals_and_abstract_sockets),
        cmocka_unit_test(test_only_the_ports_of_targets),
        cmocka_unit_test(test_its_work_is_allowed),
        cmocka_unit_test(test_capabilities_are_given_up),
    };
    return cmocka_run_group_tests(tests, make_fixture, clear_fixture);
}
