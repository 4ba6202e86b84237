/* SPDX-License-Identifier: Apache-2.0 */
/* The tables that optional modules (extras/) add to, for a build with -Dextras=false. */
#include "daemon/api/routes.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/router.h"
#include "daemon/session/internal.h"

const struct engine_ops *const extra_engines[] = {NULL};
const struct router_dialect *const extra_routers[] = {NULL};
const struct function_counter *const extra_function_counter = NULL;
const struct route extra_routes[] = {{0}};
const size_t n_extra_routes = 0;
