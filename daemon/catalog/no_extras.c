/* SPDX-License-Identifier: Apache-2.0 */
/* The statements of optional modules (extras/), for a build with -Dextras=false. */
#include "daemon/catalog/internal.h"

const char *const extra_statements[_STATEMENT_MAX - STATEMENT_EXTRA + 1] = {NULL};
