/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into profd: a kernel before Linux 5.6, or a filter that does not know openat2(). */
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

long syscall(long number, ...)
{
    static long (*real)(long number, ...);
    va_list ap;
    long a[6];

    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (number == SYS_openat2) {
        errno = ENOSYS;
        return -1;
    }
    if (!real)
        real = (long (*)(long number, ...))dlsym(RTLD_NEXT, "syscall");
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
