/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles of functions kept under a name, to be compared later: one JSON file each, the answer as it was, in
 * $XDG_STATE_HOME/profd/functions (else ~/.local/state). They are the user's, not profd's, so that they
 * outlive the catalog, and a profd on another machine needs to know nothing of them.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"

#define BASELINE_NAME_MAX 64

/* Replaces one of that name, whole or not at all. -EINVAL for a name that is none (letters, digits and "._-",
 * and no id of a session), and the errors of files. */
int baseline_save(const char *name, const json_t *answer, struct problem *p);
/* The caller drops it. -ENOENT, -EPROTO where it is no such file. */
int baseline_load(const char *name, json_t **ret, struct problem *p);
