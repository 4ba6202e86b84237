/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http_internal.h"

#include "base/address.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

void http_peer_read(int fd, struct http_peer *ret)
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
        struct sockaddr_un un;
    } address = {0};
    socklen_t size = sizeof(address);
    char host[ADDRESS_TEXT_SIZE];

    *ret = (struct http_peer){.uid = (uid_t)-1, .gid = (gid_t)-1, .pid = -1};
    getpeername(fd, &address.any, &size);
    if (address_of_socket(&address.any, &ret->ip)) {
        in_port_t port = address.any.sa_family == AF_INET ? address.in.sin_port : address.in6.sin6_port;
        address_format(&ret->ip, host);
        snprintf(ret->address, sizeof(ret->address), "%s:%u", host, ntohs(port));
    } else if (address.any.sa_family == AF_UNIX) {
        struct ucred cred;
        size = sizeof(cred);
        snprintf(ret->address, sizeof(ret->address), "unix");
        ret->local = true;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) == 0) {
            ret->uid = cred.uid;
            ret->gid = cred.gid;
            ret->pid = cred.pid;
        }
    }
}

bool http_socket_is_tcp(int fd)
{
    int domain = AF_UNSPEC;
    socklen_t size = sizeof(domain);
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain != AF_UNIX;
}
