/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a child gives up before it looks at untrusted bytes: all descriptors but its own, memory, time, new
 * privileges, and every system call that its work does not need. A call outside the list kills the process.
 *
 * Builds with the address sanitizer keep the limits of time and file size but neither the filter nor the
 * limit of memory: the sanitizer's runtime maps terabytes and opens /proc.
 */
#pragma once

#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANDBOX_WITHOUT_FILTER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SANDBOX_WITHOUT_FILTER 1
#endif
#ifndef SANDBOX_WITHOUT_FILTER
#define SANDBOX_WITHOUT_FILTER 0
#endif

struct sandbox {
    int fds;           /* descriptors 0 to fds - 1 stay */
    int64_t cpu_s;     /* SIGXCPU after that */
    int64_t file_size; /* SIGXFSZ beyond that */
    int64_t memory;    /* address space */
    int clone_from_fd; /* the one FICLONE that stays possible */
    int clone_to_fd;
};

/* Not to be undone. */
int sandbox_enter(const struct sandbox *s);
