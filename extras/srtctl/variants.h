/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one file of srtctl describes: a job, or several that share a base (base, override_NAME,
 * zip_override_NAME) or differ in parameters (sweep). Pure.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"

#define RECIPE_VARIANTS_MAX 1000
/* Of all variants of a file together, each counted as large as the file and what is put into it. */
#define RECIPE_VARIANTS_BYTES_MAX (16 << 20)

struct recipe_variant {
    char *name;              /* "lowmem", "tp_sweep_0", "mem0.85_conc256"; NULL: the file is one job */
    bool by_name_only;       /* the base of others: srtctl runs it only where it is named */
    json_t *root;            /* of the job, nothing left to resolve */
    json_t *lines, *columns; /* of its keys, in the file */
};

struct recipe_variants {
    struct recipe_variant *items;
    size_t n, cap;
};

/* All variants of a file. -EINVAL with a problem that has the place. */
int recipe_variants_read(const char *path, const char *data, size_t size, struct recipe_variants *ret,
                         struct problem *p);
/*
 * The one that is named, as listed or as srtctl's own selectors have it ("override_lowmem",
 * "zip_override_tp_sweep[0]", "base"); NULL names the only one. NULL with a problem that lists them.
 */
const struct recipe_variant *recipe_variants_find(const struct recipe_variants *v, const char *path,
                                                  const char *name, struct problem *p);
void recipe_variants_done(struct recipe_variants *v);
