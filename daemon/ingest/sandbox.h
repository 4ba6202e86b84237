/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a child gives up before it looks at untrusted bytes: all descriptors but its own, memory, time, new
 * privileges, capabilities, all paths, and every system call that its work does not need. A call outside the
 * list kills the process. Threads are begun after that, and so are bound by it as well.
 *
 * Builds with the address sanitizer keep the limits of time and file size but neither the filter nor the
 * limit of memory (daemon/sandbox/sanitized.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sandbox {
    int fds;           /* descriptors 0 to fds - 1 stay */
    int64_t cpu_s;     /* SIGXCPU after that, of all threads together; a second later SIGKILL */
    int64_t file_size; /* writing beyond that fails */
    int64_t
        memory;   /* of its own: heap and stacks; mapped files do not count. Addresses get a wide multiple */
    bool threads; /* may begin threads */
    int clone_from_fd; /* the one FICLONE that stays possible */
    int clone_to_fd;
};

/*
 * Before sandbox_enter(), with one thread: so many more, and not one beyond. The kernel counts a user's
 * threads in each user namespace: in one of its own a process has none but its own. It binds no root, nor
 * where such namespaces are not allowed; there the cgroup does (cgroup.h).
 */
void sandbox_bound_threads(unsigned max);

/* Not to be undone. stderr is closed with it: what was to be said there was about setting up. */
int sandbox_enter(const struct sandbox *s);
