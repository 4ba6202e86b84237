/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all transfers by libcurl have in common, whoever owns them: callbacks and limits of a handle, and errors. Owns no
 * handle.
 */
#pragma once

#include <curl/curl.h>

struct curl_callbacks {
    curl_opensocket_callback open_socket;
    curl_prereq_callback before_send; /* NULL: none */
    curl_write_callback header, body;
};

/*
 * Sets the callbacks with their argument, which is CURLOPT_PRIVATE as well, the buffer for the text of an error
 * (CURL_ERROR_SIZE), and what holds for all: http and https only, no proxy, no user name in a URL, keep-alive.
 */
void curl_handle_prepare(CURL *easy, const struct curl_callbacks *callbacks, void *arg, char *error,
                         const char *user_agent);
/* Adds a copy of the line. */
void curl_list_add(struct curl_slist **list, const char *line);
/* -ECONNREFUSED, -ETIMEDOUT, ...; -EPROTO where there is no better one. */
int curl_handle_errno(CURL *easy, CURLcode code);
