/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where requests go: an URL, and what proves who they are from. The files of credentials are read once, and a
 * name is looked up once: libcurl would begin a thread for each of a thousand first requests.
 */
#pragma once

#include "daemon/fleet/call.h"
#include <curl/curl.h>

struct wire_place {
    char *url;
    struct curl_slist *headers;
    struct curl_slist
        *addresses; /* of its name, as CURLOPT_RESOLVE has them; NULL: it is an address, or not known */
    const struct credentials *credentials; /* borrowed */
};

/* May wait for a name server. All places of a process have the same credentials. -EACCES with words in
 * *ret_error where a file cannot be used. */
int wire_place_new(const char *url, const struct credentials *credentials, struct wire_place **ret,
                   char **ret_error);
struct wire_place *wire_place_free(struct wire_place *p);
