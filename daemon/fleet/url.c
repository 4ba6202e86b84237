/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/url.h"

#include "base/address.h"
#include "base/alloc.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <strings.h>

static const struct {
    const char *name;
    int port; /* 0: must be given */
    bool http;
} schemes[] = {
    {"http", 80, true},
    {"https", 443, true},
    {"grpc", 0, false},
    {"grpcs", 0, false},
};

static int url_fail(const char **reason, const char *text)
{
    *reason = text;
    return -EINVAL;
}

static int parse_scheme(const char **text, struct url *u, const char **reason)
{
    const char *colon = strstr(*text, "://");
    if (!colon) {
        u->scheme = schemes[0].name;
        u->port = schemes[0].port;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
        size_t n = strlen(schemes[i].name);
        if ((size_t)(colon - *text) != n || strncasecmp(*text, schemes[i].name, n) != 0)
            continue;
        u->scheme = schemes[i].name;
        u->port = schemes[i].port;
        *text = colon + 3;
        return 0;
    }
    return url_fail(reason, "its scheme is neither http nor https");
}

/* Removes "@digits" from the end of text[0..*n), which is a data-parallel rank and never a host. */
static bool strip_rank(const char *text, size_t *n, int *rank)
{
    size_t i = *n;
    while (i > 0 && isdigit((unsigned char)text[i - 1]))
        i--;
    if (i == 0 || i == *n || text[i - 1] != '@' || *n - i > 6)
        return false;
    *rank = atoi(text + i);
    *n = i - 1;
    return true;
}

static int parse_port(const char *text, size_t n, int *ret)
{
    int port = 0;
    if (n == 0 || n > 5)
        return -EINVAL;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)text[i]))
            return -EINVAL;
        port = port * 10 + (text[i] - '0');
    }
    if (port < 1 || port > 65535)
        return -EINVAL;
    *ret = port;
    return 0;
}

static int parse_ipv6(const char *text, size_t n, struct url *u, const char **reason)
{
    char raw[INET6_ADDRSTRLEN], canonical[INET6_ADDRSTRLEN];
    struct in6_addr address;

    if (n >= sizeof(raw))
        return url_fail(reason, "its IPv6 address is malformed");
    memcpy(raw, text, n);
    raw[n] = '\0';
    if (inet_pton(AF_INET6, raw, &address) != 1 ||
        !inet_ntop(AF_INET6, &address, canonical, sizeof(canonical)))
        return url_fail(reason, "its IPv6 address is malformed");
    snprintf(u->host, sizeof(u->host), "[%s]", canonical);
    return 0;
}

static int parse_name(const char *text, size_t n, struct url *u, const char **reason)
{
    if (n == 0)
        return url_fail(reason, "it names no host");
    if (n > HOST_SIZE_MAX)
        return url_fail(reason, "its host name is too long");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (!isalnum(c) && c != '.' && c != '-' && c != '_')
            return url_fail(reason, "its host name has a character that host names do not have");
        u->host[i] = (char)tolower(c);
    }
    u->host[n] = '\0';
    return 0;
}

static int parse_authority(const char *text, size_t n, struct url *u, const char **reason)
{
    const char *port = NULL;
    int r;

    strip_rank(text, &n, &u->rank);
    if (memchr(text, '@', n))
        return url_fail(reason, "it has a user name in it; credentials belong into profd.conf (token_file)");
    if (n > 0 && text[0] == '[') {
        const char *end = memchr(text, ']', n);
        if (!end)
            return url_fail(reason, "its IPv6 address is malformed");
        r = parse_ipv6(text + 1, (size_t)(end - text - 1), u, reason);
        if (r == 0 && end + 1 < text + n && end[1] != ':')
            return url_fail(reason, "its port is malformed");
        port = end + 1 < text + n ? end + 2 : NULL;
    } else {
        const char *colon = memchr(text, ':', n);
        r = parse_name(text, colon ? (size_t)(colon - text) : n, u, reason);
        port = colon ? colon + 1 : NULL;
    }
    if (r < 0)
        return r;
    if (port && parse_port(port, (size_t)(text + n - port), &u->port) < 0)
        return url_fail(reason, "its port is not a number from 1 to 65535");
    if (u->port == 0)
        return url_fail(reason, "it names no port");
    return 0;
}

int url_parse(const char *text, struct url *ret, const char **reason)
{
    struct url u = {.rank = -1};
    size_t size = strlen(text);

    if (size >= URL_SIZE_MAX)
        return url_fail(reason, "it is too long");
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 0x7f)
            return url_fail(reason, "it has a space, control or non-ASCII character in it");
    if (strpbrk(text, "?#\\\"<>"))
        return url_fail(reason, "it has more than scheme, host, port and path");
    int r = parse_scheme(&text, &u, reason);
    if (r < 0)
        return r;
    size_t n = strcspn(text, "/");
    r = parse_authority(text, n, &u, reason);
    if (r < 0)
        return r;
    text += n;
    n = strlen(text);
    do {
        while (n > 0 && text[n - 1] == '/')
            n--;
    } while (strip_rank(text, &n, &u.rank));
    memcpy(u.path, text, n);
    *ret = u;
    return 0;
}

char *url_format(const struct url *u)
{
    return xasprintf("%s://%s:%d%s", u->scheme, u->host, u->port, u->path);
}

char *url_host_port(const char *host, int port)
{
    return xasprintf(strchr(host, ':') && host[0] != '[' ? "[%s]:%d" : "%s:%d", host, port);
}

int url_normalise(const char *text, char **ret, const char **reason)
{
    struct url u;
    int r = url_parse(text, &u, reason);
    if (r == 0)
        *ret = url_format(&u);
    return r;
}

bool url_is_http(const struct url *u)
{
    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
        if (streq(schemes[i].name, u->scheme))
            return schemes[i].http;
    return false;
}

bool host_is_wildcard(const char *host)
{
    struct in6_addr ip;
    return address_of_host(host, &ip) && address_is_wildcard(&ip);
}

bool host_is_loopback(const char *host)
{
    struct in6_addr ip;

    if (streq(host, "localhost") || ends_with(host, ".localhost"))
        return true;
    return address_of_host(host, &ip) && (address_is_loopback(&ip) || address_is_wildcard(&ip));
}

bool url_is_loopback(const char *url)
{
    struct url u;
    const char *reason;
    return url_parse(url, &u, &reason) == 0 && host_is_loopback(u.host);
}

char *url_with_host_of(const char *url, const char *other)
{
    struct url u, o;
    const char *reason;

    if (url_parse(url, &u, &reason) < 0 || url_parse(other, &o, &reason) < 0)
        return xstrdup(url);
    memcpy(u.host, o.host, sizeof(u.host));
    return url_format(&u);
}

bool url_path_is_plain(const char *path)
{
    for (const char *p = path; *p; p++)
        if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f || *p == '#')
            return false;
    return *path == '/';
}

char *url_join(const char *base, const char *path)
{
    size_t n = strlen(base);
    while (n > 0 && base[n - 1] == '/')
        n--;
    return xasprintf("%.*s%s", (int)n, base, path);
}
