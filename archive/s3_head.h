/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of an S3 service's answer, from its lines as libcurl hands them over. Pure. A line with a value that cannot be
 * read sets nothing; what a request needs is checked by its owner.
 */
#pragma once

#include "archive/archive.h"

#define S3_HEAD_MAX        (32u << 10) /* bytes of all lines */
#define S3_HEAD_VALUE_MAX  1024
#define S3_REGION_TEXT_MAX 64
#define S3_LOCATION_MAX    256

struct s3_head {
    size_t size; /* bytes so far, interim answers included */
    int status;
    bool has_length, has_range;
    uint64_t length;
    uint64_t first, last, total; /* Content-Range: bytes first-last/total */
    char etag[ARCHIVE_ETAG_MAX]; /* "": none */
    char sha256[ARCHIVE_SHA256_SIZE];
    char region[S3_REGION_TEXT_MAX]; /* of the bucket */
    char location[S3_LOCATION_MAX];  /* of a redirect; printable ASCII, cut */
    int64_t modified_s, date_s, retry_after_s;
    int64_t retry_date_s; /* Retry-After as a date */
};

/* One line, CRLF included. A status line begins a new head: an interim answer (100) leaves nothing. -EMSGSIZE. */
int s3_head_take(struct s3_head *h, const char *line, size_t size);

/* "Mon, 23 Nov 2026 18:34:42 GMT", and "2026-11-23T18:34:42.000Z" of lists; 0 for anything else. */
int64_t s3_date_parse(const char *text);
