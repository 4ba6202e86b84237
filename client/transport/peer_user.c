/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/peer_user.h"

#include "base/alloc.h"
#include "base/fs.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* 100,000 sockets: a host with more has users that this cannot tell apart. */
#define TABLE_BYTES_MAX (16 << 20)

/* Addresses are printed as the number in memory, ports as numbers. */
static bool peer_user_is_end(uint32_t address, unsigned port, const struct sockaddr_in *end)
{
    return address == end->sin_addr.s_addr && port == ntohs(end->sin_port);
}

uid_t peer_user_find(const char *table, const struct sockaddr_in *end, const struct sockaddr_in *other_end)
{
    for (const char *line = table; line; line = strchr(line, '\n')) {
        uint32_t address, other_address;
        unsigned port, other_port, state, uid;

        line += *line == '\n';
        /* sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid */
        if (sscanf(line, "%*u: %8x:%4x %8x:%4x %2x %*8x:%*8x %*2x:%*8x %*8x %u", &address, &port,
                   &other_address, &other_port, &state, &uid) == 6 &&
            peer_user_is_end(address, port, end) && peer_user_is_end(other_address, other_port, other_end))
            return uid;
    }
    return (uid_t)-1;
}

uid_t peer_user(int fd)
{
    struct sockaddr_in own = {0}, peer = {0};
    socklen_t own_size = sizeof(own), peer_size = sizeof(peer);
    _cleanup_(freep) char *table = NULL;
    size_t size;

    if (getsockname(fd, (struct sockaddr *)&own, &own_size) < 0 ||
        getpeername(fd, (struct sockaddr *)&peer, &peer_size) < 0 || own.sin_family != AF_INET ||
        read_file(AT_FDCWD, "/proc/net/tcp", TABLE_BYTES_MAX, &table, &size) < 0)
        return (uid_t)-1;
    return peer_user_find(table, &peer, &own);
}
