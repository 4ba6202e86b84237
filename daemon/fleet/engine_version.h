/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Versions of engines and of PyTorch, as their Python packages write them: "0.30.0", "v0.30.0rc2", "0.5.15.post1",
 * "0.30.1.dev20+g017e9f444", and whether a version has a change. Pure; the texts are untrusted.
 */
#pragma once

#include "base/util.h"

#define VERSION_PARTS_MAX 4

/* In the order of releases: 0.30.0.dev1 < 0.30.0a1 < 0.30.0b1 < 0.30.0rc1 < 0.30.0 < 0.30.0.post1. */
enum version_stage {
    VERSION_DEV,
    VERSION_ALPHA,
    VERSION_BETA,
    VERSION_CANDIDATE,
    VERSION_RELEASE,
    VERSION_POST,
};

struct engine_version {
    unsigned parts[VERSION_PARTS_MAX]; /* missing ones are 0 */
    enum version_stage stage;
    unsigned stage_number;
    bool is_dev; /* built from a commit after or before that: ".devN", or "+gHASH" */
};

/* -EINVAL for what is no version of a package (NULL, "main", "0.x"): nothing can be said by it. */
int engine_version_parse(const char *text, struct engine_version *ret);
/* < 0, 0, > 0: one is older than, the same as, newer than other. ".devN" and "+..." are left out of the comparison. */
int engine_version_compare(const struct engine_version *one, const struct engine_version *other);

enum version_answer { VERSION_NO, VERSION_YES, VERSION_UNCERTAIN };

/* A change of an engine: no version before `not_before` has it, and each from `since` on. Between them, and of builds
 * from source near them, it is not known. */
struct version_change {
    const char *not_before, *since;
};

enum version_answer version_has(const char *version, const struct version_change *change);
