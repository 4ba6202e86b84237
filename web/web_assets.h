/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the web page, compressed, in the program's read-only data. web/embed.py makes the table; a build
 * without the page (-Dweb=disabled, or neither esbuild nor web/dist) has an empty one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct web_asset {
    const char *name;         /* "index.html", "app-HASH.js" */
    const char *content_type; /* with its character set */
    const char *etag;         /* in quotes */
    const unsigned char *gzip, *brotli;
    size_t gzip_size, brotli_size; /* brotli_size is 0 where the build had no brotli */
    size_t size;                   /* not compressed */
    bool is_immutable;             /* the name has a hash of the content */
};

extern const struct web_asset web_assets[];
extern const size_t web_assets_count;
