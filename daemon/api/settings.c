/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/settings.h"

#include "base/alloc.h"
#include "base/text.h"
#include <errno.h>
#include <event2/util.h>
#include <netdb.h>

void api_settings_done(struct api_settings *s)
{
    char *const texts[] = {s->socket,    s->group,    s->listen,         s->tokens_file,
                           s->cert_file, s->key_file, s->client_ca_file, s->perfetto};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        free(texts[i]);
    for (size_t i = 0; i < s->n_hosts; i++)
        free(s->hosts[i]);
    free(s->hosts);
    free(s->open_to);
    *s = (struct api_settings){0};
}

static bool listen_has_port(const struct sockaddr *address)
{
    return address->sa_family == AF_INET ? ((const struct sockaddr_in *)address)->sin_port
                                         : ((const struct sockaddr_in6 *)address)->sin6_port;
}

static int listen_address_parse(const char *text, struct listen_address *ret, const char **reason)
{
    static const char local_name[] = "localhost:";
    struct listen_address a = {.size = sizeof(a.address)};
    char numeric[sizeof(a.text)];
    int size = sizeof(a.address);

    snprintf(numeric, sizeof(numeric), "%s%s", starts_with(text, local_name) ? "127.0.0.1:" : "",
             starts_with(text, local_name) ? text + strlen(local_name) : text);
    if (strlen(text) >= sizeof(numeric) ||
        evutil_parse_sockaddr_port(numeric, (struct sockaddr *)&a.address, &size) < 0 ||
        !listen_has_port((struct sockaddr *)&a.address)) {
        *reason = "must be an address and a port, such as 127.0.0.1:9460";
        return -EINVAL;
    }
    a.size = (socklen_t)size;
    address_of_socket((struct sockaddr *)&a.address, &a.ip);
    strcpy(a.text, text);
    *ret = a;
    return 0;
}

int listen_address_of(int fd, struct listen_address *ret)
{
    struct listen_address a = {.size = sizeof(a.address)};
    const struct sockaddr *address = (struct sockaddr *)&a.address;
    char host[INET6_ADDRSTRLEN], port[8];

    if (getsockname(fd, (struct sockaddr *)&a.address, &a.size) < 0)
        return -errno;
    if (!address_of_socket(address, &a.ip) ||
        getnameinfo(address, a.size, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
        return -EINVAL;
    snprintf(a.text, sizeof(a.text), address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    *ret = a;
    return 0;
}

int listen_addresses_parse(const char *text, struct listen_address *ret, size_t max, size_t *ret_n,
                           const char **reason)
{
    const char *word;
    size_t n = 0, size;

    while ((size = words_next(&text, &word)) > 0) {
        _cleanup_(freep) char *address = xstrndup(word, size);
        if (n == max) {
            *reason = "must be at most 16 addresses";
            return -EINVAL;
        }
        if (listen_address_parse(address, &ret[n++], reason) < 0)
            return -EINVAL;
    }
    *ret_n = n;
    return 0;
}

bool host_is_name(const char *name)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t n = strlen(name);
    return n > 0 && n <= HOST_NAME_MAX_BYTES && strspn(name, allowed) == n;
}
