/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/wire_place.h"

#include "base/alloc.h"
#include "daemon/fleet/credentials.h"
#include <errno.h>

static void add_header(struct wire_place *p, const char *line)
{
    struct curl_slist *longer = curl_slist_append(p->headers, line);
    if (longer)
        p->headers = longer;
}

int wire_place_new(const char *url, const struct credentials *credentials, struct wire_place **ret,
                   char **ret_error)
{
    struct wire_place *p = xcalloc(1, sizeof(*p));
    CURL *probe = curl_easy_init();
    char *token = NULL;

    p->url = xstrdup(url);
    p->credentials = credentials;
    add_header(p, "Expect:");
    add_header(p, "Content-Type: application/json");
    int r = probe ? credentials_use(credentials, false, probe, &token, ret_error) : -ENOMEM;
    if (r == 0 && token) {
        char *line = xasprintf("Authorization: Bearer %s", token);
        add_header(p, line);
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
    free(p);
    return NULL;
}
