/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Successful answers of an S3 service, checked: what a request made it say becomes a result, and nothing else does. The
 * content of a download is checked while it arrives (struct s3_download).
 */
#pragma once

#include "archive/s3_head.h"
#include "archive/s3_request.h"
#include "archive/s3_xml.h"
#include <openssl/evp.h>

struct s3_answer {
    const struct archive_request *q;
    const struct s3_service *service;
    const struct s3_head *head;
    const struct s3_xml *xml;
    const char *xml_error; /* NULL: it was read */
    const char *sha256;    /* of the content that was sent */
};

/* -EPROTO with *why, static. Not for ARCHIVE_GET. */
int s3_answer_take(const struct s3_answer *a, struct archive_result *ret, const char **why);

/* A download over all attempts of a request. A zeroed one is ready for the first. */
struct s3_download {
    uint64_t got, expected; /* bytes, from the request's offset on */
    uint64_t total;         /* of the object */
    char etag[ARCHIVE_ETAG_MAX];
    char sha256[ARCHIVE_SHA256_SIZE]; /* stored with the object */
    int64_t modified_s;
    EVP_MD_CTX *hash;
};

/* Before an attempt: one that cannot go on where the last one broke starts from zero. */
void s3_download_rewind(struct s3_download *d);
/* The head of an attempt's answer. -EPROTO, -ESTALE, -EFBIG with *why, static. */
int s3_download_begin(struct s3_download *d, const struct archive_request *q, const struct s3_head *h,
                      const char **why);
/* Into the request's descriptor. */
int s3_download_write(struct s3_download *d, const struct archive_request *q, const char *data, size_t size,
                      const char **why);
/* -ECONNRESET: bytes are missing. -EBADMSG: they are not the expected ones. */
int s3_download_end(struct s3_download *d, const struct archive_request *q, struct archive_object *ret,
                    const char **why);
void s3_download_done(struct s3_download *d);

/* Reads a range of a file. -ESTALE: the file is shorter. */
int s3_content_hash(int fd, uint64_t offset, uint64_t size, char ret[static ARCHIVE_SHA256_SIZE]);

/* %XX, and + for a blank, as encoding-type=url has them; in place. False where it is not text. */
bool s3_key_decode(char *key);
