/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine is, as far as an audit says it. Reads /proc; asks nobody. */
#pragma once

#include "base/json.h"

/* {cpu, processors, memory_bytes, kernel, driver}, what is not known is absent. */
json_t *hardware_read(void);
/* "model name" of /proc/cpuinfo; NULL where there is none (some ARM). Pure; the caller frees it. */
char *cpu_model(const char *cpuinfo);
/* "570.86.10" of /proc/driver/nvidia/version. */
char *nvidia_driver(const char *version);
