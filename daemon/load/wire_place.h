/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where requests go: an URL, and what proves who they are from. Neither a file nor a name
 * server is asked for it later.
 */
#pragma once

#include "daemon/fleet/call.h"
#include <curl/curl.h>

struct hosts;

struct wire_place {
    char *url;
    struct curl_slist *headers;
    struct curl_slist *addresses; /* of its name, as CURLOPT_RESOLVE has them; NULL: it is an address */
    bool is_unknown;              /* a name without addresses */
    const struct credentials *credentials; /* borrowed */
};

/* All places of a process have the same credentials. -EACCES with words in *ret_error where a file cannot be
 * used. */
int wire_place_new(const char *url, const struct hosts *hosts, const struct credentials *credentials,
                   struct wire_place **ret, char **ret_error);
struct wire_place *wire_place_free(struct wire_place *p);
