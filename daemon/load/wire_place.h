/* SPDX-License-Identifier: Apache-2.0 */
/* Where requests go: an URL, and what proves who they are from. The files of credentials are read once. */
#pragma once

#include "daemon/fleet/call.h"
#include <curl/curl.h>

struct wire_place {
    char *url;
    struct curl_slist *headers;
    const struct credentials *credentials; /* borrowed */
};

/* -EACCES with words in *ret_error where a file cannot be used. */
int wire_place_new(const char *url, const struct credentials *credentials, struct wire_place **ret,
                   char **ret_error);
struct wire_place *wire_place_free(struct wire_place *p);
