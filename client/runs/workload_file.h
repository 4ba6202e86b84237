/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A workload in a file that people write (docs/workload.md): YAML, and so JSON too, read into the object that
 * profd takes.
 *
 * Says here what is wrong with a single member, with its line. What does not fit together only profd knows.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"

#define WORKLOAD_FILE_MAX (16 << 20)

/* Pure: name is said in errors. *ret may have prompts_file. */
int workload_parse_text(const char *data, size_t size, const char *name, json_t **ret, struct problem *p);
/* A file, with the prompts of its prompts_file, which is looked for beside it. */
int workload_read(const char *path, json_t **ret, struct problem *p);
/* JSON or YAML of any shape: the body of --template. */
int template_read(const char *path, json_t **ret, struct problem *p);
