/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures with a worker's tokenizer what the words of synthetic prompts cost, so that prompts have exactly
 * as many tokens as were asked for. One of them is counted as a whole in the end: where it has not, the
 * tokenizer does not add up, and lengths stay estimates.
 */
#pragma once

#include "daemon/load/ask.h"

struct calibration;

/* done(exact) comes once, never before it returns. Calls are the caller's: caller_free() comes before
 * calibration_free(). */
struct calibration *calibration_start(struct caller *caller, const struct order *order,
                                      const struct target *target, const char *model, struct prompts *prompts,
                                      void (*done)(bool exact, void *arg), void *arg);
struct calibration *calibration_free(struct calibration *c);
