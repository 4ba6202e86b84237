/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an S3 request failed of, as an error that names its remedy. Pure; texts of the server are cleaned and cut.
 */
#pragma once

#include "archive/s3_head.h"
#include "archive/s3_xml.h"

struct s3_failure {
    enum archive_verb verb;
    const char *name; /* "s3://bucket/prefix/key" */
    const char *bucket, *region, *endpoint, *credentials_file, *key_id;
    int err;            /* of the connection or of the content; 0: the answer itself is an error */
    const char *error;  /* with err: why */
    const char *remedy; /* with err: what to do; may be NULL */
    const struct s3_head *head;
    const struct s3_xml *xml; /* a document of another kind is not looked at */
    int64_t wall_s;           /* now */
    bool at_deadline;         /* it would have been repeated, and the deadline came first */
    unsigned n_attempts;
};

/* Returns the negative errno value of archive_result. */
int s3_failure_describe(const struct s3_failure *f, struct problem *p);
