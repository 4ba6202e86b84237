/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/wire_place.h"

#include "base/address.h"
#include "base/alloc.h"
#include "daemon/fleet/credentials.h"
#include "daemon/fleet/url.h"
#include <errno.h>
#include <netdb.h>

#define ADDRESSES_MAX 16

static void add(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer)
        *list = longer;
}

/* What cannot be looked up is libcurl's to report, with the first request. */
static void look_up(struct wire_place *p, const char *text)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL, *a;
    char *line = NULL, address[ADDRESS_TEXT_SIZE];
    struct in6_addr ip;
    const char *reason;
    struct url url;
    size_t size, n = 0;

    if (url_parse(text, &url, &reason) < 0 || address_of_host(url.host, &ip) ||
        getaddrinfo(url.host, NULL, &hints, &found) != 0)
        return;
    FILE *out = xmemstream(&line, &size);
    fprintf(out, "%s:%d:", url.host, url.port);
    for (a = found; a && n < ADDRESSES_MAX; a = a->ai_next) {
        if (!address_of_socket(a->ai_addr, &ip))
            continue;
        address_format(&ip, address);
        fprintf(out, "%s%s", n++ ? "," : "", address);
    }
    fclose(out);
    freeaddrinfo(found);
    if (n > 0)
        add(&p->addresses, line);
    free(line);
}

int wire_place_new(const char *url, const struct credentials *credentials, struct wire_place **ret,
                   char **ret_error)
{
    struct wire_place *p = xcalloc(1, sizeof(*p));
    CURL *probe = curl_easy_init();
    char *token = NULL;

    p->url = xstrdup(url);
    p->credentials = credentials;
    add(&p->headers, "Expect:");
    add(&p->headers, "Content-Type: application/json");
    look_up(p, url);
    int r = probe ? credentials_use(credentials, false, probe, &token, ret_error) : -ENOMEM;
    if (r == 0 && token) {
        char *line = xasprintf("Authorization: Bearer %s", token);
        add(&p->headers, line);
        secret_free(line);
    }
    secret_free(token);
    curl_easy_cleanup(probe);
    if (r < 0) {
        wire_place_free(p);
        return r;
    }
    *ret = p;
    return 0;
}

struct wire_place *wire_place_free(struct wire_place *p)
{
    if (!p)
        return NULL;
    free(p->url);
    curl_slist_free_all(p->headers);
    curl_slist_free_all(p->addresses);
    free(p);
    return NULL;
}
