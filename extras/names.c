/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the engines of extras. */
#include "proto/names.h"

const char *const extra_engine_names[_ENGINE_MAX - ENGINE_EXTRA + 1] = {
    "nemo-gym", /* ENGINE_NEMO_GYM */
};
