/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request to an S3 service, with its attempts, as a handle of libcurl that someone else drives: archive.c while it
 * blocks, daemon/archive/archive_loop.c on the event loop.
 *
 *     s3_call_new(), s3_call_hash() if it has content
 *     until S3_STEP_DONE:
 *         s3_call_begin(), the transfer of s3_call_handle(), s3_call_ended(), the wait
 *     s3_call_free()
 *
 * It never connects to a link-local address or to one where a cloud hands out credentials, whatever a name server or a
 * redirect says; never follows a redirect; never logs or shows a secret.
 */
#pragma once

#include "archive/archive_url.h"
#include "archive/s3_credentials.h"
#include "archive/s3_request.h"
#include "base/address.h"
#include <curl/curl.h>

/* Of an archive; shared by its calls, which run on one thread. */
struct s3 {
    struct s3_service service;
    struct archive_endpoint endpoint;
    struct s3_credentials credentials;
    char *name; /* "s3://bucket/prefix" */
    char *bucket, *region, *provider, *ca_file;
    int64_t rate, stall_ns;
    bool allow_link_local;
};

enum s3_step {
    S3_STEP_DONE,  /* the result is there */
    S3_STEP_AGAIN, /* another attempt after the wait */
};

struct s3_call;

/* Borrows all; ret is zeroed. */
struct s3_call *s3_call_new(struct s3 *s3, const struct archive_request *q, struct archive_result *ret);
struct s3_call *s3_call_free(struct s3_call *c);

/* Whether s3_call_hash() has something to read. */
bool s3_call_has_content(const struct s3_call *c);
/* Reads and hashes the content that is to be sent: blocks, on any thread, and touches nothing but the call. A failure is
 * reported by the next s3_call_begin(). */
void s3_call_hash(struct s3_call *c);

/* Prepares the handle for the next attempt. Negative: the call is done, with its result. */
int s3_call_begin(struct s3_call *c);
/* The handle, which the call owns; its options may be added to after s3_call_begin(). */
CURL *s3_call_handle(struct s3_call *c);
enum s3_step s3_call_ended(struct s3_call *c, CURLcode code, int64_t *ret_wait_ns);
/* Instead of s3_call_ended(), if there was no transfer: no address, or libcurl took no handle. */
enum s3_step s3_call_failed(struct s3_call *c, int err, const char *why, int64_t *ret_wait_ns);

/* Whether an archive must not connect to the address: NULL, or why not, to follow the address. Pure. */
const char *s3_address_refused(const struct in6_addr *address, bool allow_link_local);
