/* SPDX-License-Identifier: Apache-2.0 */
/* What a run did to those who served it, in lines: "memory" and "server" of /v1/runs/ID. */
#pragma once

#include "base/json.h"
#include "client/cli/screen.h"

void run_print_memory(const json_t *memory, const struct screen *s);
void run_print_server(const json_t *server, const struct screen *s);
