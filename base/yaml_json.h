/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A YAML document as JSON values, with YAML 1.1's plain words (true, null, numbers) for what is not quoted.
 * Pure. Aliases are refused, since they let a small file become a huge one.
 */
#pragma once

#include "base/json.h"

#define YAML_DEPTH_MAX 32
#define YAML_NODES_MAX 100000
/* Of a key with those that it lies in, where lines are asked for. */
#define YAML_POINTER_MAX 1000

/* The first document; NULL with one line of reason. */
json_t *yaml_parse(const char *data, size_t size, char error[static 200]);
/*
 * The same for a file that people write: a duplicate key is an error, and *ret_lines is an object
 * from each key, as a JSON pointer ("/goodput/ttft"; keys stand as they are), to its line from 1,
 * *ret_columns (may be NULL) one to its column from 1. Set with the value only.
 */
json_t *yaml_parse_with_lines(const char *data, size_t size, char error[static 200], json_t **ret_lines,
                              json_t **ret_columns);
