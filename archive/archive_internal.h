/* SPDX-License-Identifier: Apache-2.0 */
/* For the files that perform requests, blocking or on an event loop. */
#pragma once

#include "archive/archive.h"
#include "archive/directory.h"
#include "archive/s3_call.h"

struct archive {
    bool is_directory;
    struct archive_directory directory;
    struct s3 s3;
};

/* What every archive would reject: returns result->err. */
int archive_check(const struct archive *a, const struct archive_request *q, struct archive_result *ret);
