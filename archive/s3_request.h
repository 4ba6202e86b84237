/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of an S3 request: method, URL, header lines, body. Pure; nothing is signed here.
 *
 * libcurl signs (CURLOPT_AWS_SIGV4) path and query as they stand in the URL, and every header line. Of its version 7.88
 * that asks for: a header with the hash of the content, always; all but A-Za-z0-9-._~ as %XX; a query that is sorted by
 * name, each name with "="; no line that removes a header; no header twice, and none whose name begins another's. (So the
 * name of a KMS key, x-amz-server-side-encryption-aws-kms-key-id, cannot be sent: the bucket's default names it.)
 */
#pragma once

#include "archive/archive.h"

#define S3_HEADERS_MAX       8
#define S3_SHA256_OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

struct s3_service {
    char *root;       /* URL of the bucket, without a slash at its end */
    char *prefix;     /* "" or "a/b/" */
    char *encryption; /* NULL: none */
    char *kms_key;    /* NULL: the bucket's */
};

/* How far a GET came in earlier attempts. */
struct s3_progress {
    uint64_t got;
    const char *etag; /* of what was read so far */
};

struct s3_text {
    const char *method; /* static */
    char *url, *body;   /* body: NULL where there is none, or where it is a file's */
    char *headers[S3_HEADERS_MAX];
    size_t n_headers;
    bool has_file;                    /* the content of the request's fd is the body */
    char sha256[ARCHIVE_SHA256_SIZE]; /* of the content */
};

/* sha256: of the file's content, for PUT and UPLOAD_PART. To be freed by s3_text_done(). */
void s3_text_build(const struct s3_service *s, const struct archive_request *q,
                   const struct s3_progress *progress, const char *sha256, struct s3_text *ret);
void s3_text_done(struct s3_text *t);

/* The permission that a policy must grant, "s3:PutObject". */
const char *s3_permission(enum archive_verb verb);
/* "PUT", as errors name a verb: "upload", "download", ... */
const char *s3_verb_text(enum archive_verb verb);

/* Hex digits of a digest, with the NUL. */
void s3_sha256_format(const unsigned char digest[static 32], char ret[static ARCHIVE_SHA256_SIZE]);
