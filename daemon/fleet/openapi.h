/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of some paths an OpenAPI document describes. One pass over the bytes without building a tree: these
 * documents have hundreds of kilobytes, a fleet has a thousand of them, and the event loop waits meanwhile.
 */
#pragma once

#include "base/util.h"

/*
 * Sets bit i of *ret for each paths[i] (at most 32) that is a key of the top-level "paths". -EPROTO where the
 * text is not a JSON object with such a member, or ends early.
 */
int openapi_find_paths(const char *data, size_t size, const char *const *paths, size_t n, unsigned *ret);
