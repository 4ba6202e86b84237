/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML document as JSON values, with YAML 1.1's plain words (true, null, numbers) for what is not quoted.
 * Pure. Aliases are refused, since they let a small file become a huge one.
 */
#pragma once

#include "base/json.h"

#define YAML_DEPTH_MAX 32
#define YAML_NODES_MAX 100000

/* The first document; NULL with one line of reason. */
json_t *yaml_parse(const char *data, size_t size, char error[static 200]);
/* The same, with the line of each key, by its path: {"profiling.prefill.isl": 12}. What stands in lists goes
 * by the path of the list. *ret_lines is the caller's. */
json_t *yaml_parse_lines(const char *data, size_t size, json_t **ret_lines, char error[static 200]);
