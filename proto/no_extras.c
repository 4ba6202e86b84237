/* SPDX-License-Identifier: Apache-2.0 */
/* The engines of optional modules (extras/), for a build with -Dextras=false. */
#include "proto/names.h"

#include <stddef.h>

const char *const extra_engine_names[_ENGINE_MAX - ENGINE_EXTRA + 1] = {NULL};
