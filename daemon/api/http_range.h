/* SPDX-License-Identifier: Apache-2.0 */
/* The Range header of a download (RFC 9110, 14.2). A pure function. */
#pragma once

#include <stdint.h>

enum http_range_kind {
    HTTP_RANGE_WHOLE, /* absent, malformed, another unit or several ranges: the whole file answers it */
    HTTP_RANGE_PART,  /* 206 */
    HTTP_RANGE_UNSATISFIABLE, /* 416 */
};

struct http_range {
    int64_t offset, size; /* within the file; size is at least 1 */
};

/* text may be NULL. *ret is set for HTTP_RANGE_PART only. */
enum http_range_kind http_range_parse(const char *text, int64_t file_size, struct http_range *ret);
