/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into profd: a file server that is down. Whoever opens a path with $HANGING_WORD in it waits as
 * long as the file $HANGING_GATE is there; the gate's size is how many have come to it.
 */
/* Both names of openat are wanted, under their own names. */
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define INTERVAL_US 10000

static long call(long number, long a, long b, long c, long d, long e, long f)
{
    static long (*real)(long number, ...);

    if (!real)
        real = (long (*)(long number, ...))dlsym(RTLD_NEXT, "syscall");
    return real(number, a, b, c, d, e, f);
}

static int open_really(int dir_fd, const char *path, int flags, mode_t mode)
{
    return (int)call(SYS_openat, dir_fd, (long)path, flags, (long)mode, 0, 0);
}

static void pass(const char *path)
{
    const char *word = getenv("HANGING_WORD"), *gate = getenv("HANGING_GATE");
    int fd = word && gate && strstr(path, word)
                 ? open_really(AT_FDCWD, gate, O_WRONLY | O_APPEND | O_CLOEXEC, 0)
                 : -1;

    if (fd < 0)
        return;
    if (write(fd, "x", 1) == 1)
        while (access(gate, F_OK) == 0)
            usleep(INTERVAL_US);
    close(fd);
}

long syscall(long number, ...)
{
    va_list ap;
    long a[6];

    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (number == SYS_openat2)
        pass((const char *)a[1]);
    return call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static mode_t mode_of(int flags, va_list ap)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

#define OPENAT(name)                                                                                         \
    int name(int dir_fd, const char *path, int flags, ...)                                                   \
    {                                                                                                        \
        va_list ap;                                                                                          \
        va_start(ap, flags);                                                                                 \
        mode_t mode = mode_of(flags, ap);                                                                    \
        va_end(ap);                                                                                          \
        pass(path);                                                                                          \
        return open_really(dir_fd, path, flags, mode);                                                       \
    }

OPENAT(openat)
OPENAT(openat64)
