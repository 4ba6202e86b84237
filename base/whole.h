/* SPDX-License-Identifier: Apache-2.0 */
/* All bytes of a stretch of a file, however many calls that takes. Only this header: the trace engine does
 * not link base. */
#pragma once

#include "base/util.h"
#include <errno.h>
#include <sys/types.h>

/* The bytes read, fewer than size only at the file's end; or -errno. */
static inline ssize_t pread_whole(int fd, void *data, size_t size, uint64_t place)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = pread(fd, (char *)data + done, size - done, (off_t)(place + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

/* 0 or -errno. */
static inline int pwrite_whole(int fd, const void *data, size_t size, uint64_t place)
{
    size_t done = 0;

    while (done < size) {
        ssize_t n = pwrite(fd, (const char *)data + done, size - done, (off_t)(place + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        done += (size_t)n;
    }
    return 0;
}
