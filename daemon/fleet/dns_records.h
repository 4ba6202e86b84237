/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of DNS for sources: all addresses of a name (A, AAAA), the servers of a service (SRV, RFC 2782).
 *
 * dns_look_up() asks the name servers of resolv.conf(5), or one of profd.conf, by glibc's resolver, which repeats a
 * truncated answer over TCP, follows aliases and checks that an answer belongs to its question. It blocks: on a thread
 * of the offload only, with bounded waits. dns_records_parse() is pure over the bytes of an answer.
 */
#pragma once

#include "base/util.h"
#include "daemon/fleet/source.h"
#include "daemon/fleet/url.h"

/* Of a message over TCP. */
#define DNS_ANSWER_MAX 65535

enum dns_type { DNS_A, DNS_AAAA, DNS_SRV };

struct dns_record {
    char host[HOST_SIZE_MAX + 3]; /* as in URLs: "10.0.0.1", "[fd00::1]", "node7.example.com" */
    int port;                     /* SRV only */
};

struct dns_records {
    struct dns_record *items;
    size_t n, cap;
};
void dns_records_done(struct dns_records *r);

/* Adds the records of that type in an answer; others, such as aliases, are skipped. -EPROTO: malformed. -E2BIG: more
 * than max records. A name that is no host name, and SRV's "." (no such service), are skipped. */
int dns_records_parse(const unsigned char *answer, size_t size, enum dns_type type, size_t max,
                      struct dns_records *ret);

/* "127.0.0.1:8600", "[::1]:53", a port is optional. -EINVAL with *reason. Pure. */
int dns_resolver_check(const char *text, const char **reason);

/* Asks; resolver NULL: those of resolv.conf. 0, also where the name has no such records; -ENOENT: there is no such name;
 * -ETIMEDOUT, -EIO, -EPROTO, -E2BIG; with words in why. */
int dns_look_up(const char *resolver, const char *name, enum dns_type type, size_t max,
                struct dns_records *ret, char why[static SOURCE_WHY_MAX]);
/* A and AAAA. The error of one of them only where the other has no records. */
int dns_look_up_addresses(const char *resolver, const char *name, size_t max, struct dns_records *ret,
                          char why[static SOURCE_WHY_MAX]);
