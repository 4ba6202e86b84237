/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few macros that every module uses: scope-bound cleanup, transfer of ownership, array sizes.
 *
 * A cleanup function accepts NULL (or -1 for descriptors) and half-built objects.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define _cleanup_(f)   __attribute__((cleanup(f)))
#define _printf_(a, b) __attribute__((format(printf, a, b)))
#define _unused_       __attribute__((unused))

#define ARRAY_SIZE(a)  (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)      ((a) < (b) ? (a) : (b))
#define MAX(a, b)      ((a) > (b) ? (a) : (b))

/* The struct that contains the member at p. */
#define container_of(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

/* Transfers a pointer or descriptor to the caller, so that the cleanup finds NULL or -1. */
#define TAKE_PTR(p)                                                                                          \
    ({                                                                                                       \
        __typeof__(p) *_pp = &(p), _taken = *_pp;                                                            \
        *_pp = NULL;                                                                                         \
        _taken;                                                                                              \
    })
#define TAKE_FD(fd)                                                                                          \
    ({                                                                                                       \
        int *_pfd = &(fd), _taken = *_pfd;                                                                   \
        *_pfd = -1;                                                                                          \
        _taken;                                                                                              \
    })

/* Defines TYPE *function##p(TYPE **) for _cleanup_, from a destructor that accepts NULL. */
#define DEFINE_CLEANUP(type, function)                                                                       \
    static inline void function##p(type *p)                                                                  \
    {                                                                                                        \
        if (*p)                                                                                              \
            function(*p);                                                                                    \
    }

static inline void freep(void *p)
{
    free(*(void **)p);
}

static inline void closep(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void fclosep(FILE **f)
{
    if (*f)
        fclose(*f);
}

static inline bool streq(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static inline bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

static inline bool ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s), k = strlen(suffix);
    return n >= k && memcmp(s + n - k, suffix, k) == 0;
}
