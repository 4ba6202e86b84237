/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that extras add to the tables of engines and routers. */
#include "daemon/fleet/engine.h"
#include "daemon/fleet/router.h"

extern const struct engine_ops engine_nemo_gym;
extern const struct router_dialect router_nemo_gym;

const struct engine_ops *const extra_engines[] = {&engine_nemo_gym, NULL};
const struct router_dialect *const extra_routers[] = {&router_nemo_gym, NULL};
