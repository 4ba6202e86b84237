/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses for libcurl, which is not to resolve names itself (names.h).
 */
#pragma once

#include "daemon/fleet/names.h"
#include <curl/curl.h>

/* For CURLOPT_RESOLVE. The caller frees the list. */
struct curl_slist *curl_addresses(const char *host, int port, const struct name_answer *answer);
/* As CURLOPT_RESOLVER_START_FUNCTION: refuses a name without addresses. */
int curl_refuse_to_resolve(void *resolver, void *reserved, void *arg);
