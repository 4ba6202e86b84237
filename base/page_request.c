/* SPDX-License-Identifier: Apache-2.0 */
#include "base/page_request.h"

#include <strings.h>

#define JSON_TYPE "application/json"

static bool page_origin_is_host(const char *origin, const char *host)
{
    static const char *const schemes[] = {"http://", "https://"};

    for (size_t i = 0; host && i < ARRAY_SIZE(schemes); i++)
        if (starts_with(origin, schemes[i]) && strcasecmp(origin + strlen(schemes[i]), host) == 0)
            return true;
    return false;
}

/* A link elsewhere that opens the page: no token comes with it. */
static bool page_request_is_visit(const struct page_request *r)
{
    return streq(r->method, "GET") && streq(r->path, "/") && r->mode && streq(r->mode, "navigate") &&
           r->dest && streq(r->dest, "document");
}

static bool page_type_is_json(const char *type)
{
    size_t n = strlen(JSON_TYPE);

    return type && strncasecmp(type, JSON_TYPE, n) == 0 && (type[n] == '\0' || strchr("; \t", type[n]));
}

bool page_request_is_browser(const struct page_request *r)
{
    return r->origin || r->site;
}

enum page_verdict page_request_check(const struct page_request *r)
{
    if (r->origin && !page_origin_is_host(r->origin, r->host))
        return PAGE_REQUEST_FOREIGN;
    if (r->site && !streq(r->site, "same-origin") && !streq(r->site, "none") && !page_request_is_visit(r))
        return PAGE_REQUEST_FOREIGN;
    if (page_request_is_browser(r) && r->has_body && !page_type_is_json(r->content_type))
        return PAGE_REQUEST_NOT_JSON;
    return PAGE_REQUEST_ALLOWED;
}
