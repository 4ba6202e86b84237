/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/hosts.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/fleet/url.h"
#include <errno.h>

#define LOOK_UP_NS (60 * NS_PER_S)
#define PORTS      (1 << 16)

struct host {
    char name[HOST_SIZE_MAX + 3];
    struct name_answer answer;
};

struct hosts {
    struct host *hosts; /* sorted by name */
    size_t n, cap;
    uint16_t *ports;
    size_t n_ports;
    bool has_port[PORTS];
    bool has_tls;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct host *)a)->name, ((const struct host *)b)->name);
}

static void add(struct hosts *h, const struct order_worker *workers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct in6_addr address;
        const char *reason;
        struct url url;

        if (url_parse(workers[i].url, &url, &reason) < 0)
            continue;
        h->n_ports += !h->has_port[url.port];
        h->has_port[url.port] = true;
        h->has_tls = h->has_tls || streq(url.scheme, "https");
        if (address_of_host(url.host, &address))
            continue;
        VEC_GROW(h->hosts, h->n, h->cap);
        snprintf(h->hosts[h->n++].name, sizeof(h->hosts->name), "%s", url.host);
    }
}

static void drop_duplicates(struct hosts *h)
{
    size_t n = 0;

    if (h->n > 0)
        qsort(h->hosts, h->n, sizeof(*h->hosts), by_name);
    for (size_t i = 0; i < h->n; i++)
        if (n == 0 || !streq(h->hosts[n - 1].name, h->hosts[i].name))
            h->hosts[n++] = h->hosts[i];
    h->n = n;
}

static void list_ports(struct hosts *h)
{
    size_t n = 0;

    h->ports = xcalloc(h->n_ports, sizeof(*h->ports));
    for (size_t port = 0; port < PORTS; port++)
        if (h->has_port[port])
            h->ports[n++] = (uint16_t)port;
}

struct hosts *hosts_look_up(const struct order *o)
{
    struct hosts *h = xcalloc(1, sizeof(*h));
    int64_t deadline_ns = mono_ns() + LOOK_UP_NS;

    add(h, o->targets, o->n_targets);
    add(h, o->warm, o->n_warm);
    add(h, o->watched, o->n_watched);
    drop_duplicates(h);
    list_ports(h);
    for (size_t i = 0; i < h->n; i++)
        if (mono_ns() < deadline_ns)
            name_look_up(h->hosts[i].name, &h->hosts[i].answer);
        else
            h->hosts[i].answer = (struct name_answer){.err = -ETIMEDOUT};
    return h;
}

struct hosts *hosts_free(struct hosts *h)
{
    if (!h)
        return NULL;
    free(h->hosts);
    free(h->ports);
    free(h);
    return NULL;
}

const struct name_answer *hosts_find(const struct hosts *h, const char *host)
{
    struct host key = {0};

    snprintf(key.name, sizeof(key.name), "%s", host);
    const struct host *found = h->n > 0 ? bsearch(&key, h->hosts, h->n, sizeof(key), by_name) : NULL;
    return found ? &found->answer : NULL;
}

void hosts_fix_names(const struct hosts *h, struct caller *c)
{
    for (size_t i = 0; i < h->n; i++)
        caller_fix_name(c, h->hosts[i].name, &h->hosts[i].answer);
}

const uint16_t *hosts_ports(const struct hosts *h, size_t *ret_n)
{
    *ret_n = h->n_ports;
    return h->ports;
}

bool hosts_have_tls(const struct hosts *h)
{
    return h->has_tls;
}
