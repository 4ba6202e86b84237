/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which HTTP requests of a browser may come from profd's own web page: the rules that profd and the relay of `profctl
 * web` share. Pure; the name in the Host header is for the caller to check, and so is the token.
 *
 * Every page that a user of this host views can reach its TCP ports. Browsers mark such requests: Origin is where the
 * page is from, Sec-Fetch-Site how that relates to the server. A client that is no browser sends neither.
 */
#pragma once

#include "base/util.h"

struct page_request {
    const char *method, *path;               /* the path without its query */
    const char *host;                        /* values of headers, NULL where absent */
    const char *origin, *site, *mode, *dest; /* Origin, Sec-Fetch-Site, -Mode, -Dest */
    const char *content_type;
    bool has_body;
};

enum page_verdict {
    PAGE_REQUEST_ALLOWED,
    PAGE_REQUEST_FOREIGN,  /* of a page of another origin */
    PAGE_REQUEST_NOT_JSON, /* a form, or another body that a page of another origin could send */
};

/*
 * Origin, where there is one, must be http(s):// and the Host. Sec-Fetch-Site, where there is one, must be same-origin
 * or none; of another site only the page itself may be opened, by a link: GET of "/" as a document of its own. A body of a
 * browser must be JSON.
 */
enum page_verdict page_request_check(const struct page_request *r);
/* Whether a browser sent it. */
bool page_request_is_browser(const struct page_request *r);
