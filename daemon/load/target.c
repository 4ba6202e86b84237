/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/target.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/curl_handle.h"
#include "daemon/fleet/credentials.h"
#include "daemon/fleet/curl_names.h"
#include "daemon/fleet/url.h"
#include "version.h"
#include <errno.h>

#define RESOLVE_NS (60 * NS_PER_S)
#define PORTS      (1 << 16)
#define HTTP_PORT  80

/* -- Host names and ports ----------------------------------------------------------------------------- */

struct resolved_host {
    char name[HOST_SIZE_MAX + 3];
    struct name_answer answer;
};

struct resolved_hosts {
    struct resolved_host *hosts; /* sorted by name */
    size_t n, cap;
    uint16_t *ports;
    size_t n_ports;
    bool has_port[PORTS];
    bool has_tls;
};

static int compare_host_names(const void *a, const void *b)
{
    return strcmp(((const struct resolved_host *)a)->name, ((const struct resolved_host *)b)->name);
}

static void hosts_add(struct resolved_hosts *h, const struct load_workers *workers)
{
    for (size_t i = 0; i < workers->n; i++) {
        struct in6_addr address;
        const char *reason;
        struct url url;

        if (url_parse(workers->items[i].url, &url, &reason) < 0)
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

struct resolved_hosts *hosts_resolve(const struct load_spec *spec)
{
    struct resolved_hosts *h = xcalloc(1, sizeof(*h));
    int64_t deadline_ns = mono_ns() + RESOLVE_NS;
    size_t n_names = 0, n_ports = 0;

    hosts_add(h, &spec->targets);
    hosts_add(h, &spec->warm);
    hosts_add(h, &spec->watched);
    if (h->n > 0)
        qsort(h->hosts, h->n, sizeof(*h->hosts), compare_host_names);
    for (size_t i = 0; i < h->n; i++)
        if (n_names == 0 || !streq(h->hosts[n_names - 1].name, h->hosts[i].name))
            h->hosts[n_names++] = h->hosts[i];
    h->n = n_names;
    h->ports = xcalloc(h->n_ports, sizeof(*h->ports));
    for (size_t port = 0; port < PORTS; port++)
        if (h->has_port[port])
            h->ports[n_ports++] = (uint16_t)port;
    for (size_t i = 0; i < h->n; i++)
        if (mono_ns() < deadline_ns)
            name_look_up(h->hosts[i].name, &h->hosts[i].answer);
        else
            h->hosts[i].answer = (struct name_answer){.err = -ETIMEDOUT};
    return h;
}

struct resolved_hosts *hosts_free(struct resolved_hosts *h)
{
    if (!h)
        return NULL;
    free(h->hosts);
    free(h->ports);
    free(h);
    return NULL;
}

void hosts_fix_names(const struct resolved_hosts *h, struct caller *c)
{
    for (size_t i = 0; i < h->n; i++)
        caller_fix_name(c, h->hosts[i].name, &h->hosts[i].answer);
}

const uint16_t *hosts_ports(const struct resolved_hosts *h, size_t *ret_n)
{
    *ret_n = h->n_ports;
    return h->ports;
}

bool hosts_have_tls(const struct resolved_hosts *h)
{
    return h->has_tls;
}

/* -- Targets ------------------------------------------------------------------------------------------ */

static const struct resolved_host *hosts_find(const struct resolved_hosts *hosts, const char *name)
{
    struct resolved_host key = {0};

    snprintf(key.name, sizeof(key.name), "%s", name);
    return hosts->n > 0 ? bsearch(&key, hosts->hosts, hosts->n, sizeof(key), compare_host_names) : NULL;
}

/* libcurl reports a name without addresses with the first request. */
static void load_target_resolve(struct load_target *t, const struct resolved_hosts *hosts)
{
    const char *reason;
    struct url url;

    if (url_parse(t->request_url, &url, &reason) < 0)
        return;
    const struct resolved_host *host = hosts_find(hosts, url.host);
    t->is_unresolved = host && host->answer.n == 0;
    if (host && !t->is_unresolved)
        t->addresses = curl_addresses(url.host, url.port, &host->answer);
}

static void load_target_prepare_head(struct load_target *t, const char *worker_url,
                                     const struct resolved_hosts *hosts)
{
    const struct resolved_host *host;
    struct in6_addr address;
    const char *reason;
    struct url url;
    size_t size;

    if (url_parse(worker_url, &url, &reason) < 0 || !streq(url.scheme, "http"))
        return;
    const char *path = strchr(t->request_url + strlen("http://"), '/');
    if (!path || !url_path_is_plain(path))
        return;
    host = hosts_find(hosts, url.host);
    t->sockets = xcalloc(NAME_ADDRESSES_MAX, sizeof(*t->sockets));
    if (address_of_host(url.host, &address))
        address_to_socket(&address, url.port, &t->sockets[t->n_sockets++]);
    for (size_t i = 0; host && i < host->answer.n; i++)
        address_to_socket(&host->answer.addresses[i], url.port, &t->sockets[t->n_sockets++]);
    t->host_port = url_host_port(url.host, url.port);
    FILE *out = xmemstream(&t->request_head, &size);
    fprintf(out,
            "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: profd-load/" PROFD_VERSION "\r\nAccept: */*\r\n",
            path, url.port == HTTP_PORT ? url.host : t->host_port);
    for (const struct curl_slist *h = t->headers; h; h = h->next)
        if (h->data[strcspn(h->data, ":") + 1]) /* without a value libcurl leaves the field out */
            fprintf(out, "%s\r\n", h->data);
    fprintf(out, "Content-Length: ");
    fclose(out);
}

static int load_target_init(struct load_target *t, const struct load_spec *spec,
                            const struct resolved_hosts *hosts, const struct load_worker *worker,
                            char **ret_error)
{
    const struct workload *w = &spec->workload;
    const struct server_api *api = api_of(w->api, worker->engine);
    CURL *probe = curl_easy_init();
    char *token = NULL;

    *t = (struct load_target){.url = xstrdup(worker->url),
                              .request_url = url_join(worker->url, w->path ? w->path : api->path),
                              .pid = worker->pid,
                              .api = api,
                              .origin = -1,
                              .credentials = &spec->credentials};
    curl_list_add(&t->headers, "Expect:");
    curl_list_add(&t->headers, "Content-Type: application/json");
    load_target_resolve(t, hosts);
    int r = probe ? call_credentials_use(&spec->credentials, false, probe, &token, ret_error) : -ENOMEM;
    if (r == 0 && token)
        curl_list_add_token(&t->headers, NULL, token);
    secret_free(token);
    curl_easy_cleanup(probe);
    load_target_prepare_head(t, worker->url, hosts);
    return r;
}

int load_targets_new(const struct load_spec *spec, const struct resolved_hosts *hosts,
                     const struct load_workers *workers, struct load_target **ret, char **ret_error)
{
    struct load_target *targets = xcalloc(workers->n, sizeof(*targets));
    int r = 0;

    for (size_t i = 0; i < workers->n && r == 0; i++)
        r = load_target_init(&targets[i], spec, hosts, &workers->items[i], ret_error);
    if (r < 0)
        load_targets_free(targets, workers->n);
    else
        *ret = targets;
    return r;
}

void load_targets_free(struct load_target *targets, size_t n)
{
    for (size_t i = 0; i < n && targets; i++) {
        free(targets[i].url);
        free(targets[i].request_url);
        curl_slist_free_all(targets[i].headers);
        curl_slist_free_all(targets[i].addresses);
        free(targets[i].host_port);
        secret_free(targets[i].request_head);
        free(targets[i].sockets);
    }
    free(targets);
}
