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
