/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the calls of profd and the requests of profd-load have in common: the callbacks and limits of a libcurl
 * handle, the addresses of its host, and errors. Owns no handle.
 */
#pragma once

#include "daemon/fleet/names.h"
#include <curl/curl.h>

struct curl_callbacks {
    curl_opensocket_callback open_socket;
    curl_prereq_callback before_send;
    curl_write_callback header, body;
};

/*
 * Sets the callbacks with their argument, which is CURLOPT_PRIVATE as well, the buffer for the text of an error
 * (CURL_ERROR_SIZE), and what holds for all: http and https only, no proxy, no user name in a URL, keep-alive.
 */
void curl_handle_prepare(CURL *easy, const struct curl_callbacks *callbacks, void *arg, char *error,
                         const char *user_agent);
/* For CURLOPT_RESOLVE: libcurl is not to resolve names itself (names.h). The caller frees the list. */
struct curl_slist *curl_addresses(const char *host, int port, const struct name_answer *answer);
/* As CURLOPT_RESOLVER_START_FUNCTION: refuses a name without addresses. */
int curl_refuse_to_resolve(void *resolver, void *reserved, void *arg);
/* Adds a copy of the line. */
void curl_list_add(struct curl_slist **list, const char *line);
/* Adds the token as a header of that name (NULL: Authorization, as bearer token); only the list keeps a copy. */
void curl_list_add_token(struct curl_slist **list, const char *header, const char *token);
/* -ECONNREFUSED, -ETIMEDOUT, ...; -EPROTO where there is no better one. */
int curl_handle_errno(CURL *easy, CURLcode code);
