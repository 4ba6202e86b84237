/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl's transfers on libevent's loop: a "multi" handle, its timer and the sockets that it wants watched.
 * Knows nothing of what is transferred: handles belong to their owner, who sets them up.
 */
#pragma once

#include "base/util.h"
#include <curl/curl.h>
#include <event2/event.h>

struct curl_loop;

struct curl_loop_ops {
    /* A handle that was added has come to its end, and is to be removed; `private` is its CURLOPT_PRIVATE. */
    void (*ended)(void *private, CURLcode code);
    /* libcurl no longer knows the state of its transfers: the loop is to be freed, here. NULL: go on. */
    void (*broken)(void *arg, CURLMcode code);
};

/* Borrows base and ops. connections_max: idle ones that are kept for later; those in use have no limit. -ENOMEM. */
int curl_loop_new(struct event_base *base, long connections_max, const struct curl_loop_ops *ops, void *arg,
                  struct curl_loop **ret);
/* Handles are removed before. NULL is fine. */
struct curl_loop *curl_loop_free(struct curl_loop *l);
/* The transfer begins in a later iteration of the event loop. -EIO: libcurl rejected it. */
int curl_loop_add(struct curl_loop *l, CURL *easy);
void curl_loop_remove(struct curl_loop *l, CURL *easy);
