/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sandbox/privileges.h"

#include "base/util.h"
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define NOBODY 65534

typedef struct __user_cap_data_struct capability_sets[_LINUX_CAPABILITY_U32S_3];

static bool has_any(const capability_sets sets)
{
    for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        if (sets[i].effective || sets[i].permitted || sets[i].inheritable)
            return true;
    return false;
}

/* As far as CAP_SETPCAP goes; without new privileges it counts for nothing anyway. */
static void empty_bounding_set(void)
{
    for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0)
            return;
}

/* Where changing the user is not allowed, changing only the group does no harm. */
static int leave_root(void)
{
    bool left = setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
                setresuid(NOBODY, NOBODY, NOBODY) == 0;
    return left || errno == EINVAL || errno == EPERM ? 0 : -errno;
}

static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    capability_sets sets = {0};

    if (syscall(SYS_capget, &header, sets) < 0)
        return -errno;
    if (!has_any(sets))
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
    empty_bounding_set();
    int r = become_nobody && geteuid() == 0 ? leave_root() : 0;
    return r < 0 ? r : drop_capabilities();
}
