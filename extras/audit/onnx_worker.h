/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker for one ONNX model, as a child of profctl on loopback (extras/audit/profd-onnx-worker), while
 * the model is measured. ONNX Runtime's profile remains in the directory that the caller names.
 */
#pragma once

#include "base/problem.h"
#include <sys/types.h>

#define ONNX_READY_NS INT64_C(300000000000) /* a large model is read from a slow disk */
#define ONNX_END_NS   INT64_C(120000000000) /* its profile is written in this time */

struct onnx_worker {
    pid_t pid;
    int from; /* its stdout */
    char *url;
};

/* Waits until the worker serves. Its stderr is shown to the user. */
int onnx_worker_start(const char *model, const char *tokenizer, const char *profile_dir,
                      struct onnx_worker *ret, struct problem *p);
/* Ends the worker; *ret_profile, owned by the caller, is the path of the profile, NULL if none was
 * written. */
void onnx_worker_stop(struct onnx_worker *w, char **ret_profile);
