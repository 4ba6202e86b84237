/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of an archive's credentials, in the format of AWS's tools:
 *
 *     [default]
 *     aws_access_key_id = AK...
 *     aws_secret_access_key = ...
 *     aws_session_token = ...        (optional)
 *
 * The section's line may be missing; other sections and other keys are skipped. The file is looked at before each attempt
 * of a request and read anew when it changed, so a process that renews it needs no signal.
 */
#pragma once

#include "base/problem.h"
#include <sys/stat.h>

#define S3_CREDENTIALS_FILE_MAX (64u << 10)
#define S3_CREDENTIAL_MAX       4096 /* bytes of a value; session tokens have about a thousand */

struct s3_keys {
    char *id, *secret, *token; /* token: NULL where there is none */
};

/* -EINVAL with one line in *ret_reason, which the caller frees; it never has a value of the file. */
int s3_keys_parse(const char *text, size_t size, struct s3_keys *ret, char **ret_reason);
void s3_keys_done(struct s3_keys *k);

struct s3_credentials {
    char *path;
    struct stat st; /* of what was read */
    bool is_read;
    struct s3_keys keys;
};

/* Reads the file if it changed since. Negative with the problem. */
int s3_credentials_update(struct s3_credentials *c, struct problem *p);
/* Whether the file differs from what was read. */
bool s3_credentials_changed(const struct s3_credentials *c);
void s3_credentials_done(struct s3_credentials *c);
