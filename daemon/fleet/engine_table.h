/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the engines share with the table: their operations, and the words for what is common to
 * them all. Not for other rooms, which use engine.h.
 */
#pragma once

#include "daemon/fleet/engine.h"

extern const struct engine_ops engine_vllm, engine_sglang, engine_rtp_llm, engine_dynamo,
    engine_dynamo_sglang, engine_dynamo_vllm, engine_nemo_gym;

/* As steps_since_launch() of struct engine_ops. */
double sglang_steps_since_launch(const char *metrics, size_t size, const struct worker *w);
/* Marks a worker as not profilable, and why. */
void worker_refuse(struct worker *w, const char *remedy, const char *format, ...) _printf_(3, 4);
/* key is "token_file" or "admin_token_file". */
void worker_needs_credentials(struct worker *w, const char *key);
/* The JSON of a 200, NULL for anything else. */
const json_t *answered(const struct answers *a, enum question q);
/* "owned_by" of the first model. */
const char *answered_model_owner(const struct answers *a);
/* The model's name where the router gave none: of /v1/models, else other (may be NULL). */
void take_model(struct worker *w, const struct answers *a, const char *other);
/* Size of a parallel group; 0 for nonsense. */
int json_get_size(const json_t *object, const char *key);
/* "POST PATH answered 500 Internal Server Error: MESSAGE", with the message of an OpenAI-style error. */
void explain_answer(struct problem *p, const char *path, int status, const char *body);
