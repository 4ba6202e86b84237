/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/arrival.h"

#include "base/clock.h"
#include <sys/socket.h>
#include <time.h>

#define CHECK_PERIOD_NS (100 * NS_PER_MS)
#define CHECK_TRIES     3 /* one of them is not interrupted */

void arrival_enable(int fd)
{
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
}

/* The offset as it is between two readings of the monotonic clock that are close to each other. */
static void arrival_check_offset(struct arrival_clock *c)
{
    int64_t closest_ns = INT64_MAX;

    for (size_t i = 0; i < CHECK_TRIES; i++) {
        int64_t before_ns = mono_ns(), wall = wall_ns(), after_ns = mono_ns();
        if (after_ns - before_ns < closest_ns) {
            closest_ns = after_ns - before_ns;
            c->offset_ns = wall - before_ns - closest_ns / 2;
            c->checked_ns = after_ns;
        }
    }
}

ssize_t arrival_receive(struct arrival_clock *c, int fd, void *bytes, size_t size, int64_t earliest_ns,
                        int64_t *ret_ns)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec data = {bytes, size};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(fd, &message, 0);
    int64_t now_ns = mono_ns();
    struct timespec at;

    *ret_ns = now_ns;
    struct cmsghdr *header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (!header || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_TIMESTAMPNS)
        return n;
    memcpy(&at, CMSG_DATA(header), sizeof(at));
    if (c->checked_ns == 0 || now_ns - c->checked_ns > CHECK_PERIOD_NS)
        arrival_check_offset(c);
    *ret_ns = MAX(MIN(at.tv_sec * NS_PER_S + at.tv_nsec - c->offset_ns, now_ns), MIN(earliest_ns, now_ns));
    return n;
}
