/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that extras add to the tables of engines and routers. */
#include "daemon/fleet/engine.h"
#include "daemon/fleet/router.h"
#include "extras/nemo_gym/engine.h"

const struct engine_ops *const extra_engines[] = {&engine_nemo_gym, NULL};
const char extra_engine_titles[] = ", NeMo Gym";
const char *const extra_endpoint_paths[EXTRA_ENDPOINTS_MAX] = {NEMO_GYM_ENDPOINT_PATHS};
const struct router_dialect *const extra_routers[] = {&router_nemo_gym, NULL};
