/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker for one ONNX model, as a child of profctl on loopback (extras/audit/profd-onnx-worker), for as
 * long as it is measured. What ONNX Runtime wrote of what it ran is left in the directory that the caller
 * names.
 */
#pragma once

#include "base/problem.h"
#include <sys/types.h>

#define ONNX_READY_NS INT64_C(300000000000) /* a large model is read from a slow disk */
#define ONNX_END_NS   INT64_C(120000000000) /* its profile is written then */

struct onnx_worker {
    pid_t pid;
    int from; /* its stdout */
    char *url;
};

/* Waits until it serves. What it says on stderr is the user's to read. */
int onnx_worker_start(const char *model, const char *tokenizer, const char *profile_dir,
                      struct onnx_worker *ret, struct problem *p);
/* Ends it; *ret_profile, the caller's, is the path of the profile, NULL where it wrote none. */
void onnx_worker_stop(struct onnx_worker *w, char **ret_profile);
