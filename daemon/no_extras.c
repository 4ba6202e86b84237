/* SPDX-License-Identifier: Apache-2.0 */
/* The tables that optional modules (extras/) add to, for a build with -Dextras=false. */
#include "daemon/api/routes.h"
#include "daemon/collect/store.h"
#include "daemon/fleet/evidence.h"
#include "daemon/fleet/router.h"
#include "daemon/session/internal.h"
#include <errno.h>

const struct engine_ops *const extra_engines[] = {NULL};
const struct evidence extra_evidence[] = {{0}};
const char extra_engine_titles[] = "";
const char *const extra_endpoint_paths[EXTRA_ENDPOINTS_MAX] = {NULL};
const struct router_dialect *const extra_routers[] = {NULL};
const struct answer_recorder *const extra_recorders[] = {NULL};
const struct store_layout *const extra_store_layouts[] = {NULL};
const struct route extra_routes[] = {{0}};
const size_t n_extra_routes = 0;

static int refuse_job(const json_t *value, struct job_request *r, struct problem *p)
{
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "job: profd was built without extras");
    problem_remedy(p, "Build profd with -Dextras=true.");
    return -EINVAL;
}

const struct request_extension extra_request_members[] = {{"job", refuse_job}, {NULL, NULL}};
