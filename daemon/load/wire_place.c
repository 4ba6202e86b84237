/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/wire_place.h"

#include "base/address.h"
#include "base/alloc.h"
#include "daemon/fleet/credentials.h"
#include "daemon/fleet/url.h"
#include "daemon/load/hosts.h"
#include <errno.h>

static void add(struct curl_slist **list, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer)
        *list = longer;
}

/* What has no addresses is libcurl's to report, with the first request. */
static void take_addresses(struct wire_place *p, const struct hosts *hosts, const char *text)
{
    char *line = NULL, address[ADDRESS_TEXT_SIZE];
    const char *reason;
    struct url url;
    size_t size;

    if (url_parse(text, &url, &reason) < 0)
        return;
    const struct name_answer *found = hosts_find(hosts, url.host);
    p->is_unknown = found && found->n == 0;
    if (!found || p->is_unknown)
        return;
    FILE *out = xmemstream(&line, &size);
    fprintf(out, "%s:%d:", url.host, url.port);
    for (size_t i = 0; i < found->n; i++) {
        address_format(&found->addresses[i], address);
        fprintf(out, "%s%s", i > 0 ? "," : "", address);
    }
    fclose(out);
    add(&p->addresses, line);
    free(line);
}

int wire_place_new(const char *url, const struct hosts *hosts, const struct credentials *credentials,
                   struct wire_place **ret, char **ret_error)
{
    struct wire_place *p = xcalloc(1, sizeof(*p));
    CURL *probe = curl_easy_init();
    char *token = NULL;

    p->url = xstrdup(url);
    p->credentials = credentials;
    add(&p->headers, "Expect:");
    add(&p->headers, "Content-Type: application/json");
    take_addresses(p, hosts, url);
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
