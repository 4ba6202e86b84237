/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler in a process of its own: it looks into other processes and calls the driver of GPUs, which the
 * process that talks to strangers may not. The two share a socket, on which one byte asks and JSON answers:
 * nothing that a stranger wrote reaches the one that may look. It ends with the process that began it.
 */
#pragma once

#include "daemon/load/sampler.h"

struct sampling;

/* From a process with one thread, before it has secrets. The first look is taken when it returns. -EIO where
 * that takes longer than 30 s. */
int sampling_new(const struct sampler_target *targets, size_t n, struct sampling **ret);
/* As sampler_result(), once; NULL where the sampler does not answer. */
json_t *sampling_result(struct sampling *s);
struct sampling *sampling_free(struct sampling *s);
