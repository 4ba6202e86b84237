/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the dialects share with the table. Not for others, who use router.h.
 */
#pragma once

#include "base/util.h"
#include "daemon/fleet/router.h"

extern const struct router_dialect router_vllm, router_sglang, router_smg, router_list, router_dynamo,
    router_lmdeploy, router_generic, router_nemo_gym;

/* "workers" of an answer, where that is an array. */
const json_t *router_workers_array(const json_t *root);
