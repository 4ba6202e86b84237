/* SPDX-License-Identifier: Apache-2.0 */
/* The lines that extras add to the tables of engines and routers. */
#include "daemon/fleet/evidence.h"
#include "daemon/fleet/router.h"
#include "extras/nemo_gym/engine.h"

const struct engine_ops *const extra_engines[] = {&engine_nemo_gym, NULL};
const struct evidence extra_evidence[] = {
    {.engine = ENGINE_NEMO_GYM,
     .question = QUESTION_OPENAPI,
     .form = EVIDENCE_ANY_PATH,
     .bits = NEMO_GYM_STATS | NEMO_GYM_SEED_SESSION | NEMO_GYM_AGGREGATE_METRICS,
     .needs = QUESTION_NONE},
    {0},
};
const char extra_engine_titles[] = ", NeMo Gym";
const char *const extra_endpoint_paths[EXTRA_ENDPOINTS_MAX] = {NEMO_GYM_ENDPOINT_PATHS};
const struct router_dialect *const extra_routers[] = {&router_nemo_gym, NULL};
