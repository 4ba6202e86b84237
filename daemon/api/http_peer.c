/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http_internal.h"

#include <arpa/inet.h>
#include <netinet/in.h>
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
    char host[INET6_ADDRSTRLEN];

    *ret = (struct http_peer){.uid = (uid_t)-1, .gid = (gid_t)-1, .pid = -1};
    getpeername(fd, &address.any, &size);
    if (address.any.sa_family == AF_INET) {
        inet_ntop(AF_INET, &address.in.sin_addr, host, sizeof(host));
        snprintf(ret->address, sizeof(ret->address), "%s:%u", host, ntohs(address.in.sin_port));
    } else if (address.any.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &address.in6.sin6_addr, host, sizeof(host));
        snprintf(ret->address, sizeof(ret->address), "[%s]:%u", host, ntohs(address.in6.sin6_port));
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
