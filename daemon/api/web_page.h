/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The static files of the web page as replies: which of their forms a client accepts, and whether it has it already.
 * Pure but for the replies; the files are those of web/web_assets.h.
 */
#pragma once

#include "daemon/api/http.h"
#include "web/web_assets.h"

enum web_encoding { WEB_IDENTITY, WEB_GZIP, WEB_BROTLI };

/* The smallest of the available encodings that an Accept-Encoding header (may be NULL) admits. */
enum web_encoding web_encoding_choose(const char *accept, bool has_brotli);
/* Whether an If-None-Match header (may be NULL) names the tag. */
bool web_etag_matches(const char *header, const char *etag);
/* NULL: there is none of that name. */
const struct web_asset *web_asset_find(const char *name);
/* The bytes of a file that is there as gzip only. NULL: they are not what the table says; else the caller frees them. */
void *web_asset_inflate(const struct web_asset *a);

/* Replies with the file, or that its client has it, with the headers that protect the page. */
void web_asset_reply(struct http_request *r, const struct web_asset *a);
