/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sandbox/filter.h"

#include "base/util.h"
#include <errno.h>
#include <sys/mman.h>

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

scmp_filter_ctx filter_new(uint32_t otherwise)
{
    scmp_filter_ctx filter = seccomp_init(otherwise);

    if (filter && (seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) < 0 ||
                   filter_allow(filter, common_rules, ARRAY_SIZE(common_rules)) < 0)) {
        seccomp_release(filter);
        return NULL;
    }
    return filter;
}

int filter_allow(scmp_filter_ctx filter, const struct filter_rule *rules, size_t n)
{
    int r = 0;

    for (size_t i = 0; i < n && r >= 0; i++)
        r = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, rules[i].call, rules[i].n, rules[i].args);
    return r;
}

int filter_load(scmp_filter_ctx filter)
{
    int r = seccomp_load(filter);

    seccomp_release(filter);
    return r;
}
