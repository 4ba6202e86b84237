/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdio.h>

/* Returns a FILE whose data is written to `out` compressed. Close it first, and check for errors; the caller keeps
 * `out`. NULL with errno. */
FILE *gzip_open(FILE *out);
