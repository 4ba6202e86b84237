/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include "base/fs.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BOOT_ID_MAX 64

static int64_t clock_ns(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

int64_t mono_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

int64_t wall_ns(void)
{
    return clock_ns(CLOCK_REALTIME);
}

int64_t boot_ns(void)
{
    return clock_ns(CLOCK_BOOTTIME);
}

char *boot_id(void)
{
    char *id = NULL;
    size_t size;

    if (read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", BOOT_ID_MAX, &id, &size) < 0)
        return NULL;
    id[strcspn(id, "\n")] = '\0';
    return id;
}

int64_t wall_earliest(int64_t noted_at, int64_t ago_ns)
{
    int64_t by_now = wall_ns() - ago_ns;
    return by_now < noted_at ? by_now : noted_at;
}

struct timeval timeval_of(int64_t duration_ns)
{
    if (duration_ns < 0)
        duration_ns = 0;
    /* Rounded up, so that a timer never fires before its deadline and then again at once. */
    duration_ns += NS_PER_US - 1;
    return (struct timeval){.tv_sec = duration_ns / NS_PER_S, .tv_usec = duration_ns % NS_PER_S / NS_PER_US};
}

struct timeval timeval_until(int64_t deadline_ns)
{
    return timeval_of(deadline_ns - mono_ns());
}
