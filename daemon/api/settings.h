/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of the API: where it listens, by which names it may be addressed, and which files control access. The configuration owns and fills the struct; the API borrows it. Opens nothing:
 * sockets are listen.h's, files are access.c's.
 */
#pragma once

#include "base/address.h"
#include <sys/socket.h>

enum bus_kind { BUS_KIND_NONE, BUS_KIND_SYSTEM, BUS_KIND_SESSION };

struct api_settings {
    char *socket, *group;
    char *listen; /* "127.0.0.1:9460 [::1]:9460"; NULL: no TCP */
    int bus;      /* enum bus_kind */
    int64_t connections_max;
    char *tokens_file; /* these are NULL where they are not set */
    char *cert_file, *key_file, *client_ca_file;
    char *perfetto;  /* URL of the Perfetto UI to which the web page hands traces */
    bool plain_http; /* tokens may pass through other networks than loopback unencrypted */
    char **hosts;    /* further names of this profd */
    size_t n_hosts, cap_hosts;
    struct address_range *open_to; /* addresses that may read without a token */
    size_t n_open_to, cap_open_to;
};

void api_settings_done(struct api_settings *s);

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

/* The longest name of a host, in bytes. */
#define HOST_NAME_MAX_BYTES 253

/* A configured name, without a port: letters, digits, '-', '_' and '.'. */
bool host_is_name(const char *name);
