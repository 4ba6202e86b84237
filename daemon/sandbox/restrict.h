/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restrictions that both children of profd enter before they read untrusted data: privileges, paths and ports
 * (Landlock), and system calls.
 */
#pragma once

#include <seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The runtimes of the sanitizers of addresses and threads map terabytes and open /proc: neither filter, Landlock nor a
 * limit of memory. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANDBOX_WITHOUT_FILTER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX_WITHOUT_FILTER 1
#endif
#ifndef SANDBOX_WITHOUT_FILTER
#define SANDBOX_WITHOUT_FILTER 0
#endif

/* -- Privileges -- */

/*
 * Drops all capabilities, of every set, and prevents new ones by an exec. Where requested, root becomes nobody,
 * so that it has no rights to files, processes or limits of root; where the service's filter or a user namespace
 * does not allow it, it stays a root without capabilities. Where the filter refuses capset(), capabilities stay:
 * the caller's own filter then leaves no call to use them with.
 *
 * With one thread, before others are started. 0 or a negative errno value.
 */
int privileges_drop(bool become_nobody);

/* -- Landlock -- */

/*
 * Limits the paths, ports and processes that a process may reach, which a list of system calls cannot see. It
 * only adds restrictions, for the calling thread and those that it starts later: no file by any path; and, by the
 * version of Landlock that the kernel has, no TCP port but connections to these (4), no abstract socket and no
 * signal of processes outside (6). Processes outside cannot be traced, nor inspected through /proc. Needs
 * PR_SET_NO_NEW_PRIVS. The version, 0 where the kernel has no Landlock, or a negative errno value.
 */
int landlock_enter(const uint16_t *ports, size_t n_ports);

/* -- System calls -- */

/*
 * Lists of the system calls that a child of profd may use: all others are refused. A child lists its own calls
 * in tables of rules; those for memory, time and exit, which every child needs, are here.
 *
 * Names of calls that an architecture does not have (poll of aarch64) have no effect there.
 */
/* A call that is allowed, or has another action, where its arguments match n of `args`; with any arguments where n is
 * 0. */
struct filter_rule {
    int call;
    unsigned n;
    struct scmp_arg_cmp args[3];
    uint32_t action; /* 0: SCMP_ACT_ALLOW */
};
struct filter_list {
    const struct filter_rule *rules;
    size_t n;
};

/* For rules: none of these flags, exactly this value. */
#define FILTER_WITHOUT(arg, flags)                                                                           \
    {                                                                                                        \
        arg, SCMP_CMP_MASKED_EQ, flags, 0                                                                    \
    }
#define FILTER_EQUAL(arg, value)                                                                             \
    {                                                                                                        \
        arg, SCMP_CMP_EQ, (scmp_datum_t)(value), 0                                                           \
    }

/* Irreversible, for all threads: allows these lists, memory that is never executable, the time, and exit. `otherwise` is
 * the action for other calls: SCMP_ACT_KILL_PROCESS, SCMP_ACT_ERRNO(EPERM). 0 or a negative errno value. */
int filter_enter(uint32_t otherwise, const struct filter_list *lists, size_t n);
