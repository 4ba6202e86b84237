/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sandbox/restrict.h"

#include "base/util.h"
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* -- Privileges -- */

#define NOBODY 65534

typedef struct __user_cap_data_struct capability_sets[_LINUX_CAPABILITY_U32S_3];

static bool privileges_has_any(const capability_sets sets)
{
    for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        if (sets[i].effective || sets[i].permitted || sets[i].inheritable)
            return true;
    return false;
}

/* As far as CAP_SETPCAP goes; without new privileges it counts for nothing anyway. */
static void privileges_empty_bounding_set(void)
{
    for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
            return;
}

/* Where changing the user is not allowed, changing only the group does no harm. */
static int privileges_leave_root(void)
{
    bool left = setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
                setresuid(NOBODY, NOBODY, NOBODY) == 0;
    return left || errno == EINVAL || errno == EPERM ? 0 : -errno;
}

static int privileges_drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    capability_sets sets = {0};

    if (syscall(SYS_capget, &header, sets) < 0)
        return -errno;
    if (!privileges_has_any(sets))
        return 0;
    memset(sets, 0, sizeof(sets));
    /* A unit that gives capabilities and does not allow the call: the filter that follows leaves nothing to
     * use them with. */
    return syscall(SYS_capset, &header, sets) < 0 && errno != EPERM ? -errno : 0;
}

int privileges_drop(bool become_nobody)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    privileges_empty_bounding_set();
    int r = become_nobody && geteuid() == 0 ? privileges_leave_root() : 0;
    return r < 0 ? r : privileges_drop_capabilities();
}

/* -- Landlock -- */

/* Debian 12's headers end with version 2. */
#define BIND_TCP      (UINT64_C(1) << 0)
#define CONNECT_TCP   (UINT64_C(1) << 1)
#define RULE_NET_PORT 2

struct landlock_ruleset {
    uint64_t files, network, scopes;
};
struct landlock_port_rule {
    uint64_t allowed, port;
};

/* The additions of each version; of files the bits up to that number. */
static const struct {
    int version;
    struct landlock_ruleset handled;
} additions[] = {
    {1, {.files = (UINT64_C(1) << 13) - 1}}, /* opening, listing, making, removing */
    {2, {.files = UINT64_C(1) << 13}},       /* linking and renaming across directories */
    {3, {.files = UINT64_C(1) << 14}},       /* truncating */
    {4, {.network = BIND_TCP | CONNECT_TCP}},
    {5, {.files = UINT64_C(1) << 15}}, /* ioctl of devices */
    {6, {.scopes = 3}},                /* abstract sockets, signals */
};

static struct landlock_ruleset landlock_handled_by(int version)
{
    struct landlock_ruleset all = {0};

    for (size_t i = 0; i < ARRAY_SIZE(additions) && additions[i].version <= version; i++) {
        all.files |= additions[i].handled.files;
        all.network |= additions[i].handled.network;
        all.scopes |= additions[i].handled.scopes;
    }
    return all;
}

static int landlock_allow_ports(int fd, const uint16_t *ports, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct landlock_port_rule rule = {CONNECT_TCP, ports[i]};
        if (syscall(SYS_landlock_add_rule, fd, RULE_NET_PORT, &rule, 0) < 0)
            return -errno;
    }
    return 0;
}

int landlock_enter(const uint16_t *ports, size_t n_ports)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

    if (version <= 0)
        return version < 0 && errno != ENOSYS && errno != EOPNOTSUPP && errno != EPERM ? -errno : 0;
    const struct landlock_ruleset handled = landlock_handled_by((int)version);
    _cleanup_(closep) int fd = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);
    if (fd < 0)
        return -errno;
    int r = handled.network ? landlock_allow_ports(fd, ports, n_ports) : 0;
    if (r == 0 && syscall(SYS_landlock_restrict_self, fd, 0) < 0)
        r = -errno;
    return r < 0 ? r : (int)version;
}

/* -- System calls -- */

static const struct filter_rule common_rules[] = {
    /* Memory. Shared memory without a file and growing stacks, which do not count as data, are not allowed, and
     * nothing becomes executable. */
    {SCMP_SYS(brk)},
    {SCMP_SYS(munmap)},
    {SCMP_SYS(mremap)},
    {SCMP_SYS(madvise)},
    {SCMP_SYS(mmap),
     2,
     {FILTER_WITHOUT(2, PROT_EXEC), {3, SCMP_CMP_MASKED_EQ, MAP_TYPE | MAP_GROWSDOWN, MAP_PRIVATE}}},
    {SCMP_SYS(mprotect), 1, {FILTER_WITHOUT(2, PROT_EXEC | PROT_GROWSDOWN | PROT_GROWSUP)}},
    /* The size of the memory: qsort() sizes its buffer by it. */
    {SCMP_SYS(sysinfo)},
    /* Time, where the vDSO does not have it. */
    {SCMP_SYS(clock_gettime)},
    /* The end, where libcrypto takes a lock; and the continuation of a stopped process. */
    {SCMP_SYS(exit)},
    {SCMP_SYS(exit_group)},
    {SCMP_SYS(futex)},
    {SCMP_SYS(rt_sigreturn)},
    {SCMP_SYS(restart_syscall)},
};

static int filter_add(scmp_filter_ctx filter, const struct filter_list *list)
{
    int r = 0;

    for (size_t i = 0; i < list->n && r >= 0; i++) {
        const struct filter_rule *rule = &list->rules[i];
        r = seccomp_rule_add_array(filter, rule->action ? rule->action : SCMP_ACT_ALLOW, rule->call, rule->n,
                                   rule->args);
    }
    return r;
}

int filter_enter(uint32_t otherwise, const struct filter_list *lists, size_t n)
{
    const struct filter_list common = {common_rules, ARRAY_SIZE(common_rules)};
    scmp_filter_ctx filter = seccomp_init(otherwise);

    int r = filter ? seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) : -ENOMEM;
    if (r >= 0)
        r = filter_add(filter, &common);
    for (size_t i = 0; i < n && r >= 0; i++)
        r = filter_add(filter, &lists[i]);
    if (r >= 0)
        r = seccomp_load(filter);
    if (filter)
        seccomp_release(filter);
    return r;
}
