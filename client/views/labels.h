/* SPDX-License-Identifier: Apache-2.0 */
/* --label KEY=VALUE, as it is sent and as it is shown. */
#pragma once

#include "base/json.h"
#include "client/cli/options.h"

/* Sets "labels" where there are any; 0 or the problem. */
int labels_to_json(const struct option_list *list, json_t *request, struct problem *p);
/* "job=grpo step=12"; NULL where there is none. The caller frees it. */
char *labels_text(const json_t *labels);
