/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How profd may be addressed, as its configuration says it: the addresses that it listens on, and the names
 * that it goes by. Opens nothing: that is daemon/api/listen.h.
 */
#pragma once

#include "base/util.h"
#include <netinet/in.h>
#include <sys/socket.h>

struct listen_address {
    struct sockaddr_storage address;
    socklen_t size;
    struct in6_addr ip; /* the same; IPv4 as ::ffff:a.b.c.d */
    char text[64];
};

/* Of one profd. */
#define LISTEN_MAX 16

/* "127.0.0.1:9460", "[::1]:9460", "localhost:9460", separated by spaces or commas. -EINVAL with the reason
 * for anything else. Pure. */
int listen_addresses_parse(const char *text, struct listen_address *ret, size_t max, size_t *ret_n,
                           const char **reason);
/* Of a listening TCP socket. */
int listen_address_of(int fd, struct listen_address *ret);

#define HOST_NAME_MAX_BYTES 253

/* A configured name, without a port: letters, digits, '-', '_' and '.'. */
bool host_is_name(const char *name);
