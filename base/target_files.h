/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of targets as Prometheus' file_sd has them, in JSON or YAML, by a path or a pattern: profctl reads those of its
 * command line, profd those of profd.conf.
 *
 * The result is one array of their entries, which are not looked into.
 */
#pragma once

#include "base/json.h"

#define TARGET_FILES_MAX 1000
/* Of all files together. */
#define TARGET_BYTES_MAX (16 << 20)

/* path is absolute or of the working directory; *, ? and [] make it a pattern, as glob(7) has it. Blocks. -EPROTO
 * where one is no list, -EFBIG, -ENOENT (also where no file matches), -EACCES, ..., with one line in error. */
int target_files_read(const char *path, json_t **ret, char error[static 300]);
/* The list in the text of one file; the end of the name decides between JSON and YAML, without .json, .yml and .yaml
 * the text does. Pure. -EPROTO with words in error. */
int target_text_parse(const char *name, const char *data, size_t size, json_t **ret, char error[static 200]);
