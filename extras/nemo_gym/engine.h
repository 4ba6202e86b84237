/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this module share on the side of profd: the engine, and its functions in the catalog. */
#pragma once

#include "daemon/catalog/records.h"
#include "daemon/fleet/engine.h"
#include "daemon/fleet/router.h"

#define ENGINE_NEMO_GYM ENGINE_EXTRA

/* In the order of NEMO_GYM_ENDPOINT_PATHS. */
enum nemo_gym_endpoint {
    NEMO_GYM_STATS = ENDPOINT_EXTRA,
    NEMO_GYM_SEED_SESSION = ENDPOINT_EXTRA << 1,      /* of resource servers */
    NEMO_GYM_AGGREGATE_METRICS = ENDPOINT_EXTRA << 2, /* of agents */
};
#define NEMO_GYM_ENDPOINT_PATHS "/stats", "/seed_session", "/aggregate_metrics"

extern const struct engine_ops engine_nemo_gym;
extern const struct router_dialect router_nemo_gym;

struct function;
/* The row waits while the catalog is locked. It goes with its session. */
int catalog_add_function(struct catalog *c, int64_t session_id, const char *worker_url,
                         const struct function *f);
/* An array of a session's functions as in openapi.yaml, the most expensive (ttot_ns) first; worker_url NULL: of all
 * workers. */
int catalog_functions_json(struct catalog *c, int64_t session_id, const char *worker_url, json_t **ret);
