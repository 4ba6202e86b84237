/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose process is at the other end of a TCP connection over loopback: the kernel lists the user of each socket of the network
 * namespace in /proc/net/tcp.
 */
#pragma once

#include "base/util.h"
#include <netinet/in.h>
#include <sys/types.h>

/* The user of the socket with these two ends in the text of /proc/net/tcp; (uid_t)-1: it is not listed. Pure. */
uid_t peer_user_find(const char *table, const struct sockaddr_in *end, const struct sockaddr_in *other_end);
/* Of the peer of a connection over IPv4; (uid_t)-1: unknown, as of a client that is gone. */
uid_t peer_user(int fd);
