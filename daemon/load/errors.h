/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong in a run, by what was said. Pure. */
#pragma once

#include "base/json.h"
#include "daemon/load/record.h"

#define ERROR_KINDS_MAX 32

/* [{"text", "count", "outcome", "status"}], the most frequent first; beyond ERROR_KINDS_MAX kinds the rest is
 * one line. */
json_t *errors_json(const struct request_record *records, size_t n);
