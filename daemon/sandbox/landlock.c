/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sandbox/landlock.h"

#include "base/util.h"
#include <errno.h>
#include <linux/landlock.h>
#include <sys/syscall.h>

/* Debian 12's headers end with version 2. */
#define BIND_TCP      (UINT64_C(1) << 0)
#define CONNECT_TCP   (UINT64_C(1) << 1)
#define RULE_NET_PORT 2

struct ruleset {
    uint64_t files, network, scopes;
};
struct port_rule {
    uint64_t allowed, port;
};

/* What each version added; of files the bits up to that number. */
static const struct {
    int version;
    struct ruleset handled;
} additions[] = {
    {1, {.files = (UINT64_C(1) << 13) - 1}}, /* opening, listing, making, removing */
    {2, {.files = UINT64_C(1) << 13}},       /* linking and renaming across directories */
    {3, {.files = UINT64_C(1) << 14}},       /* truncating */
    {4, {.network = BIND_TCP | CONNECT_TCP}},
    {5, {.files = UINT64_C(1) << 15}}, /* ioctl of devices */
    {6, {.scopes = 3}},                /* abstract sockets, signals */
};

static struct ruleset handled_by(int version)
{
    struct ruleset all = {0};

    for (size_t i = 0; i < ARRAY_SIZE(additions) && additions[i].version <= version; i++) {
        all.files |= additions[i].handled.files;
        all.network |= additions[i].handled.network;
        all.scopes |= additions[i].handled.scopes;
    }
    return all;
}

static int allow_ports(int fd, const uint16_t *ports, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct port_rule rule = {CONNECT_TCP, ports[i]};
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
    const struct ruleset handled = handled_by((int)version);
    _cleanup_(closep) int fd = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);
    if (fd < 0)
        return -errno;
    int r = handled.network ? allow_ports(fd, ports, n_ports) : 0;
    if (r == 0 && syscall(SYS_landlock_restrict_self, fd, 0) < 0)
        r = -errno;
    return r < 0 ? r : (int)version;
}
