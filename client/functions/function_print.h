/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions on stdout: as a table for people with what is to be read from it, as comma separated values, and
 * differences likewise. Texts come from servers and are cleaned.
 */
#pragma once

#include "client/functions/function_diff.h"
#include "client/functions/function_findings.h"
#include "client/verb.h"

/* At most `top` rows (0: all); the answer says whose clock it was. The caller frees it. */
char *function_table_text(struct client *c, const struct function_rows *rows, size_t top);
/* What the rows mean, and what they cannot show. */
void function_findings_print(struct client *c, const struct function_rows *rows, const json_t *answer);
/* Servers that gave nothing, on stderr. */
void function_reasons_print(struct client *c, const json_t *answer);
json_t *function_findings_to_json(const struct function_rows *rows);
void function_rows_print_csv(FILE *out, const struct function_rows *rows, size_t top);

void function_changes_print(struct client *c, const struct function_changes *changes, const char *before,
                            const char *after, size_t top);
json_t *function_changes_to_json(const struct function_changes *changes, const char *before,
                                 const char *after, size_t top);
void function_changes_print_csv(FILE *out, const struct function_changes *changes, size_t top);
