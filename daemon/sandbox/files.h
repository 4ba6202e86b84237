/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox that a child enters before it reads untrusted bytes: without other descriptors, new privileges,
 * capabilities, paths, and system calls that its work does not need, and with limits of memory and time. A call
 * outside the list kills the process. Threads are started in the sandbox, and so are bound by it.
 *
 * Builds with the address sanitizer keep the limits of time and file size but neither the filter nor the
 * limit of memory (daemon/sandbox/restrict.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sandbox {
    int fds;           /* descriptors 0 to fds - 1 stay */
    int64_t cpu_s;     /* SIGXCPU after that, of all threads together; a second later SIGKILL */
    int64_t file_size; /* writing beyond that fails */
    int64_t memory;    /* heap and stacks; mapped files do not count. The address space gets a multiple */
    int64_t mapped;    /* bytes of files that are mapped at a time, in addition to one of file_size */
    bool threads;      /* may start threads */
    int clone_from_fd; /* the only permitted FICLONE */
    int clone_to_fd;
};

/*
 * Limits the number of additional threads. Before sandbox_enter(), with one thread. The kernel counts a user's
 * threads in each user namespace: in a new one a process has only its own. Root is not limited, nor is a process
 * where such namespaces are not allowed; there the cgroup is the limit (cgroup.h).
 */
void sandbox_bound_threads(unsigned max);

/* Irreversible. stderr is closed as well: it is for errors of the setup only. */
int sandbox_enter(const struct sandbox *s);
