/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of an archive's directory, in the order in which S3 lists them. */
#pragma once

#include "archive/archive.h"

/* Of one directory; more end the list. */
#define DIRECTORY_ENTRIES_MAX 1000000

/* Regular files below root_fd whose keys begin with the request's key and come after its `after`, up to its `max`. What
 * others put there under names that are no keys is counted in n_skipped. */
int archive_directory_list(int root_fd, const struct archive_request *q, struct archive_result *ret);
