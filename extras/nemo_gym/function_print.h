/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions on stdout, as a table in the format that the client asks for, with what is to be read from it for
 * people; and differences likewise. Texts come from servers and are cleaned.
 */
#pragma once

#include "client/transport/connection.h"
#include "extras/nemo_gym/function_diff.h"
#include "extras/nemo_gym/function_findings.h"

/* At most `top` rows (0: all). An exit status. */
int function_rows_print(struct client *c, const struct function_rows *rows, size_t top);
/* The same as text, for what is drawn again. The caller frees it. */
char *function_table_text(struct client *c, const struct function_rows *rows, size_t top);
/* What the rows mean, and what they cannot show. */
void function_findings_print(struct client *c, const struct function_rows *rows, const json_t *answer);
/* Servers that gave nothing, on stderr. */
void function_reasons_print(struct client *c, const json_t *answer);
json_t *function_findings_to_json(const struct function_rows *rows);

int function_changes_print(struct client *c, const struct function_changes *changes, const char *before,
                           const char *after, size_t top);
json_t *function_changes_to_json(const struct function_changes *changes, const char *before,
                                 const char *after, size_t top);
