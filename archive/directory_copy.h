/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between the caller's file and one of an archive's directory, with bounded bandwidth, until a deadline. */
#pragma once

#include "archive/archive.h"

struct directory_copy {
    const struct archive_request *q; /* its deadline ends the copy */
    int64_t rate;                    /* bytes per second; 0: unlimited */
    int from, to;
    uint64_t from_offset, to_offset, size;
};

/* sha256 gets the hash of the bytes. -ESTALE: the source is shorter. -ETIMEDOUT. */
int directory_copy_bytes(const struct directory_copy *c, char sha256[static ARCHIVE_SHA256_SIZE]);
