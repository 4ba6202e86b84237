/* SPDX-License-Identifier: Apache-2.0 */
/* [archive] of profd.conf. Strings are owned by the configuration. */
#pragma once

#include <stdint.h>

enum archive_sse { ARCHIVE_SSE_NONE, ARCHIVE_SSE_AES256, ARCHIVE_SSE_KMS, _ARCHIVE_SSE_MAX };

enum archive_slices { ARCHIVE_SLICES_NONE, ARCHIVE_SLICES_PARQUET, _ARCHIVE_SLICES_MAX };

struct archiver_settings {
    char *url;                     /* s3://BUCKET/PREFIX or file:///DIRECTORY; NULL: no archive */
    char *endpoint, *region;       /* NULL: AWS's, us-east-1 */
    char *credentials_file;        /* to upload with */
    char *reader_credentials_file; /* to ask and to download with; NULL: credentials_file */
    char *delete_credentials_file; /* NULL: nothing is deleted */
    char *ca_file;
    int sse;
    char *sse_kms_key_id; /* NULL: the bucket's default key */
    int64_t rate;         /* bytes per second of uploads; 0: unlimited */
    int64_t transfers;    /* uploads at a time */
    int slices;           /* enum archive_slices: of sessions, for other programs */
};
