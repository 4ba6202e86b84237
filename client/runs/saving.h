/* SPDX-License-Identifier: Apache-2.0 */
/* --save-as: a run in another tool's JSON, into a file. */
#pragma once

#include "client/transport/connection.h"

struct saving {
    const char *format, *output;
};

/* Lines of an option table, for a member of that name in the verb's options. */
/* clang-format off */
#define SAVING_OPTIONS(type, m) \
    {"save-as", 0, "FORMAT", OPTION_TEXT, offsetof(type, m.format), "write what vllm-bench or aiperf would have written"}, \
    {"output", 'o', "FILE", OPTION_TEXT, offsetof(type, m.output), "File of --save-as (aiperf: a directory, or a .json for its summary alone); default: r3.FORMAT here; - is standard output"}
/* clang-format on */

/* 0, or what is wrong with them, before anything is measured. */
int saving_check(const struct saving *s, struct problem *p);
/* An exit status. */
int saving_write(struct client *c, const struct saving *s, const json_t *run);
