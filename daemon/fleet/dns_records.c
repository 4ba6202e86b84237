/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/dns_records.h"

#include "base/address.h"
#include "base/alloc.h"
#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <netdb.h>
#include <resolv.h>
#include <strings.h>

/* Of each server: seconds until the first repetition, and attempts. resolv.conf may have less. With three servers that
 * do not answer a look-up takes 12 s. */
#define RESOLVER_WAIT_S   2
#define RESOLVER_ATTEMPTS 2
#define RESOLVER_PORT     53

#define SRV_FIXED_SIZE    6 /* bytes of priority, weight and port, before the target */

static const struct {
    ns_type type;
    const char *name;
} types[] = {
    [DNS_A] = {ns_t_a, "A"},
    [DNS_AAAA] = {ns_t_aaaa, "AAAA"},
    [DNS_SRV] = {ns_t_srv, "SRV"},
};

void dns_records_done(struct dns_records *r)
{
    free(r->items);
    *r = (struct dns_records){0};
}

/* -- The bytes of an answer -------------------------------------------------------------------------------- */

static bool record_take_address(struct dns_record *record, int family, const unsigned char *data)
{
    char text[INET6_ADDRSTRLEN];

    if (!inet_ntop(family, data, text, sizeof(text)))
        return false;
    snprintf(record->host, sizeof(record->host), family == AF_INET6 ? "[%s]" : "%s", text);
    return true;
}

/* A name of any bytes becomes a host name, or is none. */
static bool host_is_plain(const char *name)
{
    size_t size = strlen(name);

    return size > 0 && size <= HOST_SIZE_MAX && name[0] != '.' && name[0] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") == size;
}

/* 0: it is to be skipped, 1: it was taken. */
static int record_take_service(struct dns_record *record, const ns_msg *m, const ns_rr *rr)
{
    char target[NS_MAXDNAME];
    const unsigned char *data = ns_rr_rdata(*rr);

    if (ns_rr_rdlen(*rr) <= SRV_FIXED_SIZE ||
        dn_expand(ns_msg_base(*m), ns_msg_end(*m), data + SRV_FIXED_SIZE, target, sizeof(target)) < 0)
        return -EPROTO;
    record->port = ns_get16(data + 4);
    if (!host_is_plain(target) || record->port == 0)
        return 0;
    snprintf(record->host, sizeof(record->host), "%.*s", HOST_SIZE_MAX, target);
    return 1;
}

static int record_take(struct dns_record *record, enum dns_type type, const ns_msg *m, const ns_rr *rr)
{
    const int family = type == DNS_A ? AF_INET : AF_INET6;
    const size_t size = type == DNS_A ? sizeof(struct in_addr) : sizeof(struct in6_addr);

    if (ns_rr_type(*rr) != types[type].type || ns_rr_class(*rr) != ns_c_in)
        return 0;
    if (type == DNS_SRV)
        return record_take_service(record, m, rr);
    if (ns_rr_rdlen(*rr) != size)
        return -EPROTO;
    return record_take_address(record, family, ns_rr_rdata(*rr)) ? 1 : -EPROTO;
}

static bool records_have(const struct dns_records *r, const struct dns_record *record)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->items[i].port == record->port && strcasecmp(r->items[i].host, record->host) == 0)
            return true;
    return false;
}

int dns_records_parse(const unsigned char *answer, size_t size, enum dns_type type, size_t max,
                      struct dns_records *ret)
{
    ns_msg m;
    ns_rr rr;

    if (size > DNS_ANSWER_MAX || ns_initparse(answer, (int)size, &m) < 0)
        return -EPROTO;
    for (int i = 0; i < ns_msg_count(m, ns_s_an); i++) {
        struct dns_record record = {0};
        int r = ns_parserr(&m, ns_s_an, i, &rr) < 0 ? -EPROTO : record_take(&record, type, &m, &rr);
        if (r < 0)
            return r;
        if (r == 0 || records_have(ret, &record))
            continue;
        if (ret->n >= max)
            return -E2BIG;
        VEC_GROW(ret->items, ret->n, ret->cap);
        ret->items[ret->n++] = record;
    }
    return 0;
}

/* -- Resolvers ----------------------------------------------------------------------------------------------- */

static int resolver_parse(const char *text, struct in6_addr *ret_address, int *ret_port, const char **reason)
{
    const char *after_host = text[0] == '[' ? strchr(text, ']') : text;
    bool has_port = after_host && strchr(after_host, ':');
    struct url u;

    *reason = "an address and a port, such as 127.0.0.1:8600";
    if (strstr(text, "://") || strpbrk(text, "/@") || url_parse(text, &u, reason) < 0 ||
        !address_of_host(u.host, ret_address))
        return -EINVAL;
    *ret_port = has_port ? u.port : RESOLVER_PORT;
    return 0;
}

int dns_resolver_check(const char *text, const char **reason)
{
    const char *ignored;
    struct in6_addr address;
    int port;

    *reason = "the address of a name server, such as 127.0.0.1:8600";
    return resolver_parse(text, &address, &port, &ignored);
}

/* glibc takes another server than that of resolv.conf only by its state; of IPv6 in the extension that resolv.h
 * declares and resolv/res_send.c of glibc reads. res_nclose() frees that. */
static int resolver_use(struct __res_state *state, const char *resolver)
{
    struct in6_addr address;
    const char *reason;
    int port;

    if (resolver_parse(resolver, &address, &port, &reason) < 0)
        return -EINVAL;
    state->nscount = 1;
    memset(&state->nsaddr_list[0], 0, sizeof(state->nsaddr_list[0]));
    if (address_is_v4(&address)) {
        state->nsaddr_list[0] =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
        memcpy(&state->nsaddr_list[0].sin_addr, &address.s6_addr[12], sizeof(struct in_addr));
        return 0;
    }
    struct sockaddr_in6 *six = state->_u._ext.nsaddrs[0];
    if (!six)
        state->_u._ext.nsaddrs[0] = six = xcalloc(1, sizeof(*six));
    *six = (struct sockaddr_in6){
        .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port), .sin6_addr = address};
    return 0;
}

static void resolver_done(struct __res_state *state)
{
    res_nclose(state);
}

static const struct {
    int h_errno_value, err;
    const char *why;
} failures[] = {
    {HOST_NOT_FOUND, -ENOENT, "no such name (NXDOMAIN)"},
    {TRY_AGAIN, -ETIMEDOUT, "no name server gave an answer"},
    {NO_RECOVERY, -EIO, "the name server refused or failed"},
};

/* What a server answered in place of records, where one answered; NULL: no answer. */
static const char *answer_refusal(const unsigned char *answer)
{
    static const char *const codes[] = {
        [ns_r_formerr] = "the name server answered FORMERR",
        [ns_r_servfail] = "the name server answered SERVFAIL",
        [ns_r_notimpl] = "the name server answered NOTIMP",
        [ns_r_refused] = "the name server answered REFUSED",
    };
    unsigned code = answer[3] & 0xf;

    return answer[2] & 0x80 && code < ARRAY_SIZE(codes) ? codes[code] : NULL;
}

static int dns_explain(const struct __res_state *state, const unsigned char *answer, const char *name,
                       enum dns_type type, char why[static SOURCE_WHY_MAX])
{
    const char *refusal = answer_refusal(answer);
    size_t i = 0;

    if (state->res_h_errno == NO_DATA)
        return 0;
    while (i < ARRAY_SIZE(failures) - 1 && failures[i].h_errno_value != state->res_h_errno)
        i++;
    bool is_refused = refusal && failures[i].err != -ENOENT;
    snprintf(why, SOURCE_WHY_MAX, "%s (%s): %s", name, types[type].name,
             is_refused ? refusal : failures[i].why);
    return is_refused ? -EIO : failures[i].err;
}

int dns_look_up(const char *resolver, const char *name, enum dns_type type, size_t max,
                struct dns_records *ret, char why[static SOURCE_WHY_MAX])
{
    _cleanup_(resolver_done) struct __res_state state = {0};
    _cleanup_(freep) unsigned char *answer = xcalloc(DNS_ANSWER_MAX, 1);

    if (res_ninit(&state) < 0) {
        snprintf(why, SOURCE_WHY_MAX, "resolv.conf cannot be read");
        return -EIO;
    }
    state.retrans = MIN(state.retrans, RESOLVER_WAIT_S);
    state.retry = MIN(state.retry, RESOLVER_ATTEMPTS);
    if (resolver && resolver_use(&state, resolver) < 0)
        return -EINVAL;
    int size = res_nsearch(&state, name, ns_c_in, types[type].type, answer, DNS_ANSWER_MAX);
    if (size < 0)
        return dns_explain(&state, answer, name, type, why);
    int r = dns_records_parse(answer, MIN((size_t)size, (size_t)DNS_ANSWER_MAX), type, max, ret);
    if (r == -EPROTO)
        snprintf(why, SOURCE_WHY_MAX, "%s (%s): the answer of the name server is malformed", name,
                 types[type].name);
    return r;
}

int dns_look_up_addresses(const char *resolver, const char *name, size_t max, struct dns_records *ret,
                          char why[static SOURCE_WHY_MAX])
{
    char why_not[SOURCE_WHY_MAX] = "";
    int r = dns_look_up(resolver, name, DNS_A, max, ret, why);

    /* A server that does not answer this one does not answer the other one either. */
    if (r == -ETIMEDOUT || r == -E2BIG)
        return r;
    int r6 = dns_look_up(resolver, name, DNS_AAAA, max, ret, why_not);
    if (r6 == -E2BIG || ret->n == 0)
        memcpy(why, r < 0 ? why : why_not, SOURCE_WHY_MAX);
    return r6 == -E2BIG ? r6 : ret->n > 0 ? 0 : r < 0 ? r : r6;
}
