/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in an archive: its URL, its endpoint, buckets and keys. Pure functions over text.
 */
#pragma once

#include "base/util.h"

#define ARCHIVE_BUCKET_MAX 63

enum archive_kind { ARCHIVE_S3, ARCHIVE_DIRECTORY };

struct archive_url {
    enum archive_kind kind;
    char bucket[ARCHIVE_BUCKET_MAX + 1];
    char *prefix; /* S3: "" or "a/b/" */
    char *path;   /* directory: absolute, without a slash at its end */
};

/* -EINVAL with a few words in *reason, static. */
int archive_url_parse(const char *text, struct archive_url *ret, const char **reason);
void archive_url_done(struct archive_url *u);

struct archive_endpoint {
    char *base; /* "https://host:port" */
    char *host; /* IPv6 in brackets */
    int port;
    bool is_tls;
};

/* "https://host[:port]" or "http://..."; as above. */
int archive_endpoint_parse(const char *text, struct archive_endpoint *ret, const char **reason);
void archive_endpoint_done(struct archive_endpoint *e);

/* UTF-8 without control characters; components between slashes that are neither empty nor "." nor "..", nor begin with
 * ARCHIVE_HIDDEN; at most ARCHIVE_KEY_MAX bytes. */
bool archive_key_is_valid(const char *key);
/* The same for what keys begin with: also "", and an end after a slash or within a component. */
bool archive_prefix_is_valid(const char *prefix);
/* The start of names that the directory's archive uses itself. */
#define ARCHIVE_HIDDEN ".profd-"

/* Hex digits of a SHA-256, lower case. */
bool archive_sha256_is_valid(const char *text);
/* "us-east-1": lower case letters, digits and '-', at most 63. */
bool archive_region_is_valid(const char *region);

/* The characters of ids, aliases and ARNs of encryption keys. */
bool archive_kms_key_is_valid(const char *text);

/* ARCHIVE_PART_SIZE, or for files that have more than ARCHIVE_PARTS_MAX of those, the next multiple by two. */
uint64_t archive_part_size(uint64_t size);
unsigned archive_part_count(uint64_t size);

/* Appends text with all but A-Za-z0-9-._~ as %XX; slashes stay as they are. */
void archive_append_path(char **url, const char *key);
