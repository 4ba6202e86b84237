/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of this machine for an audit. Reads /proc; makes no requests. */
#pragma once

#include "base/json.h"

/* {cpu, processors, memory_bytes, kernel, driver}; unknown values are absent. */
json_t *hardware_read(void);
/* "model name" of /proc/cpuinfo; NULL if absent (some ARM). Pure; the caller frees it. */
char *cpu_model(const char *cpuinfo);
/* "570.86.10" of /proc/driver/nvidia/version. */
char *nvidia_driver(const char *version);
